import type { ApiObject } from '../object.ts';

/** Names one kind of thing in the store: `/pods`, `kubevirt.io/virtualmachines`. */
export type Collection = string;

export interface Address {
  readonly collection: Collection;
  /** Empty for what is cluster-scoped. */
  readonly namespace: string;
  readonly name: string;
}

/** An object as stored, with its JSON text so that it is encoded once. */
export interface Entry extends Address {
  readonly revision: number;
  readonly object: ApiObject;
  readonly json: string;
}

export interface StoreEvent {
  readonly type: 'ADDED' | 'MODIFIED' | 'DELETED';
  readonly revision: number;
  /** The new state; of a deletion the last state, with the revision of the deletion. */
  readonly entry: Entry;
  readonly previous: Entry | undefined;
}

export function collectionOf(type: { readonly group: string; readonly resource: string }): Collection {
  return `${type.group}/${type.resource}`;
}

/** Identity inside a collection; sorts by namespace, then name. */
export function objectKey(namespace: string, name: string): string {
  return `${namespace}/${name}`;
}
