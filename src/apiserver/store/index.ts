/**
 * Owns: objects on disk: one log of changes with a revision each, its history for watches, what damage looks like.
 * Must not know: types of objects, admission, HTTP.
 */
export { type Loss, lossMessage } from './continuity.ts';
export { type Address, collectionOf, type Entry, objectKey, type StoreEvent } from './entry.ts';
export { StoreError } from './errors.ts';
export { KeyLock } from './key-lock.ts';
export { recordKey } from './records.ts';
export { Store } from './store.ts';
