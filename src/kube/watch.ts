import type { IncomingMessage } from 'node:http';
import type { KubeObject, StatusObject } from '../api/index.ts';
import { errorMessage } from '../base/index.ts';
import { KubeError } from './errors.ts';

export type WatchEvent<T extends KubeObject> =
  | { readonly type: 'ADDED' | 'MODIFIED' | 'DELETED'; readonly object: T }
  | { readonly type: 'BOOKMARK'; readonly resourceVersion: string }
  | { readonly type: 'ERROR'; readonly status: StatusObject };

export interface WatchLimits {
  /** Longest line: one object. */
  readonly maxLineBytes: number;
  /** Silence after which the connection counts as dead. */
  readonly idleTimeoutMs: number;
}

/**
 * Events of a watch answer, one JSON document per line. Ends when the server ends the answer; throws BAD_RESPONSE for
 * what is no event, UNREACHABLE when the stream breaks, TIMEOUT after silence, or the signal's reason.
 */
export async function* readWatch<T extends KubeObject>(
  reply: IncomingMessage,
  limits: WatchLimits,
  signal: AbortSignal,
): AsyncGenerator<WatchEvent<T>> {
  let idle = false;
  const timer = setTimeout(() => {
    idle = true;
    reply.destroy();
  }, limits.idleTimeoutMs);
  const lines = new LineSplitter(limits.maxLineBytes);
  try {
    for await (const chunk of reply as AsyncIterable<Buffer>) {
      timer.refresh();
      for (const line of lines.push(chunk)) yield parseEvent<T>(line);
    }
    if (idle) throw new KubeError('TIMEOUT', `watch: no byte for ${limits.idleTimeoutMs} ms`);
  } catch (cause) {
    if (signal.aborted) throw signal.reason;
    if (idle) throw new KubeError('TIMEOUT', `watch: no byte for ${limits.idleTimeoutMs} ms`, { cause });
    if (cause instanceof KubeError) throw cause;
    throw new KubeError('UNREACHABLE', `watch broke: ${errorMessage(cause)}`, { cause });
  } finally {
    clearTimeout(timer);
    reply.destroy();
  }
  if (lines.pendingBytes > 0) throw new KubeError('BAD_RESPONSE', 'watch ended in the middle of a line');
}

/** Cuts a byte stream into lines without ever holding more than one of them. */
export class LineSplitter {
  readonly #maxBytes: number;
  #parts: Buffer[] = [];
  pendingBytes = 0;

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  /** Lines that `chunk` completes, empty ones left out. Throws BAD_RESPONSE when a line is too long. */
  *push(chunk: Buffer): Generator<string> {
    let from = 0;
    for (;;) {
      const end = chunk.indexOf(10, from);
      if (end < 0) break;
      this.#keep(chunk.subarray(from, end));
      from = end + 1;
      const line = this.#parts.length === 1 ? String(this.#parts[0]) : Buffer.concat(this.#parts).toString('utf8');
      this.#parts = [];
      this.pendingBytes = 0;
      if (line.trim() !== '') yield line;
    }
    if (from < chunk.length) this.#keep(chunk.subarray(from));
  }

  #keep(part: Buffer): void {
    this.pendingBytes += part.length;
    if (this.pendingBytes > this.#maxBytes) {
      throw new KubeError('BAD_RESPONSE', `watch: a line of more than ${this.#maxBytes} bytes`);
    }
    this.#parts.push(part);
  }
}

/** Throws BAD_RESPONSE: an event that cannot be read may not be dropped, the cache would lie from then on. */
function parseEvent<T extends KubeObject>(line: string): WatchEvent<T> {
  let event: { type?: unknown; object?: unknown };
  try {
    event = JSON.parse(line);
  } catch (cause) {
    throw new KubeError('BAD_RESPONSE', `watch: a line that is no JSON: ${line.slice(0, 80)}`, { cause });
  }
  const object = event?.object;
  if (typeof object !== 'object' || object === null) throw noEvent(line);
  if (event.type === 'ERROR') return { type: 'ERROR', status: object as StatusObject };
  if (event.type === 'BOOKMARK') {
    const version = (object as Partial<KubeObject>).metadata?.resourceVersion;
    if (typeof version !== 'string') throw noEvent(line);
    return { type: 'BOOKMARK', resourceVersion: version };
  }
  if (event.type !== 'ADDED' && event.type !== 'MODIFIED' && event.type !== 'DELETED') throw noEvent(line);
  return { type: event.type, object: checkedObject<T>(object) };
}

function noEvent(line: string): KubeError {
  return new KubeError('BAD_RESPONSE', `watch: a line that is no event: ${line.slice(0, 80)}`);
}

/** What the cache needs of an object: a name and a version. Throws BAD_RESPONSE. */
export function checkedObject<T extends KubeObject>(value: unknown): T {
  const metadata = (value as Partial<KubeObject> | null)?.metadata;
  if (typeof metadata?.name !== 'string' || metadata.name === '' || typeof metadata.resourceVersion !== 'string') {
    throw new KubeError('BAD_RESPONSE', 'an object without metadata.name or metadata.resourceVersion');
  }
  return value as T;
}
