import { jsonRecord } from '../../base/index.ts';
import type { ApiType } from '../api-type.ts';
import {
  ApiError,
  badRequest,
  type FieldError,
  forbiddenField,
  invalidOptions,
  notFound,
  unsupportedField,
} from '../errors.ts';
import type { ApiObject } from '../object.ts';
import { collectionOf, type Entry, objectKey, type Store } from '../store/index.ts';
import { addressOf, type Target } from './context.ts';
import { parseFieldSelector, parseLabelSelector } from './selectors.ts';

/** Query parameters of a list, as text. */
export interface ListQuery {
  readonly labelSelector?: string;
  readonly fieldSelector?: string;
  readonly limit?: string;
  readonly continue?: string;
  readonly resourceVersion?: string;
  readonly resourceVersionMatch?: string;
}

export interface ListResult {
  readonly entries: readonly Entry[];
  readonly revision: number;
  /** Set when there is more. */
  readonly continue: string | undefined;
  /** Known only without selectors. */
  readonly remaining: number | undefined;
}

export type Matches = (object: ApiObject) => boolean;

export function parseSelectors(type: ApiType, query: Pick<ListQuery, 'labelSelector' | 'fieldSelector'>): Matches {
  const byLabel = parseLabelSelector(query.labelSelector);
  const byField = parseFieldSelector(query.fieldSelector, type.fields);
  return (object) => byLabel(object.metadata.labels) && byField(object);
}

/** A resourceVersion of a request; undefined for "any": absent, empty or 0. Throws ApiError BAD_REQUEST. */
export function parseRevision(text: string | undefined): number | undefined {
  if (text === undefined || text === '' || text === '0') return undefined;
  const revision = Number(text);
  if (/^\d+$/.test(text) && Number.isSafeInteger(revision)) return revision;
  throw badRequest(`Invalid value: "${text}": resourceVersion must be a whole number that this server gave out`);
}

/** As a server that waits in vain for a version it never had. Clients list again. */
export function checkNotFuture(store: Store, revision: number): void {
  if (revision <= store.revision) return;
  throw new ApiError('TIMEOUT', `Too large resource version: ${revision}, current: ${store.revision}`, {
    details: {
      causes: [{ reason: 'ResourceVersionTooLarge', message: 'Too large resource version' }],
      retryAfterSeconds: 1,
    },
  });
}

export const expiredMessage = (revision: number, oldest: number) => `too old resource version: ${revision} (${oldest})`;

export class Reader {
  readonly #store: Store;

  constructor(store: Store) {
    this.#store = store;
  }

  get(type: ApiType, target: Target): Entry {
    const entry = this.#store.get(addressOf(type, target));
    if (!entry) throw notFound(type, target.name);
    return entry;
  }

  /** `namespace` undefined lists all of them. Throws ApiError: BAD_REQUEST, EXPIRED, TIMEOUT. */
  list(type: ApiType, namespace: string | undefined, query: ListQuery): ListResult {
    const matches = parseSelectors(type, query);
    const limit = parseLimit(query.limit);
    const { all, revision, start } = this.#snapshot(type, namespace, query);
    const rest = start === undefined ? all : all.filter((entry) => objectKey(entry.namespace, entry.name) > start);
    const hasSelector = Boolean(query.labelSelector || query.fieldSelector);
    const found = hasSelector ? rest.filter(({ object }) => matches(object)) : rest;
    if (limit === 0 || found.length <= limit) {
      return { entries: found, revision, continue: undefined, remaining: undefined };
    }
    const entries = found.slice(0, limit);
    const last = entries.at(-1);
    return {
      entries,
      revision,
      continue: encodeContinue({ revision, start: last ? objectKey(last.namespace, last.name) : '' }),
      remaining: hasSelector ? undefined : found.length - limit,
    };
  }

  #snapshot(type: ApiType, namespace: string | undefined, query: ListQuery) {
    const store = this.#store;
    const collection = collectionOf(type);
    const now = () => ({ all: store.list(collection, namespace), revision: store.revision, start: undefined });
    const wanted = parseRevision(query.resourceVersion);
    if (query.continue) {
      if (wanted !== undefined) throw badRequest('specifying resource version is not allowed when using continue');
      return this.#continued(collection, namespace, decodeContinue(query.continue));
    }
    checkMatch(query);
    if (wanted === undefined) return now();
    checkNotFuture(store, wanted);
    if (query.resourceVersionMatch !== 'Exact') return now();
    const all = store.listAt(collection, namespace, wanted);
    if (!all) throw new ApiError('EXPIRED', expiredMessage(wanted, store.oldestRevision));
    return { all, revision: wanted, start: undefined };
  }

  #continued(collection: string, namespace: string | undefined, token: ContinueToken) {
    const store = this.#store;
    const { revision, start } = token;
    if (revision === inconsistent) return { all: store.list(collection, namespace), revision: store.revision, start };
    const all = store.listAt(collection, namespace, revision);
    if (all) return { all, revision, start };
    const text =
      'The provided continue parameter is too old to display a consistent list result. You can start a new list without ' +
      'the continue parameter, or use the continue token in this response to retrieve the remainder of the results.';
    throw new ApiError('EXPIRED', text, { continueToken: encodeContinue({ revision: inconsistent, start }) });
  }
}

interface ContinueToken {
  readonly revision: number;
  readonly start: string;
}

/** Revision of a token that goes on from the present state. */
const inconsistent = -1;

function encodeContinue({ revision, start }: ContinueToken): string {
  return Buffer.from(JSON.stringify({ v: 1, rv: revision, start }), 'utf8').toString('base64url');
}

function decodeContinue(text: string): ContinueToken {
  const { rv, start } = jsonRecord(Buffer.from(text, 'base64url').toString('utf8')) ?? {};
  if (Number.isSafeInteger(rv) && typeof start === 'string') return { revision: Number(rv), start };
  throw badRequest('continue key is not valid');
}

function parseLimit(text: string | undefined): number {
  if (text === undefined || text === '') return 0;
  if (!/^\d{1,9}$/.test(text)) throw badRequest(`invalid limit "${text}": it must be a whole number`);
  return Number(text);
}

function checkMatch({ resourceVersion, resourceVersionMatch }: ListQuery): void {
  if (!resourceVersionMatch) return;
  if (resourceVersionMatch !== 'Exact' && resourceVersionMatch !== 'NotOlderThan') {
    throw refusedMatch(unsupportedField('resourceVersionMatch', resourceVersionMatch, ['Exact', 'NotOlderThan', '']));
  }
  if (!resourceVersion) throw refusedMatch(matchForbidden('is forbidden unless resourceVersion is provided'));
  if (resourceVersionMatch === 'Exact' && resourceVersion === '0') {
    throw refusedMatch(matchForbidden('"Exact" is forbidden for resourceVersion "0"'));
  }
}

const refusedMatch = (error: FieldError) => invalidOptions('ListOptions', error);
const matchForbidden = (why: string) => forbiddenField('resourceVersionMatch', `resourceVersionMatch ${why}`);
