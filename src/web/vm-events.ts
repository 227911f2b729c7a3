import type { ServerResponse } from 'node:http';
import { makeKey } from '../api/index.ts';
import type { Clock } from '../base/index.ts';
import type { PageRight } from './access.ts';
import type { VmFeed } from './ports.ts';
import type { VmChange, VmList } from './rows.ts';

export interface VmEventsOptions {
  /** Changes are put together for this long. */
  readonly intervalMs: number;
  /** A comment, so that a connection that died is noticed. */
  readonly keepAliveMs: number;
  /** Who has read nothing for this long is cut off. */
  readonly stalledMs: number;
  readonly maxStreams: number;
}

export interface VmEventsDeps {
  readonly feed: VmFeed;
  readonly clock: Clock;
  /** The list without its rows. */
  readonly describe: (right: PageRight) => Omit<VmList, 'rows'>;
}

const defaults: VmEventsOptions = { intervalMs: 200, keepAliveMs: 15_000, stalledMs: 60_000, maxStreams: 64 };

interface Stream {
  readonly response: ServerResponse;
  readonly right: PageRight;
  /** Key → row as JSON, as the reader knows it. Undefined: it knows nothing yet. */
  known: Map<string, string> | undefined;
  /** Problem and notice, as JSON. */
  said: string;
  /** As JSON. */
  nodes: string;
  /** Set while what was written is not read. */
  cancelStalled: (() => void) | undefined;
}

/**
 * The list as server-sent events: all of it first, then what changed. A reader that is behind is sent nothing until it has
 * caught up, then the difference to the newest state: no queue grows for it.
 */
export class VmEvents {
  readonly #options: VmEventsOptions;
  readonly #deps: VmEventsDeps;
  readonly #streams = new Set<Stream>();
  #unsubscribe: (() => void) | undefined;
  #cancelTick: (() => void) | undefined;
  #cancelKeepAlive: (() => void) | undefined;

  constructor(options: Partial<VmEventsOptions>, deps: VmEventsDeps) {
    this.#options = { ...defaults, ...options };
    this.#deps = deps;
  }

  get size(): number {
    return this.#streams.size;
  }

  /** False: there are too many already, and nothing was answered. */
  serve(response: ServerResponse, right: PageRight): boolean {
    if (this.#streams.size >= this.#options.maxStreams) return false;
    const stream: Stream = { response, right, known: undefined, said: '', nodes: '', cancelStalled: undefined };
    this.#streams.add(stream);
    response.once('close', () => this.#remove(stream));
    response.on('drain', () => this.#drained(stream));
    response.writeHead(200, { 'Content-Type': 'text/event-stream; charset=utf-8' });
    this.#subscribe();
    this.#send(stream, this.#rows());
    return true;
  }

  /** Ends all streams; readers come again by themselves when there is a server again. */
  close(): void {
    for (const { response } of [...this.#streams]) response.destroy();
  }

  #subscribe(): void {
    if (this.#unsubscribe) return;
    this.#unsubscribe = this.#deps.feed.onChange(() => this.#changed());
    this.#scheduleKeepAlive();
  }

  #changed(): void {
    this.#cancelTick ??= this.#deps.clock.schedule(this.#options.intervalMs, () => {
      this.#cancelTick = undefined;
      const rows = this.#rows();
      for (const stream of this.#streams) this.#send(stream, rows);
    });
  }

  #rows(): Map<string, string> {
    const rows = this.#deps.feed.rows();
    return new Map(rows.map((row) => [makeKey(row.namespace, row.name), JSON.stringify(row)]));
  }

  #send(stream: Stream, rows: Map<string, string>): void {
    if (stream.cancelStalled) return;
    const event = this.#eventFor(stream, rows);
    stream.known = rows;
    if (event !== undefined) this.#write(stream, event);
  }

  #eventFor(stream: Stream, rows: Map<string, string>): string | undefined {
    const { known } = stream;
    const { describe } = this.#deps;
    const head = describe(stream.right);
    const { problem, notice, nodes = [] } = head;
    const before = { nodes: stream.nodes, said: stream.said };
    stream.nodes = JSON.stringify(nodes);
    stream.said = JSON.stringify([problem, notice]);
    if (!known) return `retry: 1000\nevent: vms\ndata: ${withRows(head, [...rows.values()])}\n\n`;
    const changed = [...rows].filter(([key, row]) => known.get(key) !== row).map(([, row]) => row);
    const gone = [...known.keys()].filter((key) => !rows.has(key));
    const areNew = stream.nodes !== before.nodes;
    if (changed.length === 0 && gone.length === 0 && !areNew && stream.said === before.said) return undefined;
    const change: Omit<VmChange, 'rows'> = {
      ...(problem !== undefined && { problem }),
      ...(notice !== undefined && { notice }),
      ...(areNew && { nodes }),
      gone,
    };
    return `event: change\ndata: ${withRows(change, changed)}\n\n`;
  }

  #write(stream: Stream, text: string): void {
    if (stream.response.write(text)) return;
    stream.cancelStalled = this.#deps.clock.schedule(this.#options.stalledMs, () => stream.response.destroy());
  }

  #drained(stream: Stream): void {
    stream.cancelStalled?.();
    stream.cancelStalled = undefined;
    this.#send(stream, this.#rows());
  }

  #scheduleKeepAlive(): void {
    this.#cancelKeepAlive = this.#deps.clock.schedule(this.#options.keepAliveMs, () => {
      for (const stream of this.#streams) if (!stream.cancelStalled) this.#write(stream, ': here\n\n');
      this.#scheduleKeepAlive();
    });
  }

  #remove(stream: Stream): void {
    stream.cancelStalled?.();
    this.#streams.delete(stream);
    if (this.#streams.size > 0) return;
    this.#unsubscribe?.();
    this.#cancelTick?.();
    this.#cancelKeepAlive?.();
    this.#unsubscribe = this.#cancelTick = this.#cancelKeepAlive = undefined;
  }
}

/** `rows` are JSON already: each was made once for all readers. */
function withRows(head: object, rows: readonly string[]): string {
  return `${JSON.stringify(head).slice(0, -1)},"rows":[${rows.join(',')}]}`;
}
