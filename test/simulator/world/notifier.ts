import type { NotifyIntake } from '../../../src/domain-cache/index.ts';
import type { Chance } from '../engine/chance.ts';
import type { Life, Scheduler } from '../engine/scheduler.ts';

/** A pipe that an agent opened for this launcher. */
export interface Pipe {
  readonly intake: NotifyIntake;
  readonly agent: Life;
  open: boolean;
}

/** What may go wrong with the events of one launcher. */
export interface NotifyTrouble {
  /** Longest extra delay of an event. */
  lateMs: number;
  duplicateRate: number;
  /** An event overtakes the one before it. */
  reorderRate: number;
  garbageRate: number;
  dropRate: number;
}

export function noNotifyTrouble(): NotifyTrouble {
  return { lateMs: 0, duplicateRate: 0, reorderRate: 0, garbageRate: 0, dropRate: 0 };
}

export interface NotifierDeps {
  readonly scheduler: Scheduler;
  readonly chance: Chance;
  /** The launcher's process. */
  readonly life: Life;
  readonly trouble: NotifyTrouble;
  readonly isHung: () => boolean;
  /** An agent took an event. */
  readonly onTaken: (agent: Life, json: string) => void;
  /** The event that tells of the end was taken, or given up. */
  readonly onLastWord: () => void;
}

interface Queued {
  readonly type: 'ADDED' | 'MODIFIED';
  readonly json: string;
  readonly isLast: boolean;
  readonly sinceMs: number;
}

const retryMs = 1_000;
const giveUpMs = 20_000;

/** A launcher's end of the notify pipe: one event at a time, repeated for 20 s, then dropped. */
export class Notifier {
  readonly #deps: NotifierDeps;
  readonly #queue: Queued[] = [];
  #pipe: Pipe | undefined;
  #busy = false;

  constructor(deps: NotifierDeps) {
    this.#deps = deps;
  }

  /** The socket file is another one now; a connection that is open stays with its agent. */
  usePipe(pipe: Pipe): void {
    this.#pipe = pipe;
  }

  get pipe(): Pipe | undefined {
    return this.#pipe;
  }

  send(type: Queued['type'], json: string, isLast: boolean): void {
    const { chance, trouble, scheduler } = this.#deps;
    if (chance.happens(trouble.dropRate) && !isLast) return;
    const event: Queued = { type, json, isLast, sinceMs: scheduler.nowMs };
    this.#queue.push(event);
    if (chance.happens(trouble.duplicateRate)) this.#queue.push(event);
    if (this.#queue.length > 2 && chance.happens(trouble.reorderRate)) {
      this.#queue.push(...this.#queue.splice(-2, 1));
    }
    if (chance.happens(trouble.garbageRate)) {
      this.#queue.unshift({ ...event, isLast: false, json: this.#garbage(json) });
    }
    this.#next();
  }

  /** Many events that say the same. */
  storm(json: string, count: number): void {
    for (let each = 0; each < count; each++) {
      this.#queue.push({ type: 'MODIFIED', json, isLast: false, sinceMs: this.#deps.scheduler.nowMs });
    }
    this.#next();
  }

  #next(): void {
    const { scheduler, chance, trouble, life } = this.#deps;
    const event = this.#queue[0];
    if (this.#busy || !event) return;
    this.#busy = true;
    const lateMs = trouble.lateMs > 0 ? chance.between(0, trouble.lateMs) : 0;
    const delayMs = this.#queue.length > 20 ? 0.2 : chance.latencyMs();
    scheduler.after(lateMs + delayMs, 'notify', life, () => this.#try(event));
  }

  #try(event: Queued): void {
    const { scheduler, life, isHung, onTaken, onLastWord } = this.#deps;
    const pipe = this.#pipe;
    const isTaken = pipe?.open && !pipe.agent.dead && !pipe.intake.isShut && !isHung();
    if (!isTaken && (isHung() || scheduler.nowMs - event.sinceMs < giveUpMs)) {
      scheduler.after(retryMs, 'notify again', life, () => this.#try(event));
      return;
    }
    if (isTaken) {
      pipe.intake.domainEvent({ eventType: event.type, domainJSON: Buffer.from(event.json), statusJSON: empty });
      onTaken(pipe.agent, event.json);
    }
    this.#queue.splice(this.#queue.indexOf(event), 1);
    this.#busy = false;
    if (event.isLast) onLastWord();
    this.#next();
  }

  #garbage(json: string): string {
    const kind = this.#deps.chance.int(4);
    if (kind === 0) return json.slice(0, json.length / 2);
    if (kind === 1) return '{"ObjectMeta":7}';
    if (kind === 2) return json.replace(/"UID":"[^"]*"/, '"UID":"uid-of-another"');
    return json.replace(/"name":"[^"]*"/, '"name":"another"');
  }
}

const empty = Buffer.alloc(0);
