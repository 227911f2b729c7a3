import type { VmiEvent } from '../../../../api/index.ts';
import type { Logger } from '../../../../base/index.ts';
import type { HostPart, Json } from './contract.ts';

interface Known {
  readonly facts: Record<string, Json>;
  /** Events that were reported: a start that is tried again has the same ones. */
  readonly events: Set<string>;
  /** Hook → what the log says of it. */
  readonly lines: Map<string, string>;
}

/** What this process knows of the host work of each UID; it goes with the release. */
export class WorkMemory {
  readonly #known = new Map<string, Known>();
  readonly #log: Logger;

  constructor(log: Logger) {
    this.#log = log;
  }

  facts(uid: string): Readonly<Record<string, Json>> {
    return this.#known.get(uid)?.facts ?? none;
  }

  give(uid: string, hook: string, facts: Json): void {
    this.#of(uid).facts[hook] = facts;
  }

  /** Those that were not reported before. */
  unreported(uid: string, events: readonly VmiEvent[]): VmiEvent[] {
    if (events.length === 0) return [];
    const { events: reported } = this.#of(uid);
    const fresh = events.filter(({ reason, message }) => !reported.has(`${reason} ${message}`));
    for (const { reason, message } of fresh) if (reported.size < maxReported) reported.add(`${reason} ${message}`);
    return fresh;
  }

  /** A log line per hook, when it is another than the last one. */
  log(uid: string, parts: readonly HostPart[]): void {
    const hasFailed = parts.some(({ outcome }) => outcome === 'failed');
    const lines = (hasFailed ? this.#of(uid) : this.#known.get(uid))?.lines;
    for (const { name, outcome, tookMs, because, gave } of parts) {
      const line = `${outcome} ${because ?? gave ?? ''}`;
      if (lines?.get(name) === line) continue;
      lines?.set(name, line);
      const fields = {
        uid,
        hook: name,
        tookMs: Math.round(tookMs),
        ...(because && { because }),
        ...(gave && { gave }),
      };
      if (outcome === 'failed') this.#log.warn(fields, 'host work failed');
      else this.#log[gave ? 'info' : 'debug'](fields, `host work ${outcome}`);
    }
  }

  forget(uid: string): void {
    this.#known.delete(uid);
  }

  #of(uid: string): Known {
    const known = this.#known.get(uid) ?? { facts: {}, events: new Set<string>(), lines: new Map<string, string>() };
    this.#known.set(uid, known);
    return known;
  }
}

const none: Readonly<Record<string, Json>> = {};
const maxReported = 64;
