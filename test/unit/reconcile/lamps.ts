import type { KubeObject } from '../../../src/api/index.ts';
import { errorCode, errorMessage, silentLogger } from '../../../src/base/index.ts';
import {
  type Attempt,
  type CachedObjects,
  decideBy,
  decisionRecord,
  type Executors,
  type ObjectEvent,
  ReadYourWrites,
  type ReconcileParts,
  Reconciler,
  type Rule,
  ruleTable,
  runPlan,
  type Step,
  type StepContext,
  type WriteAttempt,
  type Written,
  writeGuarded,
} from '../../../src/reconcile/index.ts';
import { FakeClock } from '../../fixtures/fake-clock.ts';

/** A small kind of its own: lamps that are on or off as their spec says, with a status that tells what they are. */
export interface Lamp extends KubeObject {
  spec: { on: boolean };
  status?: { lit: boolean };
}

interface Observation {
  readonly key: string;
  readonly uid: string;
  readonly now: Date;
  readonly lamp: Lamp | undefined;
  readonly isLit: boolean | undefined;
}

interface Args {
  look: object;
  turn: { readonly on: boolean };
}

interface Plan {
  readonly steps: readonly Step<Args>[];
  readonly healthy?: boolean;
  readonly requeueAfterMs?: number;
  readonly latestMs?: number;
  readonly events?: readonly ObjectEvent[];
}

type Decision = Plan & { readonly rule: string };
type Seen = { readonly lit: boolean | undefined };

const rules: readonly Rule<Observation, Plan>[] = [
  { name: 'gone', why: 'The lamp is no more.', when: ({ lamp }) => !lamp, plan: () => ({ steps: [] }) },
  {
    name: 'not-looked-at',
    why: 'Nobody has looked at the lamp yet.',
    when: ({ isLit }) => isLit === undefined,
    plan: () => ({ steps: [{ step: 'look' }], requeueAfterMs: 0 }),
  },
  {
    name: 'to-turn',
    why: 'The lamp is not as it shall be.',
    when: ({ lamp, isLit }) => isLit !== lamp?.spec.on,
    plan: ({ lamp }) => ({ steps: [{ step: 'turn', on: lamp?.spec.on === true }], latestMs: 30_000 }),
  },
];
const table = ruleTable(rules, {
  name: 'as-wished',
  why: 'The lamp is as it shall be.',
  plan: () => ({ steps: [], healthy: true }),
});

export const key = 'default/lamp';

export const lampOf = (on: boolean, resourceVersion = '1'): Lamp => ({
  apiVersion: 'v1',
  kind: 'Lamp',
  metadata: { name: 'lamp', namespace: 'default', uid: 'uid-1', resourceVersion },
  spec: { on },
});

/** An API server, the switch of each lamp, and the loop on top of both. */
export class Lamps {
  readonly clock = new FakeClock();
  readonly stored = new Map<string, Lamp>();
  readonly #shown = new Map<string, Lamp>();
  readonly lit = new Map<string, boolean | undefined>();
  readonly events: string[] = [];
  readonly reconciled: string[] = [];
  turns = 0;
  turnError: Error | undefined;
  writeError: unknown;
  refusal: string | undefined;
  conflicts = 0;
  /** Others set the lamp's wish, this often, right before it is written. */
  overtaken = 0;
  /** Every write is said to come too late, and no newer lamp is there. */
  isStale = false;
  /** The watch shows nothing until `catchUp`. */
  isWatchHeld = false;
  bug: Error | undefined;
  /** Every decision asks for another at once. */
  isRestless = false;
  onLook: () => void = () => undefined;
  readonly #listeners = new Set<(key: string) => void>();
  readonly overlay: ReadYourWrites<Lamp>;
  readonly loop: Reconciler<Observation, Decision, Seen>;

  constructor() {
    const cache: CachedObjects<Lamp> = {
      synced: true,
      get: (each) => this.#shown.get(each),
      keys: () => this.#shown.keys(),
      onChange: (listener) => {
        this.#listeners.add(listener);
        return () => this.#listeners.delete(listener);
      },
    };
    this.overlay = new ReadYourWrites(cache);
    this.loop = new Reconciler(
      { concurrency: 4, backoff: { baseMs: 10, maxMs: 60_000 }, crashLoopFailures: 3 },
      this.#parts(),
      {
        clock: this.clock,
        log: silentLogger,
        random: () => 0.5,
        observer: {
          added: () => undefined,
          started: () => undefined,
          ended: () => undefined,
          reconciled: (rule, kind) => this.reconciled.push(`${rule} ${kind}`),
          written: () => undefined,
        },
      },
    );
    this.overlay.onChange((each) => this.loop.wake(each));
  }

  apply(lamp: Lamp | undefined, of = key): void {
    if (lamp) this.stored.set(of, lamp);
    else this.stored.delete(of);
    if (!this.isWatchHeld) this.#show(of);
  }

  catchUp(): void {
    this.isWatchHeld = false;
    for (const each of new Set([...this.stored.keys(), ...this.#shown.keys()])) {
      if (this.stored.get(each) !== this.#shown.get(each)) this.#show(each);
    }
  }

  #show(each: string): void {
    const lamp = this.stored.get(each);
    if (lamp) this.#shown.set(each, lamp);
    else this.#shown.delete(each);
    for (const listener of this.#listeners) listener(each);
  }

  rules(of = key): string[] {
    return this.loop.decisions.of(of).map(({ rule, times }) => (times > 1 ? `${rule} x${times}` : rule));
  }

  #parts(): ReconcileParts<Observation, Decision, Seen> {
    return {
      isSynced: () => this.overlay.synced,
      observe: async (each) => {
        if (this.bug) throw this.bug;
        const lamp = this.overlay.get(each);
        const uid = lamp?.metadata.uid ?? this.loop.decisions.last(each)?.uid ?? '';
        return { key: each, uid, now: this.clock.now(), lamp, isLit: this.lit.get(each) };
      },
      decide: (observation) => ({
        ...decideBy(table, observation),
        ...(this.isRestless && { requeueAfterMs: 0 }),
      }),
      execute: ({ key: each }, { steps }, signal) => {
        const errorOf = (error: unknown) =>
          ({ severity: 'retry', code: errorCode(error) ?? 'FAILED', message: errorMessage(error) }) as const;
        const runner = { executors: this.#executors(each), deadlineMs: () => 1_000, errorOf, clock: this.clock };
        return runPlan(steps, { signal }, runner);
      },
      record: ({ observation, decision, outcomes }) =>
        decisionRecord(observation, decision, outcomes, { seen: { lit: observation.isLit } }),
      seen: (observation) => ({ lit: observation?.isLit }),
      isSameSeen: (left, right) => left.lit === right.lit,
      write: (attempt, report) => this.#write(attempt, report),
      isOnlyALook: ({ decision }) => decision.rule === 'not-looked-at',
      versionOf: ({ lamp }) => lamp?.metadata.resourceVersion,
      isGone: ({ lamp }) => lamp === undefined,
      recordEvent: ({ lamp }, { reason }) => {
        if (lamp) this.events.push(reason);
        return lamp !== undefined;
      },
      crashLoop: {
        wishOf: ({ lamp }) => String(lamp?.spec.on),
        stateOf: ({ isLit }) => String(isLit),
        isOvertaken: ({ code }) => code === 'STALE',
        event: ({ failures }, longestMs) => ({
          type: 'Warning',
          reason: 'LampStuck',
          message: `${failures} times; every ${longestMs / 1000} s`,
        }),
      },
      words: {
        field: 'lamp',
        object: 'the lamp',
        logFields: ({ lit }) => ({ lit }),
        onChange: 'when the lamp changes',
      },
    };
  }

  #executors(each: string): Executors<Args, StepContext> {
    return {
      look: async () => {
        this.lit.set(each, false);
        this.onLook();
        return { kind: 'done' };
      },
      turn: async ({ on }) => {
        this.turns++;
        if (this.turnError) throw this.turnError;
        this.lit.set(each, on);
        const event = { type: 'Normal', reason: on ? 'TurnedOn' : 'TurnedOff', message: '' } as const;
        return { kind: 'done', events: [event] };
      },
    };
  }

  async #write(
    { observation }: Attempt<Observation, Decision>,
    report: (events: readonly ObjectEvent[]) => void,
  ): Promise<Written> {
    const { lamp } = observation;
    if (!lamp) return { kind: 'no-object' };
    if (this.isStale) return { kind: 'outdated' };
    if (this.writeError) return { kind: 'failed', error: this.writeError };
    const written = await this.overlay.whileWriting(observation.key, () =>
      writeGuarded<Lamp, undefined, string>(lamp, {
        attempt: async (base) => this.#put(base, observation.key),
        newest: async () => this.stored.get(observation.key),
        stillHolds: (before, now) => before.spec.on === now.spec.on,
        saw: (newer) => this.overlay.saw(observation.key, lamp, newer),
        tries: 3,
      }),
    );
    if (written.kind === 'written') report([{ type: 'Normal', reason: 'Written', message: '' }]);
    return written.kind === 'refused' ? { kind: 'refused', error: new Error(written.refusal) } : written;
  }

  #put(base: Lamp, each: string): WriteAttempt<Lamp, undefined, string> {
    const lit = this.lit.get(each) === true;
    if (base.status?.lit === lit) return { kind: 'unchanged', note: undefined };
    if (this.refusal) return { kind: 'refused', refusal: this.refusal };
    const stored = this.stored.get(each);
    if (!stored) return { kind: 'gone' };
    if (this.overtaken-- > 0) {
      const version = String(Number(stored.metadata.resourceVersion) + 1);
      this.apply(lampOf(!stored.spec.on, version), each);
      return { kind: 'conflict' };
    }
    if (this.conflicts-- > 0) {
      const resourceVersion = String(Number(stored.metadata.resourceVersion) + 1);
      this.apply({ ...stored, metadata: { ...stored.metadata, resourceVersion } }, each);
      return { kind: 'conflict' };
    }
    const resourceVersion = String(Number(stored.metadata.resourceVersion) + 1);
    const object = { ...base, metadata: { ...base.metadata, resourceVersion }, status: { lit } };
    this.apply(object, each);
    return { kind: 'written', object, note: undefined };
  }
}
