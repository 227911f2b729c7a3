import { annotations, labels } from '../../api/index.ts';
import { type Clock, type Component, errorMessage, type Logger, rfc3339, sleep } from '../../base/index.ts';

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
  /** Longest time the mark at the end may take. */
  readonly stopTimeoutMs: number;
}

export interface HeartbeatDeps {
  /** Strategic merge patch of the node. */
  readonly patchNode: (name: string, patch: NodePatch, signal: AbortSignal) => Promise<void>;
  readonly clock: Clock;
  readonly log: Logger;
  readonly random: () => number;
}

const retryMs = 2_000;

/**
 * Tells the cluster that this agent lives (spec 40 §2). At a clean stop the node is marked unschedulable, and that is waited
 * for: upstream's process often ends before (fault 6, spec 00).
 */
export class Heartbeat implements Component {
  readonly name = 'heartbeat';
  readonly #options: HeartbeatOptions;
  readonly #deps: HeartbeatDeps;
  readonly #stopping = new AbortController();
  #loop: Promise<void> | undefined;
  #lastSuccessMs: number | undefined;

  constructor(options: HeartbeatOptions, deps: HeartbeatDeps) {
    this.#options = options;
    this.#deps = deps;
  }

  /** Monotonic time of the last beat the API server took. */
  get lastSuccessMs(): number | undefined {
    return this.#lastSuccessMs;
  }

  async start(): Promise<void> {
    this.#loop ??= this.#run(this.#stopping.signal);
  }

  async stop(): Promise<void> {
    this.#stopping.abort(new Error('heartbeat stopped'));
    if (!this.#loop) return;
    await this.#loop;
    const signal = AbortSignal.timeout(this.#options.stopTimeoutMs);
    await this.#deps.patchNode(this.#options.nodeName, { metadata: { labels: schedulable(false) } }, signal);
  }

  async #run(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      const isSent = await this.#beat(signal);
      const { periodMs } = this.#options;
      const pauseMs = isSent ? periodMs * (1 + 1.2 * this.#deps.random()) : retryMs;
      await sleep(pauseMs, signal, this.#deps.clock).catch(() => undefined);
    }
  }

  async #beat(signal: AbortSignal): Promise<boolean> {
    const { nodeName } = this.#options;
    const { clock, log, patchNode } = this.#deps;
    const heartbeat = { [annotations.heartbeat]: rfc3339(clock.now()) };
    try {
      await patchNode(nodeName, { metadata: { labels: schedulable(true), annotations: heartbeat } }, signal);
      this.#lastSuccessMs = clock.monotonicMs();
      return true;
    } catch (error) {
      if (!signal.aborted) log.warn({ node: nodeName, reason: errorMessage(error) }, 'heartbeat could not be sent');
      return false;
    }
  }
}

/** The CPU manager labels say "not looked at" until that part exists. */
function schedulable(value: boolean): Record<string, string> {
  return { [labels.schedulable]: String(value), cpumanager: 'false', 'kubevirt.io/cpumanager': 'false' };
}
