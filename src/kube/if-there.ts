import type { KubeObject, ResourceType } from '../api/index.ts';
import type { CallOptions, KubeClient } from './client.ts';
import { isKubeError } from './errors.ts';
import type { ObjectRef } from './paths.ts';

/** The object as the API server has it; undefined: there is none. Rejects as `KubeClient.get` does with any other failure. */
export async function getIfThere<T extends KubeObject>(
  client: Pick<KubeClient, 'get'>,
  type: ResourceType,
  ref: ObjectRef,
  options: CallOptions = {},
): Promise<T | undefined> {
  return orMissing(client.get<T>(type, ref, options));
}

/** What a list or another question gives; undefined: the API server does not know what is asked for. */
export async function orMissing<T>(question: Promise<T>): Promise<T | undefined> {
  try {
    return await question;
  } catch (error) {
    if (isKubeError(error, 'NOT_FOUND')) return undefined;
    throw error;
  }
}

/** Awaits a write that is about one UID or version; false: that object is gone, or another one, so there is nothing to write to. */
export async function writeIfThere(write: Promise<unknown>): Promise<boolean> {
  try {
    await write;
    return true;
  } catch (error) {
    if (isKubeError(error, 'NOT_FOUND', 'CONFLICT')) return false;
    throw error;
  }
}
