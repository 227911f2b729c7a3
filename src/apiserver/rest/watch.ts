import type { Response } from 'express';
import { apiVersionOf } from '../../api/index.ts';
import type { Clock } from '../../base/index.ts';
import { ApiError, badRequest, forbiddenField, invalidOptions } from '../errors.ts';
import type { ApiObject } from '../object.ts';
import { checkNotFuture, expiredMessage, type ListQuery, parseRevision, parseSelectors } from '../objects/reader.ts';
import { partialMetadata } from '../print/table.ts';
import { collectionOf, type Entry, type StoreEvent } from '../store/entry.ts';
import type { Store } from '../store/store.ts';
import { tableOf, type View } from './respond.ts';

export interface WatchQuery extends ListQuery {
  readonly allowWatchBookmarks?: string;
  readonly timeoutSeconds?: string;
  readonly sendInitialEvents?: string;
}

export interface WatchOptions {
  readonly bookmarkIntervalMs: number;
  readonly bufferBytes: number;
}

export interface WatchDeps {
  readonly store: Store;
  readonly clock: Clock;
  /** Called once when the watch has ended. */
  readonly onEnd: () => void;
}

type EventType = 'ADDED' | 'MODIFIED' | 'DELETED';

const minLifeMs = 30 * 60_000;
const maxLifeMs = 24 * 3600_000;

/**
 * One stream of changes. Selectors turn changes into ADDED and DELETED where an object begins or ceases to match. A client that
 * reads too slowly is sent away with 410 instead of filling memory.
 */
export class Watch {
  readonly #response: Response;
  readonly #view: View;
  readonly #options: WatchOptions;
  readonly #deps: WatchDeps;
  readonly #namespace: string | undefined;
  readonly #matches: (object: ApiObject) => boolean;
  readonly #query: WatchQuery;
  readonly #releases: (() => void)[] = [];
  /** Unsent bytes allowed: what was sent as the state at the start may wait on top of the usual. */
  #allowance: number;
  #isReplaying = true;
  #hasSentColumns = false;
  #ended = false;

  /** Throws ApiError for a query that cannot be served; nothing has been sent then. */
  constructor(
    request: { readonly view: View; readonly namespace: string | undefined; readonly query: WatchQuery },
    response: Response,
    options: WatchOptions,
    deps: WatchDeps,
  ) {
    this.#response = response;
    this.#view = request.view;
    this.#namespace = request.namespace;
    this.#query = request.query;
    this.#options = options;
    this.#allowance = options.bufferBytes;
    this.#deps = deps;
    this.#matches = parseSelectors(request.view.type, request.query);
    checkInitialEvents(request.query);
  }

  start(): void {
    const { store, clock } = this.#deps;
    const revision = parseRevision(this.#query.resourceVersion);
    if (revision !== undefined) checkNotFuture(store, revision);
    const lifeMs = lifetimeMs(this.#query.timeoutSeconds);
    this.#response.status(200).set('Content-Type', 'application/json').set('Cache-Control', 'no-cache, private');
    this.#response.flushHeaders();
    this.#response.on('close', () => this.end());
    this.#response.on('error', () => this.end());
    this.#releases.push(clock.schedule(lifeMs, () => this.#finish()));
    if (this.#isBookmarked) this.#scheduleBookmark();
    if (this.#query.sendInitialEvents === 'true') this.#sendState(true);
    else if (revision === undefined) this.#sendState(false);
    else if (!this.#sendSince(revision)) return;
    this.#isReplaying = false;
    if (this.#ended) return;
    this.#releases.push(store.subscribe(collectionOf(this.#view.type), (event) => this.#onEvent(event)));
  }

  /** Ends the stream; safe to call again. */
  end(): void {
    if (this.#ended) return;
    this.#ended = true;
    for (const release of this.#releases.splice(0)) release();
    this.#response.end();
    this.#cutOffLater();
    this.#deps.onEnd();
  }

  get #isBookmarked(): boolean {
    return this.#query.allowWatchBookmarks === 'true';
  }

  #sendState(withEndMark: boolean): void {
    const { store } = this.#deps;
    for (const entry of store.list(collectionOf(this.#view.type), this.#namespace)) {
      if (this.#matches(entry.object)) this.#sendEntry('ADDED', entry);
    }
    if (withEndMark) this.#sendBookmark({ 'k8s.io/initial-events-end': 'true' });
  }

  #sendSince(revision: number): boolean {
    const { store } = this.#deps;
    const changes = store.changesSince(revision);
    if (changes) {
      for (const event of changes) this.#onEvent(event);
      return true;
    }
    this.#fail(new ApiError('EXPIRED', expiredMessage(revision, store.oldestRevision)));
    return false;
  }

  #onEvent(event: StoreEvent): void {
    const { entry, previous } = event;
    if (this.#ended || entry.collection !== collectionOf(this.#view.type)) return;
    if (this.#namespace !== undefined && entry.namespace !== this.#namespace) return;
    const matchedBefore = previous !== undefined && this.#matches(previous.object);
    const matchesNow = event.type !== 'DELETED' && this.#matches(entry.object);
    if (matchesNow) this.#sendEntry(matchedBefore ? 'MODIFIED' : 'ADDED', entry);
    else if (matchedBefore)
      this.#sendEntry('DELETED', event.type === 'DELETED' ? entry : withRevision(previous, entry));
  }

  #sendEntry(type: EventType, entry: Entry): void {
    const json = this.#view.representation.kind === 'plain' ? entry.json : JSON.stringify(this.#encode(entry.object));
    this.#write(`{"type":"${type}","object":${json}}\n`);
  }

  #encode(object: ApiObject): unknown {
    if (this.#view.representation.kind === 'partial') return partialMetadata(object);
    const withColumns = !this.#hasSentColumns;
    this.#hasSentColumns = true;
    const { resourceVersion } = object.metadata;
    return tableOf([object], { ...this.#view, now: this.#deps.clock.now() }, { resourceVersion }, withColumns);
  }

  #sendBookmark(annotations?: Readonly<Record<string, string>>): void {
    const { type, representation } = this.#view;
    const metadata = {
      resourceVersion: String(this.#deps.store.revision),
      creationTimestamp: null,
      ...(annotations ? { annotations } : {}),
    };
    const object =
      representation.kind === 'table'
        ? tableOf([], this.#view, metadata, false)
        : { kind: type.kind, apiVersion: apiVersionOf(type), metadata };
    this.#write(`{"type":"BOOKMARK","object":${JSON.stringify(object)}}\n`);
  }

  #scheduleBookmark(): void {
    const cancel = this.#deps.clock.schedule(this.#options.bookmarkIntervalMs, () => {
      const index = this.#releases.indexOf(cancel);
      if (index >= 0) this.#releases.splice(index, 1);
      if (this.#ended) return;
      this.#sendBookmark();
      this.#scheduleBookmark();
    });
    this.#releases.push(cancel);
  }

  /** The agreed time is over: a last bookmark saves the client a long catching up. */
  #finish(): void {
    if (this.#isBookmarked && !this.#ended) this.#sendBookmark();
    this.end();
  }

  #fail(error: ApiError): void {
    if (this.#ended) return;
    this.#response.write(`{"type":"ERROR","object":${JSON.stringify(error.toStatus())}}\n`);
    this.end();
  }

  #write(line: string): void {
    if (this.#ended) return;
    if (this.#isReplaying) this.#allowance += line.length;
    this.#response.write(line);
    if (this.#response.writableLength <= this.#allowance) return;
    this.#fail(new ApiError('EXPIRED', 'this watch was read too slowly and has been ended; list again'));
  }

  /** What is buffered cannot be taken back; a client that does not read the rest is cut off. */
  #cutOffLater(): void {
    if (this.#response.closed) return;
    const cancel = this.#deps.clock.schedule(slowClientMs, () => this.#response.destroy());
    this.#response.once('close', cancel);
  }
}

const slowClientMs = 10_000;

/** An object that ceased to match is shown as it was, at the revision of the change. */
function withRevision(previous: Entry, current: Entry): Entry {
  const metadata = { ...previous.object.metadata, resourceVersion: String(current.revision) };
  const object: ApiObject = { ...previous.object, metadata };
  return { ...previous, object, json: JSON.stringify(object) };
}

function lifetimeMs(timeoutSeconds: string | undefined): number {
  if (timeoutSeconds === undefined || timeoutSeconds === '' || timeoutSeconds === '0') {
    return minLifeMs * (1 + Math.random());
  }
  if (!/^\d{1,7}$/.test(timeoutSeconds)) throw badRequest(`invalid timeoutSeconds "${timeoutSeconds}"`);
  return Math.min(Number(timeoutSeconds) * 1000, maxLifeMs);
}

function checkInitialEvents({ sendInitialEvents, resourceVersionMatch }: WatchQuery): void {
  const refuse = (why: string) => invalidOptions('ListOptions', forbiddenField('resourceVersionMatch', why));
  if (sendInitialEvents === undefined) {
    if (!resourceVersionMatch) return;
    throw refuse('resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided');
  }
  if (sendInitialEvents !== 'true' && sendInitialEvents !== 'false')
    throw badRequest('sendInitialEvents: true or false');
  if (resourceVersionMatch === 'NotOlderThan') return;
  throw refuse('sendInitialEvents requires setting resourceVersionMatch to NotOlderThan');
}
