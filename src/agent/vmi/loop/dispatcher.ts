import type { ExplainSeen, Key, VirtualMachineInstance } from '../../../api/index.ts';
import type { Component, Logger } from '../../../base/index.ts';
import {
  type Attempt,
  ReadYourWrites,
  type ReconcileObserver,
  type ReconcileParts,
  Reconciler,
  type StepOutcome,
  type WriteReport,
  type Written,
} from '../../../reconcile/index.ts';
import { type Decision, decide, isOvertaken } from '../decide/index.ts';
import { runPlan } from '../execute/index.ts';
import { GuestAgentCache } from '../guest-agent/index.ts';
import { type Observation, observeVmi, SyncPayloadCache } from '../observe/index.ts';
import type { AgentPorts } from '../ports.ts';
import { crashLoopEvent, stateOf, wishOf } from './crash-loop.ts';
import { Memories } from './memories.ts';
import { isSameSeen, logFieldsOf, recordOf, seenOf } from './record.ts';
import { isOnlyALook, isStartUnderWay } from './shortcuts.ts';
import { type StatusWrite, type Taken, writeStatus } from './write-status.ts';

export interface DispatcherOptions {
  /**
   * VMIs worked on side by side; a reconcile waits, it does not compute. One that hangs gives its worker slot to another after a
   * second, while in upstream a dozen launchers that hang take all of the ten workers.
   */
  readonly concurrency: number;
  readonly backoff: { readonly baseMs: number; readonly maxMs: number };
  /** The same failure this often in a row puts a VMI into crash-loop back-off; 10 unless given. */
  readonly crashLoopFailures?: number;
}

export const defaultDispatcherOptions: DispatcherOptions = {
  concurrency: 256,
  backoff: { baseMs: 20, maxMs: 60_000 },
};

const slotMs = 1_000;
/** A domain that is defined and has not started by then is looked at. */
const startedSoonMs = 1_000;

export interface DispatcherDeps {
  readonly ports: AgentPorts;
  readonly log: Logger;
  /** Spreads the retries. */
  readonly random?: () => number;
  readonly observer?: ReconcileObserver;
}

type VmiAttempt = Attempt<Observation, Decision>;

/** The VMI loop: the reconciler over the VMIs of this node, in all their roles, and what is kept between two reconciles. */
export class VmiDispatcher implements Component {
  readonly name = 'vmi dispatcher';
  /** What it decided, what fails and what is under way. */
  readonly reconciler: Reconciler<Observation, Decision, ExplainSeen>;
  readonly #ports: AgentPorts & { readonly vmis: ReadYourWrites<VirtualMachineInstance> };
  readonly #guestAgents: GuestAgentCache;
  readonly #syncPayload = new SyncPayloadCache();
  readonly #memories = new Memories();
  readonly #subscriptions: (() => void)[] = [];

  constructor(options: DispatcherOptions, { ports, log, random = Math.random, observer }: DispatcherDeps) {
    this.#ports = { ...ports, vmis: new ReadYourWrites(ports.vmis) };
    this.#guestAgents = new GuestAgentCache({}, ports);
    this.reconciler = new Reconciler(
      { ...options, slotMs, crashLoopFailures: options.crashLoopFailures ?? 10 },
      this.#parts(),
      { clock: ports.clock, log, random, observer },
    );
  }

  /** All caches must have been filled: what they do not have is taken for missing. */
  async start(): Promise<void> {
    const { vmis, domains, launchers, ghosts, migrationProxies, migrationNotes } = this.#ports;
    const wake = (key: Key) => this.reconciler.wake(key);
    this.#subscriptions.push(
      vmis.onChange(wake),
      domains.onChange((key) => this.#onDomain(key)),
      launchers.onChange(wake),
      migrationProxies.onChange(wake),
      ...(migrationNotes ? [migrationNotes.onChange(wake)] : []),
      this.#guestAgents.onChange(wake),
    );
    for (const key of new Set([...vmis.keys(), ...domains.keys(), ...ghosts.keys()])) wake(key);
  }

  /** No new reconcile; resolves when those under way have ended. No VM is touched by it. */
  async stop(): Promise<void> {
    for (const end of this.#subscriptions.splice(0)) end();
    await this.reconciler.stop();
    this.#guestAgents.stop();
    this.#memories.clear();
  }

  /** Keys of which something is remembered: they die with their VMI. */
  get remembered(): number {
    return this.#memories.size;
  }

  #onDomain(key: Key): void {
    const isAwaited = isStartUnderWay(
      this.#ports.vmis.get(key),
      this.#memories.get(key),
      this.#ports.domains.view(key),
    );
    if (isAwaited) this.reconciler.wakeAfter(key, startedSoonMs);
    else this.reconciler.wake(key);
  }

  #parts(): ReconcileParts<Observation, Decision, ExplainSeen> {
    const { vmis, events } = this.#ports;
    return {
      isSynced: () => vmis.synced,
      observe: (key, signal) => this.#observe(key, signal),
      decide,
      execute: (observation, decision, signal) => this.#execute(observation, decision, signal),
      record: recordOf,
      seen: seenOf,
      isSameSeen,
      write: (attempt, report, signal) => this.#write(attempt, report, signal),
      isOnlyALook: ({ decision, outcomes }) => isOnlyALook(decision, outcomes),
      versionOf: ({ vmi }) => ('vmi' in vmi ? vmi.vmi.metadata.resourceVersion : undefined),
      isGone: (observation) => this.#memories.forgetIfGone(observation),
      recordEvent: ({ vmi }, event) => {
        if (vmi.kind !== 'present') return false;
        events.record(vmi.stored, event);
        return true;
      },
      crashLoop: { wishOf, stateOf, isOvertaken, event: crashLoopEvent },
      words: {
        field: 'vmi',
        object: 'the VMI',
        logFields: logFieldsOf,
        onChange: 'when the VMI, its domain or its launcher changes',
      },
    };
  }

  async #observe(key: Key, signal: AbortSignal): Promise<Observation> {
    const ports = { ...this.#ports, guestAgents: this.#guestAgents, syncPayload: this.#syncPayload };
    const observation = await observeVmi(key, this.#memories.get(key), ports, signal);
    this.#memories.add(observation, observation.learned);
    return observation;
  }

  async #execute(observation: Observation, decision: Decision, signal: AbortSignal): Promise<readonly StepOutcome[]> {
    this.#memories.add(observation, decision.remember);
    // What a step remembers stands beside what the decision did, and not in its place.
    const present = this.#memories.refresh(observation);
    const outcomes = await runPlan(decision, { observation: present, ports: this.#ports, signal });
    for (const { outcome } of outcomes) {
      if (outcome.kind === 'done') this.#memories.add(observation, outcome.remember);
    }
    return outcomes;
  }

  async #write(attempt: VmiAttempt, report: WriteReport, signal: AbortSignal): Promise<Written> {
    const observation = this.#memories.refresh(attempt.observation);
    const { vmi, key } = observation;
    if (vmi.kind !== 'present') return { kind: 'no-object' };
    const ports = this.#ports;
    const write = () => writeStatus(key, vmi.stored, { ...attempt, observation }, ports, signal);
    let written: StatusWrite;
    try {
      written = await ports.vmis.whileWriting(key, write);
    } catch (error) {
      this.#memories.add(observation, { writes: { writeFailedMs: ports.clock.monotonicMs() } });
      return { kind: 'failed', error };
    }
    switch (written.kind) {
      case 'refused':
        report(written.refusal.events);
        this.#memories.add(observation, written.refusal.remember);
        return { kind: 'refused', error: written.refusal.error };
      case 'written':
      case 'unchanged':
        return this.#taken(written.kind, written.note, { ...attempt, observation }, report);
      default:
        return written;
    }
  }

  #taken(
    kind: 'written' | 'unchanged',
    { projection, remember }: Taken,
    { observation, decision }: VmiAttempt,
    report: WriteReport,
  ): Written {
    this.#memories.add(observation, remember);
    report(projection.events);
    const { problem, requeueAfterMs } = projection;
    if (problem !== undefined) this.#memories.add(observation, { reports: { reportedProblem: problem } });
    // The same problem a second time, after all was well, is news again.
    else if (decision.healthy && observation.memory.reports.reportedProblem)
      this.#memories.add(observation, { reports: { reportedProblem: '' } });
    return { kind, requeueAfterMs };
  }
}
