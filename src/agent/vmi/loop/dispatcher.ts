import type { ExplainTry, Key } from '../../../api/index.ts';
import type { Component, Logger } from '../../../base/index.ts';
import { KeyedQueue, type KeyResult, type QueueCounts, type QueueObserver } from '../../../reconcile/index.ts';
import { clip, type DecisionLog, type DecisionRecord, recordOf } from '../../serve/explain/index.ts';
import { decide, type StepOutcome } from '../decide/index.ts';
import { type ExecutePorts, runPlan } from '../execute/index.ts';
import { GuestAgentCache } from '../guest-agent/index.ts';
import { type Observation, observeVmi, SyncPayloadCache } from '../observe/index.ts';
import type { AgentPorts, VmiEvent } from '../ports.ts';
import type { Pass } from '../status/index.ts';
import { Memories } from './memories.ts';
import { OwnWrites } from './own-writes.ts';
import { Quarantine } from './quarantine.ts';
import { again, backOff, decidedAtOnce, describeCause, type Next, nextOf, type Written } from './retry.ts';
import { isOnlyALook, isStartUnderWay } from './shortcuts.ts';
import { Teller } from './teller.ts';
import { writeStatus } from './write-status.ts';

export interface DispatcherOptions {
  /**
   * VMIs worked on side by side; a pass waits, it does not compute. One that hangs gives its place to another after a second:
   * upstream's ten workers are all taken by a dozen hung launchers (fault 8, spec 00).
   */
  readonly concurrency: number;
  readonly backoff: { readonly baseMs: number; readonly maxMs: number };
  /** The same failure this often in a row puts a VMI into quarantine; 10 unless given. */
  readonly quarantineFailures?: number;
}

export const defaultDispatcherOptions: DispatcherOptions = {
  concurrency: 256,
  backoff: { baseMs: 20, maxMs: 60_000 },
};

const slotMs = 1_000;
/** A domain that is defined and has not started by then is looked at. */
const startedSoonMs = 1_000;

interface Acted extends Pass {
  readonly record: DecisionRecord;
}

export interface DispatcherDeps {
  readonly ports: AgentPorts;
  readonly log: Logger;
  /** Spreads the retries. */
  readonly random?: () => number;
  readonly observer?: LoopObserver;
}

/** Told of all that the loop does, for those who count it. */
export interface LoopObserver extends QueueObserver {
  /** A pass has ended; `kind`: whether it failed. */
  passed(rule: string, kind: KeyResult['kind']): void;
  /** The status of this VMI was written. */
  written(key: Key): void;
}

/**
 * The VMI loop: one serial actor per key for all roles of a VMI. Each pass observes, decides, does the steps, and writes the
 * status if it differs. What happens to one key never reaches another.
 */
export class VmiDispatcher implements Component {
  readonly name = 'vmi dispatcher';
  readonly quarantine: Quarantine;
  readonly #options: DispatcherOptions;
  readonly #ports: AgentPorts;
  readonly #vmis: OwnWrites;
  readonly #guestAgents: GuestAgentCache;
  readonly #syncPayloads = new SyncPayloadCache();
  readonly #teller: Teller;
  readonly #queue: KeyedQueue;
  readonly #memories = new Memories();
  readonly #observer: LoopObserver | undefined;
  readonly #subscriptions: (() => void)[] = [];

  constructor(options: DispatcherOptions, deps: DispatcherDeps) {
    this.#options = options;
    this.#observer = deps.observer;
    this.#vmis = new OwnWrites(deps.ports.vmis);
    this.#ports = { ...deps.ports, vmis: this.#vmis };
    this.#guestAgents = new GuestAgentCache({}, deps.ports);
    this.#teller = new Teller({ events: deps.ports.events, log: deps.log });
    this.quarantine = new Quarantine({ failures: options.quarantineFailures ?? 10 });
    this.#queue = new KeyedQueue(
      {
        concurrency: options.concurrency,
        slotMs,
        backoff: { ...options.backoff, jitter: 0.1, random: deps.random ?? Math.random },
      },
      {
        run: (key, signal) => this.#run(key, signal),
        onError: (key, error, retryInMs) => this.#teller.retry(key, error, retryInMs),
        clock: deps.ports.clock,
        ...(deps.observer && { observer: deps.observer }),
      },
    );
  }

  /** All caches must have been filled: what they do not have is taken for missing. */
  async start(): Promise<void> {
    const { vmis, domains, launchers, ghosts, migrationProxies } = this.#ports;
    const wake = (key: Key) => this.#queue.add(key);
    this.#subscriptions.push(
      vmis.onChange(wake),
      domains.onChange((key) => this.#onDomain(key)),
      launchers.onChange(wake),
      migrationProxies.onChange(wake),
      this.#guestAgents.onChange(wake),
    );
    for (const key of new Set([...vmis.keys(), ...domains.keys(), ...ghosts.keys()])) wake(key);
  }

  /** No new pass; resolves when those under way have ended. No VM is touched by it. */
  async stop(): Promise<void> {
    for (const end of this.#subscriptions.splice(0)) end();
    await this.#queue.stop();
    this.#guestAgents.stop();
    this.#memories.clear();
  }

  /** What was decided and why, per VMI. */
  get decisions(): DecisionLog {
    return this.#teller.decisions;
  }

  /** Keys of which something is remembered: they die with their VMI. */
  get remembered(): number {
    return this.#memories.size;
  }

  get counts(): QueueCounts {
    return this.#queue.counts;
  }

  /** Passes under way: how long all of them together, and the longest. */
  get unfinished(): { readonly totalMs: number; readonly longestMs: number } {
    return this.#queue.unfinished;
  }

  /** Resolves as soon as no pass is under way. */
  whenIdle(): Promise<void> {
    return this.#queue.whenIdle();
  }

  /** Keys whose pass has been under way for this long. */
  runningFor(ms: number): Key[] {
    return this.#queue.runningFor(ms);
  }

  /** Keys whose last pass failed. */
  failing(): Key[] {
    return this.#queue.failing();
  }

  /** When the key runs again, and what is waited for. */
  tryOf(key: Key): ExplainTry {
    const { state, dueInMs, forMs, failures } = this.#queue.status(key);
    const because = this.decisions.last(key)?.next?.because ?? 'nothing was decided yet';
    return {
      state,
      ...(dueInMs !== undefined && { inMs: Math.round(dueInMs) }),
      ...(forMs !== undefined && { forMs: Math.round(forMs) }),
      because,
      failuresInARow: failures,
    };
  }

  #onDomain(key: Key): void {
    const isAwaited = isStartUnderWay(this.#vmis.get(key), this.#memories.get(key), this.#ports.domains.view(key));
    if (isAwaited) this.#queue.addAfter(key, startedSoonMs);
    else this.#queue.add(key);
  }

  async #run(key: Key, signal: AbortSignal): Promise<KeyResult> {
    if (!this.#vmis.synced) return { kind: 'done', requeueAfterMs: 1_000 };
    let observation: Observation | undefined;
    const ports = { ...this.#ports, guestAgents: this.#guestAgents, syncPayload: this.#syncPayloads };
    const observe = async () => {
      observation = await observeVmi(key, this.#memories.get(key), ports, signal);
      return observation;
    };
    try {
      const first = await this.#act(await observe(), signal);
      const isLook = !signal.aborted && isOnlyALook(first.decision, first.outcomes);
      if (!isLook) return await this.#conclude(first, signal);
      first.record.next = { because: decidedAtOnce, afterMs: 0 };
      this.#queue.absorb(key);
      return await this.#conclude(await this.#act(await observe(), signal), signal);
    } catch (error) {
      if (signal.aborted) throw error;
      return this.#fault(key, observation, error);
    }
  }

  /** Decides and does it. */
  async #act(observation: Observation, signal: AbortSignal): Promise<Acted> {
    this.#memories.add(observation, observation.learned);
    const decision = decide(observation);
    this.#memories.add(observation, decision.remember);
    const ports: ExecutePorts = this.#ports;
    const outcomes = await runPlan(decision, { observation, ports, signal });
    for (const { outcome } of outcomes) {
      if (outcome.kind === 'done') this.#memories.add(observation, outcome.remember);
    }
    const record = this.#teller.note(observation, recordOf(observation, decision, outcomes));
    return { observation, decision, outcomes, record };
  }

  /** Tells what came of it, and when the key runs again. */
  async #conclude({ observation, decision, outcomes, record }: Acted, signal: AbortSignal): Promise<KeyResult> {
    if (signal.aborted) return { kind: 'done' };
    const pass = { observation: this.#memories.refresh(observation), decision, outcomes };
    this.#teller.events(record, observation, [...(decision.events ?? []), ...eventsOf(outcomes)]);
    const written = await this.#write(record, pass, signal);
    this.#judge(record, pass, written);
    return this.#plan(observation.key, record, nextOf(pass, written));
  }

  async #write(record: DecisionRecord, pass: Pass, signal: AbortSignal): Promise<Written> {
    const { observation } = pass;
    const { vmi, key } = observation;
    if (vmi.kind !== 'present') return { kind: 'no-vmi' };
    const { writer, lookup } = this.#ports;
    const ports = { writer, lookup, vmis: this.#vmis };
    let written: Written;
    try {
      const write = () => writeStatus(key, vmi.stored, pass, ports, signal);
      written = await this.#vmis.whileWriting(key, write);
    } catch (error) {
      record.write = { outcome: 'failed', because: clip(describeCause(error)) };
      this.#memories.add(observation, { writeFailedMs: this.#ports.clock.monotonicMs() });
      return { kind: 'failed', error };
    }
    if (written.kind === 'refused') {
      const { error, events, remember } = written;
      record.write = { outcome: 'failed', because: clip(error.message) };
      this.#teller.events(record, observation, events);
      this.#memories.add(observation, remember);
      return { kind: 'failed', error };
    }
    record.write = { outcome: written.kind };
    if (written.kind === 'written') this.#observer?.written(key);
    if (written.kind !== 'written' && written.kind !== 'unchanged') return written;
    this.#memories.add(observation, written.remember);
    this.#teller.events(record, observation, written.projection.events);
    const { problem } = written.projection;
    if (problem !== undefined) this.#memories.add(observation, { toldProblem: problem });
    // The same problem a second time, after all was well, is news again.
    else if (pass.decision.healthy && pass.observation.memory.toldProblem)
      this.#memories.add(observation, { toldProblem: '' });
    return written;
  }

  /** What the queue is told; also the reason, for those who ask why. */
  #plan(key: Key, record: DecisionRecord, wanted: Next): KeyResult {
    const next =
      wanted.afterMs === 0 && this.#isSpinning(key) ? again(spinningPauseMs, 'it makes no progress') : wanted;
    const { result, because, afterMs, latestMs } = next;
    record.next = { because: clip(because), ...(afterMs !== undefined && { afterMs: Math.round(afterMs) }) };
    this.#observer?.passed(record.rule, result.kind);
    if (result.kind !== 'retry') return result;
    if (latestMs !== undefined) this.#queue.addAfter(key, latestMs);
    return this.quarantine.of(key) ? { ...result, atLeastMs: this.#options.backoff.maxMs } : result;
  }

  /** "Again at once" is for progress: the same decision over and over makes none. */
  #isSpinning(key: Key): boolean {
    const times = this.decisions.timesInARow(key);
    if (times <= spinningTimes) return false;
    if (times === spinningTimes + 1) this.#teller.spinning(key);
    return true;
  }

  /** A pass that threw: a bug of this agent, which costs this key only. */
  #fault(key: Key, observation: Observation | undefined, error: unknown): KeyResult {
    const at = this.#ports.clock.now();
    const record = this.#teller.fault(key, observation, at, error);
    const change = this.quarantine.judgeFault(key, record.uid, at, error);
    if (change && observation) this.#teller.quarantine(record, observation, change, this.#options.backoff.maxMs);
    return this.#plan(key, record, backOff(error));
  }

  #judge(record: DecisionRecord, pass: Pass, written: Written): void {
    const { observation } = pass;
    const change = this.quarantine.judge(observation.key, pass, written);
    if (change) this.#teller.quarantine(record, observation, change, this.#options.backoff.maxMs);
    if (!this.#memories.forgetIfGone(observation)) return;
    this.quarantine.forget(observation.key);
    this.decisions.markGone(observation.key, observation.now);
  }
}

const spinningTimes = 3;
const spinningPauseMs = 1_000;

function eventsOf(outcomes: readonly StepOutcome[]): VmiEvent[] {
  return outcomes.flatMap(({ outcome }) => (outcome.kind === 'wait' ? [] : (outcome.events ?? [])));
}
