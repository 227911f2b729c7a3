import { errorMessage, isRecord } from '../../base/index.ts';
import type { ApiObject } from '../object.ts';
import type { Address, Entry } from './entry.ts';
import { StoreError } from './errors.ts';
import { unseal } from './seal.ts';

/** What the database holds: one `state` record, and one record for each object. */
export const stateKey = 'm!state';
export const objectPrefix = 'o!';
export const objectEnd = 'o"';
/** 2: each record is sealed (`seal`). */
export const format = 2;

/**
 * Written with every batch. `revisionSum` (modulo 2^48) and `count` are over all objects: LevelDB drops a damaged stretch of its
 * log without a word, and these two no longer fit when it did.
 */
export interface StateRecord {
  readonly format: number;
  readonly revision: number;
  readonly count: number;
  readonly revisionSum: number;
}

export const emptyState: StateRecord = { format, revision: 1, count: 0, revisionSum: 0 };

const modulus = 2 ** 48;

export function addToSum(sum: number, change: number): number {
  return (((sum + change) % modulus) + modulus) % modulus;
}

export function recordKey({ collection, namespace, name }: Address): string {
  return `${objectPrefix}${collection}!${namespace}!${name}`;
}

function corrupt(what: string, cause?: unknown): StoreError {
  return new StoreError('STORE_CORRUPT', what, { cause });
}

export function parseState(text: string | undefined): StateRecord | undefined {
  if (text === undefined) return undefined;
  const { value } = parse(stateKey, text);
  const { format: written, revision, count, revisionSum } = value;
  const numbers = [written, revision, count, revisionSum];
  if (!numbers.every((number) => Number.isSafeInteger(number))) throw corrupt(`record ${stateKey} is malformed`);
  const state = value as unknown as StateRecord;
  if (state.format > format) {
    const text = `the database has format ${state.format}, this version reads up to ${format}: use the newer version`;
    throw new StoreError('STORE_TOO_NEW', text);
  }
  return state;
}

export function parseEntry(key: string, text: string): Entry {
  const [collection, namespace, name, ...rest] = key.slice(objectPrefix.length).split('!');
  if (!collection || namespace === undefined || !name || rest.length > 0) throw corrupt(`record ${key} has a bad key`);
  const { json, value: object } = parse(key, text);
  if (!isRecord(object.metadata)) throw corrupt(`record ${key} has no metadata`);
  const revision = Number(object.metadata.resourceVersion);
  if (!Number.isSafeInteger(revision) || revision < 1) throw corrupt(`record ${key} has no resourceVersion`);
  if (object.metadata.name !== name) throw corrupt(`record ${key} holds an object of another name`);
  return { collection, namespace, name, revision, object: object as ApiObject, json };
}

function parse(key: string, text: string): { json: string; value: Record<string, unknown> } {
  const json = unseal(key, text);
  if (json === undefined) throw corrupt(`record ${key} is not what was written`);
  let value: unknown;
  try {
    value = JSON.parse(json);
  } catch (cause) {
    throw corrupt(`record ${key} is no JSON: ${errorMessage(cause)}`, cause);
  }
  if (!isRecord(value)) throw corrupt(`record ${key} is no object`);
  return { json, value };
}
