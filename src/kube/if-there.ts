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

/**
 * Makes an object, or finds the one that an earlier try has made, whose answer was lost: `isOwn` tells it by what is there. Rejects with KubeError, with
 * ALREADY_EXISTS where another has the name.
 */
export async function createOrFind<T extends KubeObject>(
  client: Pick<KubeClient, 'create' | 'get'>,
  type: ResourceType,
  wanted: T,
  isOwn: (existing: T) => boolean,
  options: CallOptions = {},
): Promise<{ readonly object: T; readonly isNew: boolean }> {
  try {
    return { object: await client.create<T>(type, wanted, options), isNew: true };
  } catch (error) {
    if (!isKubeError(error, 'ALREADY_EXISTS')) throw error;
    const object = await getIfThere<T>(client, type, wanted.metadata, options);
    if (!object || !isOwn(object)) throw error;
    return { object, isNew: false };
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
