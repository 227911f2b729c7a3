import { annotations, labels } from '../../../api/index.ts';
import {
  backoffDelayMs,
  type Clock,
  CodedError,
  type Component,
  errorMessage,
  type Logger,
  orEnded,
  rfc3339,
  withDeadline,
  withOwnEnding,
} from '../../../base/index.ts';
import type { Node, NodeHealth, OwnNode, ProblemSource } from '../ports.ts';
import { Pause } from './pause.ts';
import { Readiness } from './readiness.ts';
import { leaving, type NodeReason, reasonKey, reasonOf, reasonText, starting } from './reasons.ts';
import { Standing, type Wish } from './standing.ts';
import { SteadyProblems } from './steady-problems.ts';
import { type SchedulableMark, WrittenMark } from './written.ts';

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

/** What the heartbeat published, each time it is another thing than before. */
export type NodeReport =
  | { readonly schedulable: true }
  | { readonly schedulable: false; readonly reason: string; readonly message: string };

export interface HeartbeatDeps {
  /** Strategic merge patch of the node; resolves with the node as it is then. */
  readonly patchNode: (name: string, patch: NodePatch, signal: AbortSignal) => Promise<Node>;
  readonly problems: ProblemSource;
  /** The node's object; what others did to the labels is put right. */
  readonly node: OwnNode;
  /** Whether the kubelet gives CPUs away for good; undefined: it is not known yet, what the node says stays. */
  readonly hasCpuManager: () => Promise<boolean | undefined>;
  readonly report: (report: NodeReport) => void;
  readonly clock: Clock;
  readonly log: Logger;
  readonly random: () => number;
}

/** The node could not be marked in time. */
export class HeartbeatError extends CodedError<'NOT_MARKED'> {}

const hysteresis = { badAfterMs: 10_000, goodAfterMs: 5_000, goodAtMostMs: 60_000, forgetAfterMs: 600_000 };
/** Five silent minutes fail the node's VMIs: the longest wait is far from that. */
const retry = { baseMs: 1_000, maxMs: 30_000, jitter: 0.1 };
const leavingRetryMs = 250;
const beatTimeoutMs = 10_000;

/**
 * Reports to the cluster that this agent lives, and whether the node takes VMIs, by the label and the annotation of
 * pkg/virt-handler/heartbeat/heartbeat.go: not while the agent starts, then as long as nothing is wrong for long, and no as soon
 * as it leaves. That last mark is waited for: upstream's process often ends before it is written. Beats follow one another, so
 * that no earlier "yes" can overtake it, and go on until the agent has left.
 *
 * It has a loop of its own and no SingleReconciler: there each wake ends the back-off, while what wakes a heartbeat (problems
 * that flip, every change of the node) must not hasten a beat that fails, and the pauses change with the agent's leaving.
 */
export class Heartbeat implements Component {
  readonly name = 'heartbeat';
  readonly #options: HeartbeatOptions;
  readonly #deps: HeartbeatDeps;
  readonly #problems: ProblemSource;
  readonly #readiness: Readiness;
  readonly #stopping = new AbortController();
  readonly #pause: Pause;
  readonly #written = new WrittenMark();
  readonly #standing: Standing;
  #loop: Promise<void> | undefined;
  /** Of the beat that does not say that the agent leaves, while it is under way. */
  #underWay: AbortController | undefined;
  #hasCpuManager: boolean | undefined;
  #lastSuccessMs: number | undefined;
  #failures = 0;
  #failuresLeaving = 0;
  #isLeaving = false;
  #isMarked = false;
  #marked: (() => void)[] = [];

  constructor(options: HeartbeatOptions, deps: HeartbeatDeps) {
    this.#options = options;
    this.#deps = deps;
    this.#pause = new Pause(deps.clock);
    this.#problems = new SteadyProblems(deps.problems, deps);
    const problems = () => this.#problems.problems();
    this.#readiness = new Readiness(hysteresis, { problems, clock: deps.clock });
    const isEdited = () => this.#written.isEdited(deps.node.current);
    this.#standing = new Standing(
      { longestMs: options.periodMs },
      { wish: () => this.#wish(), isEdited, clock: deps.clock },
    );
  }

  /** Monotonic time of the last beat the API server took. */
  get lastSuccessMs(): number | undefined {
    return this.#lastSuccessMs;
  }

  get health(): NodeHealth {
    return {
      schedulable: this.#written.mark?.schedulable,
      problems: this.#problems.problems(),
      lastSuccessMs: this.#lastSuccessMs,
      failures: this.#failures,
    };
  }

  /**
   * Before anything else, as in `Run` of cmd/virt-handler/virt-handler.go: what an agent that crashed left behind is taken back.
   * A failure is only logged.
   */
  async markStarting(signal: AbortSignal): Promise<void> {
    const { clock, log, patchNode } = this.#deps;
    const { nodeName, markTimeoutMs: timeoutMs } = this.#options;
    const reason = reasonText([starting]);
    const metadata = { labels: { [labels.schedulable]: 'false' }, annotations: { [reasonKey]: reason } };
    try {
      const node = await withDeadline({ timeoutMs, signal, clock }, (limit) =>
        patchNode(nodeName, { metadata }, limit),
      );
      this.#written.set({ schedulable: false, reason }, node);
    } catch (error) {
      if (signal.aborted) throw error;
      log.warn({ node: nodeName, reason: errorMessage(error) }, 'the node could not be marked as not ready yet');
    }
  }

  async start(): Promise<void> {
    this.#loop ??= this.#run(this.#stopping.signal);
  }

  /**
   * From now on the node takes no VMIs. A beat under way has a moment to end, so that it is not overtaken, and is given up then.
   * Rejects with HeartbeatError when the API server did not take the mark in time; it is tried on.
   */
  async leave(): Promise<void> {
    this.#isLeaving = true;
    if (!this.#loop || this.#isMarked) return;
    const { clock } = this.#deps;
    const { markTimeoutMs, nodeName } = this.#options;
    const cancelMoment = clock.schedule(markTimeoutMs / 8, () => this.#underWay?.abort(new Error('the agent leaves')));
    const isInTime = await new Promise<boolean>((resolve) => {
      const cancel = clock.schedule(markTimeoutMs, () => resolve(false));
      this.#marked.push(() => {
        cancel();
        resolve(true);
      });
      this.#pause.end();
    });
    cancelMoment();
    if (isInTime) return;
    throw new HeartbeatError(
      'NOT_MARKED',
      `node ${nodeName} could not be marked unschedulable in ${markTimeoutMs / 1000} s: the API server does not take it`,
    );
  }

  /** Leaves, if `leave` was not called before, and beats no more. */
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
    const ends = [this.#problems.onChange(wake), this.#deps.node.onChange(wake)];
    while (!signal.aborted) {
      const wasLeaving = this.#isLeaving;
      try {
        const { reasons } = this.#wish();
        if (await this.#beat(reasons, signal)) await this.#untilNext(reasons, signal);
        else await this.#untilRetry(wasLeaving, signal);
      } catch (error) {
        // A mistake of our own must not end the beats: five silent minutes fail the node's VMIs.
        this.#failed(error);
        await this.#untilRetry(wasLeaving, signal);
      }
    }
    for (const end of ends) end();
  }

  /** Why the node shall take no VMIs; no reasons: it shall. */
  #wish(): Wish {
    if (this.#isLeaving) return { reasons: [leaving] };
    const readiness = this.#readiness.judge();
    const { againInMs } = readiness;
    if (readiness.isReady) return { reasons: [], againInMs };
    return { reasons: readiness.isStarting ? [starting, ...readiness.problems] : readiness.problems, againInMs };
  }

  async #untilNext(published: readonly NodeReason[], signal: AbortSignal): Promise<void> {
    this.#standing.begin(published, this.#options.periodMs * (1 + 1.2 * this.#deps.random()));
    for (;;) {
      const leftMs = this.#standing.leftMs();
      if (leftMs === 0 || signal.aborted) return;
      await this.#pause.wait(leftMs, signal);
    }
  }

  /** After a beat that was not taken. */
  async #untilRetry(wasLeaving: boolean, signal: AbortSignal): Promise<void> {
    const { clock, random, node } = this.#deps;
    const hadNode = node.current !== undefined;
    const waitMs = this.#isLeaving ? leavingRetryMs : backoffDelayMs(this.#failures, { ...retry, random });
    const dueMs = clock.monotonicMs() + waitMs;
    for (let nowMs = clock.monotonicMs(); nowMs < dueMs && !signal.aborted; nowMs = clock.monotonicMs()) {
      if (this.#isLeaving !== wasLeaving) return;
      // It was deleted, and has been made again.
      if (!hadNode && node.current !== undefined) return;
      await this.#pause.wait(dueMs - nowMs, signal);
    }
  }

  async #beat(reasons: readonly NodeReason[], parent: AbortSignal): Promise<boolean> {
    const { clock } = this.#deps;
    const isLeaving = reasons[0] === leaving;
    const schedulable = reasons.length === 0;
    const mark: SchedulableMark = { schedulable, reason: schedulable ? null : reasonText(reasons) };
    const before = this.#written.mark;
    try {
      const node = await withOwnEnding(parent, async (ending) => {
        if (!isLeaving) this.#underWay = ending;
        const limits = { timeoutMs: this.#beatTimeoutMs(isLeaving), signal: ending.signal, clock };
        return withDeadline(limits, (limit) => orEnded(limit, this.#send(mark, isLeaving, limit)));
      });
      this.#written.set(mark, node);
    } catch (error) {
      if (parent.aborted) return false;
      if (this.#isLeaving && !isLeaving) this.#deps.log.debug({}, 'a heartbeat was given up, as the agent leaves');
      else this.#failed(error);
      return false;
    } finally {
      this.#underWay = undefined;
    }
    this.#lastSuccessMs = clock.monotonicMs();
    this.#failures = 0;
    if (schedulable !== before?.schedulable || reasonOf(mark.reason) !== reasonOf(before.reason))
      this.#publish(reasons);
    if (isLeaving) {
      this.#isMarked = true;
      for (const notify of this.#marked.splice(0)) notify();
    }
    return true;
  }

  async #send({ schedulable, reason }: SchedulableMark, isLeaving: boolean, signal: AbortSignal): Promise<Node> {
    const { clock, patchNode } = this.#deps;
    const hasCpuManager = await this.#lookAtCpuManager(isLeaving);
    // An end that came meanwhile must not be followed by a "yes".
    signal.throwIfAborted();
    const patch: NodePatch = {
      metadata: {
        labels: marks(schedulable, hasCpuManager),
        annotations: {
          [annotations.heartbeat]: rfc3339(clock.now()),
          // Said each time as long as there is one: a node that was made again lost it.
          ...((reason !== null || this.#written.mark?.reason !== null) && { [reasonKey]: reason }),
        },
      },
    };
    return patchNode(this.#options.nodeName, patch, signal);
  }

  /** One who leaves does not wait for a disk. A look that fails takes nothing back. */
  async #lookAtCpuManager(isLeaving: boolean): Promise<boolean | undefined> {
    const { hasCpuManager, log } = this.#deps;
    if (isLeaving) return this.#hasCpuManager;
    try {
      this.#hasCpuManager = (await hasCpuManager()) ?? this.#hasCpuManager;
    } catch (error) {
      log.debug({ reason: errorMessage(error) }, 'the CPU manager cannot be looked at');
    }
    return this.#hasCpuManager;
  }

  /** A mark that an API server swallows is tried again while `leave` still waits for it; a slow one has longer each time. */
  #beatTimeoutMs(isLeaving: boolean): number {
    if (!isLeaving) return beatTimeoutMs;
    return Math.min(beatTimeoutMs, (this.#options.markTimeoutMs / 4) * 2 ** this.#failuresLeaving);
  }

  #failed(error: unknown): void {
    this.#failures++;
    if (this.#isLeaving) this.#failuresLeaving++;
    const fields = { node: this.#options.nodeName, failures: this.#failures, reason: errorMessage(error) };
    // Said again now and then while it lasts.
    const level = this.#failures === 1 || this.#failures % 10 === 0 ? 'warn' : 'debug';
    this.#deps.log[level](fields, 'heartbeat could not be sent');
  }

  #publish([first]: readonly NodeReason[]): void {
    const { log } = this.#deps;
    const node = this.#options.nodeName;
    if (first === starting) return;
    if (first) {
      const { reason, message } = first;
      log[first === leaving ? 'info' : 'warn']({ node, problem: reason, reason: message }, 'the node takes no VMIs');
    } else log.info({ node }, 'the node takes VMIs');
    try {
      this.#deps.report(
        first ? { schedulable: false, reason: first.reason, message: first.message } : { schedulable: true },
      );
    } catch (error) {
      log.error({ node, reason: errorMessage(error) }, 'whether the node takes VMIs could not be reported');
    }
  }
}

function marks(isSchedulable: boolean, hasCpuManager: boolean | undefined): Record<string, string> {
  const schedulable = { [labels.schedulable]: String(isSchedulable) };
  if (hasCpuManager === undefined) return schedulable;
  const cpuManager = String(hasCpuManager);
  return { ...schedulable, cpumanager: cpuManager, 'kubevirt.io/cpumanager': cpuManager };
}
