import { annotations, labels } from '../../api/index.ts';
import {
  backoffDelayMs,
  type Clock,
  CodedError,
  type Component,
  errorMessage,
  type Logger,
  rfc3339,
  withDeadline,
} from '../../base/index.ts';
import type { NodeHealth, NodeProblem, OwnNode, ProblemSource } from '../node-ports.ts';
import { Pause } from './pause.ts';
import { Readiness, type Verdict } from './readiness.ts';
import { leaving, reasonKey, reasonOf, reasonText, starting } from './reasons.ts';

/** `null` takes a key away. */
export interface NodePatch {
  readonly metadata: {
    readonly labels: Readonly<Record<string, string>>;
    readonly annotations?: Readonly<Record<string, string | null>>;
  };
}

export interface HeartbeatOptions {
  readonly nodeName: string;
  /** 60 s as upstream; the next beat comes after 1 to 2.2 times that. */
  readonly periodMs: number;
  /** Longest time that the mark at the start, and the one at the end, may take. */
  readonly markTimeoutMs: number;
}

/** What the cluster was told, each time it is another thing than before. */
export type Told =
  | { readonly schedulable: true }
  | { readonly schedulable: false; readonly reason: string; readonly message: string };

export interface HeartbeatDeps {
  /** Strategic merge patch of the node. */
  readonly patchNode: (name: string, patch: NodePatch, signal: AbortSignal) => Promise<void>;
  readonly problems: ProblemSource;
  /** The node's object; what others did to the labels is put right. */
  readonly node: OwnNode;
  /** Whether the kubelet gives CPUs away for good (spec 40 §4). */
  readonly hasCpuManager: () => Promise<boolean>;
  readonly tell: (told: Told) => void;
  readonly clock: Clock;
  readonly log: Logger;
  readonly random: () => number;
}

/** The node could not be marked in time. */
export class HeartbeatError extends CodedError<'NOT_MARKED'> {}

const hysteresis = { badAfterMs: 10_000, goodAfterMs: 5_000 };
/** Five silent minutes fail the node's VMIs: the longest wait is far from that. */
const retry = { baseMs: 1_000, maxMs: 30_000, jitter: 0.1 };
const leavingRetryMs = 250;
const beatTimeoutMs = 10_000;
/** The first repair of a mark; somebody who changes it again and again is answered ever more rarely. */
const repairAfterMs = 5_000;

/**
 * Tells the cluster that this agent lives, and whether the node takes VMIs (spec 40 §2): not while the agent starts, then as
 * long as nothing is wrong for long, and no as soon as it leaves. That last mark is waited for: upstream's process often ends
 * before (fault 6, spec 00). Beats follow one another, so that no earlier "yes" can overtake it, and go on until the agent has
 * left.
 */
export class Heartbeat implements Component {
  readonly name = 'heartbeat';
  readonly #options: HeartbeatOptions;
  readonly #deps: HeartbeatDeps;
  readonly #readiness: Readiness;
  readonly #stopping = new AbortController();
  readonly #pause: Pause;
  #loop: Promise<void> | undefined;
  #lastSuccessMs: number | undefined;
  #failures = 0;
  /** Marks put right since a beat was last left alone. */
  #repairs = 0;
  #isLeaving = false;
  #isMarked = false;
  #marked: (() => void)[] = [];
  /** As the API server last took it; null: no reason. */
  #written: { schedulable: boolean | undefined; reason: string | null | undefined; at: string | undefined } = {
    schedulable: undefined,
    reason: undefined,
    at: undefined,
  };

  constructor(options: HeartbeatOptions, deps: HeartbeatDeps) {
    this.#options = options;
    this.#deps = deps;
    this.#pause = new Pause(deps.clock);
    const problems = () => deps.problems.problems();
    this.#readiness = new Readiness(hysteresis, { problems, clock: deps.clock });
  }

  /** Monotonic time of the last beat the API server took. */
  get lastSuccessMs(): number | undefined {
    return this.#lastSuccessMs;
  }

  get health(): NodeHealth {
    return {
      schedulable: this.#written.schedulable,
      problems: this.#deps.problems.problems(),
      lastSuccessMs: this.#lastSuccessMs,
      failures: this.#failures,
    };
  }

  /** Before anything else (spec 40 §3): what an agent that crashed left behind is taken back. A failure is only logged. */
  async markStarting(signal: AbortSignal): Promise<void> {
    const { clock, log, patchNode } = this.#deps;
    const { nodeName, markTimeoutMs: timeoutMs } = this.#options;
    const reason = reasonText([starting]);
    const metadata = { labels: { [labels.schedulable]: 'false' }, annotations: { [reasonKey]: reason } };
    try {
      await withDeadline({ timeoutMs, signal, clock }, (limit) => patchNode(nodeName, { metadata }, limit));
      this.#written = { schedulable: false, reason, at: undefined };
    } catch (error) {
      if (signal.aborted) throw error;
      log.warn({ node: nodeName, reason: errorMessage(error) }, 'the node could not be marked as not ready yet');
    }
  }

  async start(): Promise<void> {
    this.#loop ??= this.#run(this.#stopping.signal);
  }

  /** From now on the node takes no VMIs. Rejects with HeartbeatError when nobody took the mark in time; it is tried on. */
  async leave(): Promise<void> {
    this.#isLeaving = true;
    if (!this.#loop || this.#isMarked) return;
    const { clock } = this.#deps;
    const { markTimeoutMs, nodeName } = this.#options;
    const isInTime = await new Promise<boolean>((resolve) => {
      const cancel = clock.schedule(markTimeoutMs, () => resolve(false));
      this.#marked.push(() => {
        cancel();
        resolve(true);
      });
      this.#pause.end();
    });
    if (isInTime) return;
    throw new HeartbeatError(
      'NOT_MARKED',
      `node ${nodeName} could not be marked unschedulable in ${markTimeoutMs / 1000} s: the API server does not take it`,
    );
  }

  /** Leaves, if nobody asked for that before, and beats no more. */
  async stop(): Promise<void> {
    try {
      if (!this.#isLeaving) await this.leave();
    } finally {
      this.#stopping.abort(new Error('heartbeat stopped'));
      this.#pause.end();
      await this.#loop;
    }
  }

  async #run(signal: AbortSignal): Promise<void> {
    const wake = () => this.#pause.end();
    const ends = [this.#deps.problems.onChange(wake), this.#deps.node.onChange(wake)];
    while (!signal.aborted) {
      const reasons = this.#reasons();
      const isSent = await this.#beat(reasons, signal);
      await this.#untilNext(isSent, reasons, signal);
    }
    for (const end of ends) end();
  }

  /** Why the node takes no VMIs; none: it takes them. */
  #reasons(): readonly NodeReason[] {
    return this.#isLeaving ? [leaving] : reasonsOf(this.#readiness.judge());
  }

  /** The time of the next beat has come, the agent is asked to leave, or something else is to be told. */
  async #untilNext(isSent: boolean, told: readonly NodeReason[], signal: AbortSignal): Promise<void> {
    const { clock, random, node } = this.#deps;
    const hadNode = node.current !== undefined;
    const saidSo = told[0] === leaving;
    const beganMs = clock.monotonicMs();
    const dueMs = beganMs + (isSent ? this.#options.periodMs * (1 + 1.2 * random()) : this.#retryMs(random));
    for (let nowMs = beganMs; nowMs < dueMs && !signal.aborted; nowMs = clock.monotonicMs()) {
      if (this.#isLeaving !== saidSo) return;
      // It was deleted, and somebody has made it again.
      if (!isSent && !hadNode && node.current !== undefined) return;
      let againInMs = dueMs - nowMs;
      if (isSent && !this.#isLeaving) {
        const verdict = this.#readiness.judge();
        if (!isSame(told, reasonsOf(verdict))) return;
        againInMs = Math.min(againInMs, verdict.againInMs ?? againInMs);
      }
      if (isSent && this.#isEdited()) {
        const repairInMs = beganMs + this.#repairAfterMs() - nowMs;
        if (repairInMs <= 0) {
          this.#repairs++;
          return;
        }
        againInMs = Math.min(againInMs, repairInMs);
      }
      await this.#pause.wait(againInMs, signal);
    }
    if (!this.#isEdited()) this.#repairs = 0;
  }

  /** A controller whose clock differs takes each beat for an old one, and unmarks the node as soon as it sees it. */
  #repairAfterMs(): number {
    return backoffDelayMs(this.#repairs + 1, { baseMs: repairAfterMs, maxMs: this.#options.periodMs });
  }

  #retryMs(random: () => number): number {
    return this.#isLeaving ? leavingRetryMs : backoffDelayMs(this.#failures, { ...retry, random });
  }

  /** The watch shows our own last beat, or none at all any more, with another mark than it had. */
  #isEdited(): boolean {
    const { metadata } = this.#deps.node.current ?? {};
    if (!metadata) return false;
    const beat = metadata.annotations?.[annotations.heartbeat];
    if (beat !== undefined && beat !== this.#written.at) return false;
    return beat === undefined || metadata.labels?.[labels.schedulable] !== String(this.#written.schedulable);
  }

  async #beat(reasons: readonly NodeReason[], parent: AbortSignal): Promise<boolean> {
    const { nodeName } = this.#options;
    const { clock, log, patchNode, hasCpuManager } = this.#deps;
    const schedulable = reasons.length === 0;
    const reason = schedulable ? null : reasonText(reasons);
    const at = rfc3339(clock.now());
    try {
      const patch: NodePatch = {
        metadata: {
          labels: marks(schedulable, await hasCpuManager()),
          annotations: {
            [annotations.heartbeat]: at,
            // Said each time as long as there is one: whoever made the node again took it away.
            ...((reason !== null || this.#written.reason !== null) && { [reasonKey]: reason }),
          },
        },
      };
      const limits = { timeoutMs: beatTimeoutMs, signal: parent, clock };
      await withDeadline(limits, (signal) => patchNode(nodeName, patch, signal));
    } catch (error) {
      if (!parent.aborted) this.#failed(error, log);
      return false;
    }
    this.#lastSuccessMs = clock.monotonicMs();
    this.#failures = 0;
    const before = this.#written;
    this.#written = { schedulable, reason, at };
    if (schedulable !== before.schedulable || reasonOf(reason) !== reasonOf(before.reason)) this.#tell(reasons);
    if (reasons[0] === leaving) {
      this.#isMarked = true;
      for (const tell of this.#marked.splice(0)) tell();
    }
    return true;
  }

  #failed(error: unknown, log: Logger): void {
    this.#failures++;
    const fields = { node: this.#options.nodeName, failures: this.#failures, reason: errorMessage(error) };
    // Said again now and then while it lasts.
    const level = this.#failures === 1 || this.#failures % 10 === 0 ? 'warn' : 'debug';
    log[level](fields, 'heartbeat could not be sent');
  }

  #tell([first]: readonly NodeReason[]): void {
    const { tell, log } = this.#deps;
    const node = this.#options.nodeName;
    if (first === starting) return;
    if (!first) {
      log.info({ node }, 'the node takes VMIs');
      tell({ schedulable: true });
      return;
    }
    const { reason, message } = first;
    log[first === leaving ? 'info' : 'warn']({ node, problem: reason, reason: message }, 'the node takes no VMIs');
    tell({ schedulable: false, reason, message });
  }
}

type NodeReason = Pick<NodeProblem, 'reason' | 'message'>;

function reasonsOf(verdict: Verdict): readonly NodeReason[] {
  if (verdict.isReady) return [];
  return verdict.isStarting ? [starting, ...verdict.problems] : verdict.problems;
}

function isSame(some: readonly NodeReason[], others: readonly NodeReason[]): boolean {
  return some.length === others.length && some.every(({ reason }, index) => reason === others[index]?.reason);
}

function marks(isSchedulable: boolean, hasCpuManager: boolean): Record<string, string> {
  const cpuManager = String(hasCpuManager);
  return { [labels.schedulable]: String(isSchedulable), cpumanager: cpuManager, 'kubevirt.io/cpumanager': cpuManager };
}
