import { annotations, labels } from '../../api/index.ts';
import {
  type Clock,
  CodedError,
  type Component,
  errorMessage,
  type Logger,
  rfc3339,
  withDeadline,
} from '../../base/index.ts';
import { Pause } from './pause.ts';

export interface NodePatch {
  readonly metadata: {
    readonly labels: Readonly<Record<string, string>>;
    readonly annotations?: Readonly<Record<string, string>>;
  };
}

export interface HeartbeatOptions {
  readonly nodeName: string;
  /** 60 s as upstream; the next beat comes after 1 to 2.2 times that. */
  readonly periodMs: number;
  /** Longest time that the mark at the start, and the one at the end, may take. */
  readonly markTimeoutMs: number;
}

export interface HeartbeatDeps {
  /** Strategic merge patch of the node. */
  readonly patchNode: (name: string, patch: NodePatch, signal: AbortSignal) => Promise<void>;
  readonly clock: Clock;
  readonly log: Logger;
  readonly random: () => number;
}

/** The node could not be marked in time. */
export class HeartbeatError extends CodedError<'NOT_MARKED'> {}

const retryMs = 2_000;
const leavingRetryMs = 250;
const beatTimeoutMs = 10_000;

/**
 * Tells the cluster that this agent lives, and whether the node takes VMIs (spec 40 §2): not while the agent starts, then yes,
 * and no again as soon as it leaves. That last mark is waited for: upstream's process often ends before (fault 6, spec 00).
 * Beats follow one another, so that no earlier "yes" can overtake it, and go on until the agent has left.
 */
export class Heartbeat implements Component {
  readonly name = 'heartbeat';
  readonly #options: HeartbeatOptions;
  readonly #deps: HeartbeatDeps;
  readonly #stopping = new AbortController();
  readonly #pause: Pause;
  #loop: Promise<void> | undefined;
  #lastSuccessMs: number | undefined;
  #isLeaving = false;
  #isMarked = false;
  #marked: (() => void)[] = [];

  constructor(options: HeartbeatOptions, deps: HeartbeatDeps) {
    this.#options = options;
    this.#deps = deps;
    this.#pause = new Pause(deps.clock);
  }

  /** Monotonic time of the last beat the API server took. */
  get lastSuccessMs(): number | undefined {
    return this.#lastSuccessMs;
  }

  /** Before anything else (spec 40 §3): what an agent that crashed left behind is taken back. A failure is only logged. */
  async markStarting(signal: AbortSignal): Promise<void> {
    const { clock, log, patchNode } = this.#deps;
    const { nodeName, markTimeoutMs: timeoutMs } = this.#options;
    const patch = { metadata: { labels: { [labels.schedulable]: 'false' } } };
    try {
      await withDeadline({ timeoutMs, signal, clock }, (limit) => patchNode(nodeName, patch, limit));
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
    while (!signal.aborted) {
      const isSent = await this.#beat(signal);
      const { periodMs } = this.#options;
      const again = this.#isLeaving ? leavingRetryMs : retryMs;
      // Asked to leave while a "yes" was under way, this wait ends at once and the "no" follows.
      await this.#pause.wait(isSent ? periodMs * (1 + 1.2 * this.#deps.random()) : again, signal);
    }
  }

  async #beat(parent: AbortSignal): Promise<boolean> {
    const { nodeName } = this.#options;
    const { clock, log, patchNode } = this.#deps;
    const isLeaving = this.#isLeaving;
    const heartbeat = { [annotations.heartbeat]: rfc3339(clock.now()) };
    const patch = { metadata: { labels: schedulable(!isLeaving), annotations: heartbeat } };
    try {
      const limits = { timeoutMs: beatTimeoutMs, signal: parent, clock };
      await withDeadline(limits, (signal) => patchNode(nodeName, patch, signal));
    } catch (error) {
      if (!parent.aborted) log.warn({ node: nodeName, reason: errorMessage(error) }, 'heartbeat could not be sent');
      return false;
    }
    this.#lastSuccessMs = clock.monotonicMs();
    if (isLeaving) {
      this.#isMarked = true;
      for (const tell of this.#marked.splice(0)) tell();
    }
    return true;
  }
}

/** The CPU manager labels say "not looked at" until that part exists. */
function schedulable(value: boolean): Record<string, string> {
  return { [labels.schedulable]: String(value), cpumanager: 'false', 'kubevirt.io/cpumanager': 'false' };
}
