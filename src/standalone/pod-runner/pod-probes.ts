import { type Clock, withDeadline } from '../../base/index.ts';
import type { ProbeOutcome } from './probe-check.ts';
import type { Probe, ProbeName } from './probe-spec.ts';

/** What the probes of a pod have said. */
export interface ProbeState {
  /** Without a readiness probe a container that runs is ready. */
  readonly isReady: boolean;
  /** Why its program has to end, for people; undefined: it does not. */
  readonly unhealthy: string | undefined;
}

export interface ProbedPod {
  readonly uid: string;
  readonly container: string;
  readonly probes: readonly Probe[];
  readonly startedAtMs: number;
  /** As it was reported before: what is not known yet changes nothing. */
  readonly wasReady: boolean;
}

export interface PodProbesDeps {
  readonly clock: Clock;
  readonly check: (uid: string, probe: Probe, signal: AbortSignal) => Promise<ProbeOutcome>;
  /** The state of this pod has changed. */
  readonly onChange: (uid: string) => void;
  /** A probe has failed, once more. */
  readonly onFailure: (uid: string, name: ProbeName, message: string) => void;
}

/** Longest message of one failure. */
const maxMessage = 1_000;

interface Entry {
  readonly container: string;
  readonly workers: readonly ProbeWorker[];
  readonly ending: AbortController;
}

/** The probes of all pods that run here: each has a rhythm of its own, as a kubelet's workers (kubernetes' pkg/kubelet/prober/worker.go). */
export class PodProbes {
  readonly #deps: PodProbesDeps;
  readonly #pods = new Map<string, Entry>();

  constructor(deps: PodProbesDeps) {
    this.#deps = deps;
  }

  /** From now on, until `stop`. Safe when it is done already. */
  keep({ uid, container, probes, startedAtMs, wasReady }: ProbedPod): void {
    if (this.#pods.has(uid)) return;
    const ending = new AbortController();
    const workers = probes.map(
      (probe) => new ProbeWorker({ uid, probe, startedAtMs, wasReady, signal: ending.signal }, this.#deps),
    );
    this.#pods.set(uid, { container, workers, ending });
    for (const worker of workers) worker.start();
  }

  /** Undefined: its probes were never begun here. */
  state(uid: string): ProbeState | undefined {
    const entry = this.#pods.get(uid);
    if (!entry) return undefined;
    const has = (name: ProbeName) => entry.workers.find(({ probe }) => probe.name === name);
    const liveness = has('liveness');
    return {
      isReady: has('readiness')?.isGood ?? true,
      unhealthy: liveness?.isGood === false ? `Container ${entry.container} failed liveness probe` : undefined,
    };
  }

  /** Asks no more; what was said stays. */
  stop(uid: string): void {
    this.#pods.get(uid)?.ending.abort(new Error('the pod ends'));
  }

  forget(uid: string): void {
    this.stop(uid);
    this.#pods.delete(uid);
  }

  forgetAll(): void {
    for (const uid of [...this.#pods.keys()]) this.forget(uid);
  }
}

interface WorkerOptions {
  readonly uid: string;
  readonly probe: Probe;
  readonly startedAtMs: number;
  readonly wasReady: boolean;
  readonly signal: AbortSignal;
}

class ProbeWorker {
  readonly probe: Probe;
  /** A guest lives until the opposite is shown, and is ready once it is shown. */
  isGood: boolean;
  readonly #options: WorkerOptions;
  readonly #deps: PodProbesDeps;
  #last: boolean | undefined;
  #run = 0;

  constructor(options: WorkerOptions, deps: PodProbesDeps) {
    this.probe = options.probe;
    this.#options = options;
    this.#deps = deps;
    this.isGood = options.probe.name === 'liveness' || options.wasReady;
  }

  start(): void {
    const { startedAtMs, probe } = this.#options;
    const { clock } = this.#deps;
    this.#schedule(Math.max(0, startedAtMs + probe.initialDelaySeconds * 1000 - clock.now().getTime()));
  }

  #schedule(afterMs: number): void {
    const { signal } = this.#options;
    if (signal.aborted) return;
    const cancel = this.#deps.clock.schedule(afterMs, () => {
      signal.removeEventListener('abort', cancel);
      void this.#ask();
    });
    signal.addEventListener('abort', cancel, { once: true });
  }

  async #ask(): Promise<void> {
    const { uid, probe, signal } = this.#options;
    const { clock, check } = this.#deps;
    const beganMs = clock.monotonicMs();
    const limits = { timeoutMs: probe.timeoutSeconds * 1000, signal, clock };
    // Who was told to stop meanwhile is answered by an error, and nobody wants to know.
    const outcome = await withDeadline(limits, (ending) => check(uid, probe, ending)).catch(() => undefined);
    if (signal.aborted || !outcome) return;
    this.#take(outcome);
    // A liveness probe that has failed is asked no more: its program is ended.
    if (probe.name === 'liveness' && !this.isGood) return;
    this.#schedule(Math.max(0, beganMs + probe.periodSeconds * 1000 - clock.monotonicMs()));
  }

  #take({ isGood, message }: ProbeOutcome): void {
    const { uid, probe } = this.#options;
    const { onChange, onFailure } = this.#deps;
    this.#run = isGood === this.#last ? this.#run + 1 : 1;
    this.#last = isGood;
    if (!isGood) onFailure(uid, probe.name, message.slice(0, maxMessage));
    if (this.#run < (isGood ? probe.successThreshold : probe.failureThreshold) || isGood === this.isGood) return;
    this.isGood = isGood;
    onChange(uid);
  }
}
