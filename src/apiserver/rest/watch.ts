import type { Response } from 'express';
import { apiVersionOf } from '../../api/index.ts';
import type { Clock } from '../../base/index.ts';
import { ApiError, badRequest, forbiddenField, invalidOptions } from '../errors.ts';
import type { ApiObject } from '../object.ts';
import { checkNotFuture, expiredMessage, type ListQuery, parseRevision, parseSelectors } from '../objects/index.ts';
import { partialMetadata } from '../print/index.ts';
import { collectionOf, type Entry, type Store, type StoreEvent } from '../store/index.ts';
import { tableOf, type View } from './respond.ts';

export interface WatchQuery extends ListQuery {
  readonly allowWatchBookmarks?: string;
  readonly timeoutSeconds?: string;
  readonly sendInitialEvents?: string;
}

export interface WatchStreamOptions {
  readonly bookmarkIntervalMs: number;
  /** Unsent bytes at which a watch waits for its client. */
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

/** A client that has not taken what was sent to it for so long has gone, or means harm. */
const stalledMs = 60_000;

/**
 * One stream of changes. Selectors turn changes into ADDED and DELETED where an object begins or ceases to match. No more is written
 * than the client takes: the state at the start and what came meanwhile follow as it reads, the latter out of the store's history.
 * Where that is too short the client is sent away with 410 and lists again.
 */
export class Watch {
  readonly #response: Response;
  readonly #view: View;
  readonly #options: WatchStreamOptions;
  readonly #deps: WatchDeps;
  readonly #namespace: string | undefined;
  readonly #matches: (object: ApiObject) => boolean;
  readonly #query: WatchQuery;
  readonly #releases: (() => void)[] = [];
  /** What the client has not been sent yet, line by line; undefined: it has everything, changes are sent as they come. */
  #behind: Iterator<string> | undefined;
  /** While behind: changes up to this one are sent, or in the state at the start. */
  #revision = 0;
  #hasSentColumns = false;
  #ended = false;

  /** Throws ApiError for a query that cannot be served; nothing has been sent then. */
  constructor(
    request: { readonly view: View; readonly namespace: string | undefined; readonly query: WatchQuery },
    response: Response,
    options: WatchStreamOptions,
    deps: WatchDeps,
  ) {
    this.#response = response;
    this.#view = request.view;
    this.#namespace = request.namespace;
    this.#query = request.query;
    this.#options = options;
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
    this.#releases.push(store.subscribe(collectionOf(this.#view.type), (event) => this.#onEvent(event)));
    const withEndMark = this.#query.sendInitialEvents === 'true';
    const isResumed = revision !== undefined && !withEndMark;
    this.#revision = isResumed ? revision : store.revision;
    this.#behind = isResumed ? this.#since() : this.#stateAndSince(withEndMark);
    this.#sendBehind();
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

  /** The state as it is now, then what has changed until all of it is sent. */
  #stateAndSince(withEndMark: boolean): Iterator<string> {
    const entries = this.#deps.store.list(collectionOf(this.#view.type), this.#namespace);
    return this.#linesOf(entries, withEndMark);
  }

  *#linesOf(entries: readonly Entry[], withEndMark: boolean): Generator<string> {
    for (const entry of entries) if (this.#matches(entry.object)) yield this.#line('ADDED', entry);
    if (withEndMark) yield this.#bookmark(this.#revision, { 'k8s.io/initial-events-end': 'true' });
    yield* this.#since();
  }

  /** Throws ApiError EXPIRED when the history does not reach back that far. */
  *#since(): Generator<string> {
    const { store } = this.#deps;
    for (;;) {
      const changes = store.changesSince(this.#revision);
      if (!changes) throw new ApiError('EXPIRED', expiredMessage(this.#revision, store.oldestRevision));
      if (changes.length === 0) return;
      for (const event of changes) {
        const line = this.#lineOf(event);
        this.#revision = event.revision;
        if (line !== undefined) yield line;
      }
    }
  }

  /** Writes what is behind as long as the client takes it. */
  #sendBehind(): void {
    try {
      while (!this.#ended && this.#behind) {
        if (this.#isFull) {
          this.#goOnLater();
          return;
        }
        const { value: line, done } = this.#behind.next();
        if (done) this.#behind = undefined;
        else this.#response.write(line);
      }
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      this.#fail(error);
    }
  }

  get #isFull(): boolean {
    return this.#response.writableLength > this.#options.bufferBytes;
  }

  #goOnLater(): void {
    const cancel = this.#deps.clock.schedule(stalledMs, () => this.#response.destroy());
    this.#releases.push(cancel);
    this.#response.once('drain', () => {
      this.#cancel(cancel);
      this.#sendBehind();
    });
  }

  #cancel(release: () => void): void {
    const index = this.#releases.indexOf(release);
    if (index >= 0) this.#releases.splice(index, 1);
    release();
  }

  #onEvent(event: StoreEvent): void {
    // What comes while the client is behind is in the history.
    if (this.#ended || this.#behind) return;
    const line = this.#lineOf(event);
    if (line === undefined) return;
    this.#response.write(line);
    if (!this.#isFull) return;
    this.#revision = event.revision;
    this.#behind = this.#since();
    this.#goOnLater();
  }

  /** The event that this watch sends for a change; undefined: none. */
  #lineOf({ type, entry, previous }: StoreEvent): string | undefined {
    if (entry.collection !== collectionOf(this.#view.type)) return undefined;
    if (this.#namespace !== undefined && entry.namespace !== this.#namespace) return undefined;
    const matchedBefore = previous !== undefined && this.#matches(previous.object);
    const matchesNow = type !== 'DELETED' && this.#matches(entry.object);
    if (matchesNow) return this.#line(matchedBefore ? 'MODIFIED' : 'ADDED', entry);
    if (!matchedBefore) return undefined;
    return this.#line('DELETED', type === 'DELETED' ? entry : withRevision(previous, entry));
  }

  #line(type: EventType, entry: Entry): string {
    const json = this.#view.representation.kind === 'plain' ? entry.json : JSON.stringify(this.#encode(entry.object));
    return `{"type":"${type}","object":${json}}\n`;
  }

  #encode(object: ApiObject): unknown {
    if (this.#view.representation.kind === 'partial') return partialMetadata(object);
    const withColumns = !this.#hasSentColumns;
    this.#hasSentColumns = true;
    const { resourceVersion } = object.metadata;
    return tableOf([object], { ...this.#view, now: this.#deps.clock.now() }, { resourceVersion }, withColumns);
  }

  #bookmark(revision: number, annotations?: Readonly<Record<string, string>>): string {
    const { type, representation } = this.#view;
    const metadata = {
      resourceVersion: String(revision),
      creationTimestamp: null,
      ...(annotations ? { annotations } : {}),
    };
    const object =
      representation.kind === 'table'
        ? tableOf([], this.#view, metadata, false)
        : { kind: type.kind, apiVersion: apiVersionOf(type), metadata };
    return `{"type":"BOOKMARK","object":${JSON.stringify(object)}}\n`;
  }

  /** To a client that is behind nothing is said of a revision that it has not reached. */
  #sendBookmark(): void {
    if (!this.#ended && !this.#behind) this.#response.write(this.#bookmark(this.#deps.store.revision));
  }

  #scheduleBookmark(): void {
    const cancel = this.#deps.clock.schedule(this.#options.bookmarkIntervalMs, () => {
      this.#cancel(cancel);
      if (this.#ended) return;
      this.#sendBookmark();
      this.#scheduleBookmark();
    });
    this.#releases.push(cancel);
  }

  /** The agreed time is over: a last bookmark saves the client a long catching up. */
  #finish(): void {
    if (this.#isBookmarked) this.#sendBookmark();
    this.end();
  }

  #fail(error: ApiError): void {
    if (this.#ended) return;
    this.#response.write(`{"type":"ERROR","object":${JSON.stringify(error.toStatus())}}\n`);
    this.end();
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
