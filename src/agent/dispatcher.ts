import type { Key } from '../api/index.ts';
import { type Component, errorCode, errorMessage, KeyedQueue, type KeyResult, type Logger } from '../base/index.ts';
import { type Decision, decide, type StepOutcome } from './decide/index.ts';
import { DecisionLog, type DecisionRecord, durationsOf, stepNames, troublesOf } from './decision-log.ts';
import { type ExecutePorts, runPlan } from './execute/index.ts';
import { GuestAgentCache } from './guest-agent/index.ts';
import { type KeyMemory, type Observation, observeVmi } from './observe/index.ts';
import { OwnWrites } from './own-writes.ts';
import type { AgentPorts, VmiEvent } from './ports.ts';
import type { Pass } from './status/index.ts';
import { type WriteOutcome, writeStatus } from './write-status.ts';

export interface DispatcherOptions {
  /**
   * VMIs worked on side by side: more than a node has launchers that can hang, for each holds its place until its time
   * limits end, and upstream's ten workers are all taken by a dozen (fault 8, spec 00). A pass waits, it does not compute.
   */
  readonly concurrency: number;
  readonly backoff: { readonly baseMs: number; readonly maxMs: number };
}

export const defaultDispatcherOptions: DispatcherOptions = {
  concurrency: 256,
  backoff: { baseMs: 20, maxMs: 60_000 },
};

export interface DispatcherDeps {
  readonly ports: AgentPorts;
  readonly log: Logger;
  /** Spreads the retries. */
  readonly random?: () => number;
}

/**
 * The VMI loop: one serial actor per key for all roles of a VMI. Each pass observes, decides, does the steps, and writes the
 * status if it differs. What happens to one key never reaches another.
 */
export class VmiDispatcher implements Component {
  readonly name = 'vmi dispatcher';
  readonly decisions = new DecisionLog();
  readonly #ports: AgentPorts;
  readonly #vmis: OwnWrites;
  readonly #guestAgents: GuestAgentCache;
  readonly #log: Logger;
  readonly #queue: KeyedQueue;
  readonly #memories = new Map<Key, KeyMemory>();
  readonly #subscriptions: (() => void)[] = [];

  constructor(options: DispatcherOptions, deps: DispatcherDeps) {
    this.#vmis = new OwnWrites(deps.ports.vmis);
    this.#ports = { ...deps.ports, vmis: this.#vmis };
    this.#guestAgents = new GuestAgentCache({}, deps.ports);
    this.#log = deps.log;
    this.#queue = new KeyedQueue(
      {
        concurrency: options.concurrency,
        backoff: { ...options.backoff, jitter: 0.1, random: deps.random ?? Math.random },
      },
      {
        run: (key, signal) => this.#run(key, signal),
        onError: (key, error, retryInMs) => this.#logRetry(key, error, retryInMs),
        clock: deps.ports.clock,
      },
    );
  }

  /** All caches must have been filled: what they do not have is taken for missing. */
  async start(): Promise<void> {
    const { vmis, domains, launchers, ghosts, relays } = this.#ports;
    const wake = (key: Key) => this.#queue.add(key);
    this.#subscriptions.push(
      vmis.onChange(wake),
      domains.onChange(wake),
      launchers.onChange(wake),
      relays.onChange(wake),
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

  /** Keys of which something is remembered: they die with their VMI. */
  get remembered(): number {
    return this.#memories.size;
  }

  async #run(key: Key, signal: AbortSignal): Promise<KeyResult> {
    if (!this.#vmis.synced) return { kind: 'done', requeueAfterMs: 1_000 };
    const observed = { ...this.#ports, guestAgents: this.#guestAgents };
    const observation = await observeVmi(key, this.#memories.get(key), observed, signal);
    this.#remember(observation, observation.learned);
    const decision = decide(observation);
    this.#remember(observation, decision.remember);
    const ports: ExecutePorts = this.#ports;
    const outcomes = await runPlan(decision, { observation, ports, signal });
    for (const { outcome } of outcomes) {
      if (outcome.kind === 'done') this.#remember(observation, outcome.remember);
    }
    this.#note(observation, decision, outcomes);
    if (signal.aborted) return { kind: 'done' };
    const pass = { observation: this.#withMemory(observation), decision, outcomes };
    this.#tell(observation, [...(decision.events ?? []), ...eventsOf(outcomes)]);
    const written = await this.#write(key, pass, signal);
    this.#forgetIfDone(key, observation);
    return this.#resultOf(key, pass, written);
  }

  async #write(key: Key, pass: Pass, signal: AbortSignal): Promise<WriteOutcome | undefined> {
    const { observation } = pass;
    if (observation.vmi.kind !== 'present') return undefined;
    const { writer, lookup } = this.#ports;
    const ports = { writer, lookup, vmis: this.#vmis };
    const written = await writeStatus(key, observation.vmi.stored, pass, ports, signal);
    if (written.kind !== 'written' && written.kind !== 'unchanged') return written;
    this.#tell(observation, written.projection.events);
    const { problem } = written.projection;
    if (problem !== undefined) this.#remember(observation, { toldProblem: problem });
    // The same problem a second time, after all was well, is news again.
    else if (pass.decision.healthy && pass.observation.memory.toldProblem)
      this.#remember(observation, { toldProblem: '' });
    return written;
  }

  #resultOf(key: Key, { decision, outcomes }: Pass, written: WriteOutcome | undefined): KeyResult {
    if (written?.kind === 'outdated') return { kind: 'done', requeueAfterMs: 0 };
    // The watch will say so, too.
    if (written?.kind === 'gone') return { kind: 'done', requeueAfterMs: 1_000 };
    const failed = outcomes.find(({ outcome }) => outcome.kind === 'failed')?.outcome;
    if (failed?.kind === 'failed' || written?.kind === 'conflicts') {
      if (decision.latestMs !== undefined) this.#queue.addAfter(key, decision.latestMs);
      return { kind: 'retry', cause: failed?.kind === 'failed' ? failed.error : conflictStorm };
    }
    const waiting = outcomes.find(({ outcome }) => outcome.kind === 'wait')?.outcome;
    const wanted = waiting?.kind === 'wait' ? waiting.afterMs : decision.requeueAfterMs;
    const requeueAfterMs = wanted === 0 && this.#isSpinning(key) ? spinningPauseMs : wanted;
    return requeueAfterMs === undefined ? { kind: 'done' } : { kind: 'done', requeueAfterMs };
  }

  /** "Again at once" is for progress: the same decision over and over makes none. */
  #isSpinning(key: Key): boolean {
    const last = this.decisions.of(key).at(-1);
    if (!last || last.times <= spinningTimes) return false;
    if (last.times === spinningTimes + 1) {
      this.#log.warn({ vmi: key, uid: last.uid, rule: last.rule }, 'the same decision is taken over and over');
    }
    return true;
  }

  #remember(observation: Observation, more: Partial<Omit<KeyMemory, 'uid'>> | undefined): void {
    if (!more) return;
    this.#memories.set(observation.key, { ...this.#withMemory(observation).memory, ...more });
  }

  #withMemory(observation: Observation): Observation {
    const memory = this.#memories.get(observation.key);
    return memory?.uid === observation.uid ? { ...observation, memory } : observation;
  }

  /** Per-key state ends with the VMI and the last trace of it. */
  #forgetIfDone(key: Key, { vmi, uid }: Observation): void {
    const isGone = vmi.kind === 'deleted' && (uid === '' || this.#memories.get(key)?.cleaned === true);
    if (isGone) this.#memories.delete(key);
  }

  #tell({ vmi }: Observation, events: readonly VmiEvent[]): void {
    if (vmi.kind !== 'present') return;
    for (const event of events) this.#ports.events.record(vmi.stored, event);
  }

  #note(observation: Observation, decision: Decision, outcomes: readonly StepOutcome[]): void {
    const { key, uid, now } = observation;
    const record: DecisionRecord = {
      firstAt: now,
      lastAt: now,
      times: 1,
      uid,
      route: decision.route,
      rule: decision.rule,
      domain: describeDomain(observation),
      launcher: observation.launcher.kind,
      phase: 'vmi' in observation.vmi ? (observation.vmi.vmi.status?.phase ?? '') : '',
      ...(decision.phase && { newPhase: decision.phase }),
      steps: stepNames(decision),
      tookMs: durationsOf(outcomes),
      troubles: troublesOf(outcomes),
      ...(decision.problem && { problem: decision.problem }),
      ...(decision.requeueAfterMs !== undefined && { requeueAfterMs: decision.requeueAfterMs }),
    };
    if (!this.decisions.add(key, record)) return;
    const { firstAt: _first, lastAt: _last, times: _times, ...fields } = record;
    const isQuiet = decision.steps.length === 0 && !decision.phase && !decision.problem;
    this.#log[isQuiet ? 'debug' : 'info']({ vmi: key, ...fields }, 'decided');
  }

  #logRetry(key: Key, error: unknown, retryInMs: number): void {
    const fields = { vmi: key, code: errorCode(error), reason: messageOf(error), retryInMs: Math.round(retryInMs) };
    this.#log.warn(fields, 'the VMI is tried again');
  }
}

const spinningTimes = 3;
const spinningPauseMs = 1_000;

const conflictStorm = { code: 'CONFLICT', message: 'the VMI was changed by others at every try to write its status' };

function messageOf(error: unknown): string {
  const isStepError = typeof error === 'object' && error !== null && 'message' in error;
  return isStepError && typeof error.message === 'string' ? error.message : errorMessage(error);
}

function eventsOf(outcomes: readonly StepOutcome[]): VmiEvent[] {
  return outcomes.flatMap(({ outcome }) => (outcome.kind === 'wait' ? [] : (outcome.events ?? [])));
}

function describeDomain({ domain }: Observation): string {
  if (domain.kind !== 'present') return domain.kind;
  const { Status, Reason } = domain.domain.Status;
  return `${Status}/${Reason}`;
}
