import { type FSWatcher, watch } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import path from 'node:path';
import type { ExplainFacts, Pod } from '../../api/index.ts';
import { type Clock, type Component, type Logger, sleep, systemClock } from '../../base/index.ts';
import { LogKeeper } from '../../host/index.ts';
import { factsParts, type ReconcileParts, Reconciler, runPlan, stepErrorOf } from '../../reconcile/index.ts';
import type { PlanOptions } from './build-plan.ts';
import type { ClaimDirectories } from './claims.ts';
import { decidePod, type PodDecision } from './decide.ts';
import { type ExecuteDeps, executors } from './execute.ts';
import type { HostDisks } from './host-disks.ts';
import type { ImageStore } from './images.ts';
import { PodMemories } from './memory.ts';
import { observePod, type PodObservation } from './observe.ts';
import { PodProbes } from './pod-probes.ts';
import type { PodNetworks, PodSource } from './ports.ts';
import { checkOnce } from './probe-check.ts';
import type { Sandboxes } from './sandbox.ts';
import { writeStatus } from './status.ts';

export interface PodRunnerOptions extends PlanOptions {
  readonly hostIp: string;
  /** Time until a pod with an obstacle (image missing) is tried again; a change in the image directory is seen at once. */
  readonly retryMs?: number;
  /** From its start on it is as after `drain`: no pod is started, and those that run are asked to end. */
  readonly isDraining?: boolean;
}

export interface PodRunnerDeps {
  readonly pods: PodSource;
  readonly sandboxes: Sandboxes;
  readonly images: ImageStore;
  readonly hostDisks: HostDisks;
  readonly claims: Pick<ClaimDirectories, 'take' | 'device' | 'onChange'>;
  readonly networks: PodNetworks;
  readonly log: Logger;
  readonly clock?: Clock;
  readonly random?: () => number;
}

type Parts = ReconcileParts<PodObservation, PodDecision, ExplainFacts>;

/** Longest time of one step; its requests have shorter limits of their own. */
const stepDeadlineMs = 600_000;
/** By the 15th failure the pauses are as long as they get: a crash loop is only logged. */
const failing = { backoff: { baseMs: 100, maxMs: 10_000 }, crashLoopFailures: 15 } as const;

/**
 * kubelet's part for the pods of this node: one serial actor per pod UID that looks at the pod, its sandbox and the time,
 * decides (`decidePod`), acts and reports. What must outlast it is on disk: after a restart it goes on where it was.
 * Stopping it leaves all pods alone.
 */
export class PodRunner implements Component {
  readonly name = 'pod runner';
  readonly #deps: Omit<Required<PodRunnerDeps>, 'random'>;
  readonly #executeDeps: ExecuteDeps;
  readonly #reconciler: Reconciler<PodObservation, PodDecision, ExplainFacts>;
  readonly #memories = new PodMemories();
  readonly #logs: LogKeeper;
  readonly #probes: PodProbes;
  #unsubscribe: () => void = () => undefined;
  #unsubscribeClaims: () => void = () => undefined;
  #imageWatch: FSWatcher | undefined;
  #isDraining = false;

  constructor(options: PodRunnerOptions, { clock = systemClock, random = Math.random, ...deps }: PodRunnerDeps) {
    this.#deps = { ...deps, clock };
    this.#isDraining = options.isDraining ?? false;
    this.#probes = this.#makeProbes(options);
    this.#logs = new LogKeeper({ notesTimes: true }, { clock, log: deps.log });
    this.#executeDeps = {
      ...deps,
      logs: this.#logs,
      probes: this.#probes,
      plan: options,
      hostIp: options.hostIp,
      retryMs: options.retryMs ?? 5_000,
      logFile: (uid, container = 'compute') => path.join(options.podLogsDir, uid, `${path.basename(container)}.log`),
      watch: (uid) => this.#watch(uid),
    };
    this.#reconciler = new Reconciler({ concurrency: 8, ...failing }, this.#parts(), { clock, random, log: deps.log });
  }

  /** The pod source must have synced. Takes up what an earlier runner left. */
  async start(): Promise<void> {
    const { pods, images, claims, sandboxes } = this.#deps;
    await mkdir(images.dir, { recursive: true });
    const tryAgain = () => {
      for (const uid of this.#memories.hindered()) this.#reconciler.wake(uid);
    };
    this.#imageWatch = watch(images.dir, tryAgain);
    this.#unsubscribeClaims = claims.onChange(tryAgain);
    this.#imageWatch.on('error', () => undefined);
    this.#unsubscribe = pods.subscribe((uid) => this.#reconciler.wake(uid));
    for (const uid of await sandboxes.list()) this.#reconciler.wake(uid);
  }

  /** No pod is touched by this. */
  async stop(): Promise<void> {
    this.#unsubscribe();
    this.#unsubscribeClaims();
    this.#imageWatch?.close();
    await this.#reconciler.stop();
    this.#probes.forgetAll();
    this.#logs.forgetAll();
    this.#memories.forgetAll();
  }

  /** Ends all pods with their grace periods, as for a shutdown of the node, and waits until none runs. The objects stay. */
  async drain(signal: AbortSignal): Promise<void> {
    this.#isDraining = true;
    for (;;) {
      const uids = await this.running();
      for (const uid of uids) this.#reconciler.wake(uid);
      if (uids.length === 0 && this.#unreported().length === 0) return;
      await sleep(100, signal, this.#deps.clock);
    }
  }

  /** UIDs whose processes live. */
  async running(): Promise<string[]> {
    const { sandboxes } = this.#deps;
    const uids = await sandboxes.list();
    const states = await Promise.all(uids.map((uid) => sandboxes.inspect(uid)));
    return uids.filter((_, at) => states[at]?.kind === 'running' || states[at]?.kind === 'starting');
  }

  /** Pods that ended and whose status does not say so yet. */
  #unreported(): readonly Pod[] {
    return this.#deps.pods.list().filter((pod) => pod.status?.phase === 'Running');
  }

  #parts(): Parts {
    const { pods } = this.#deps;
    const memories = this.#memories;
    const observing = { ...this.#deps, memories, probes: this.#probes, isDraining: () => this.#isDraining };
    const words = { field: 'uid', object: 'the pod', onChange: 'when the pod or its sandbox changes' };
    return {
      ...factsParts(seenOf, words),
      isSynced: () => pods.isSynced,
      observe: (uid) => observePod(uid, observing),
      decide: decidePod,
      execute: (observation, decision, signal) => this.#execute(observation, decision, signal),
      write: (attempt, report) => writeStatus(attempt, memories.of(attempt.observation.uid), report, this.#executeDeps),
      versionOf: (seen) => (seen.kind === 'present' ? seen.pod.metadata.resourceVersion : undefined),
      isGone: (observation) => this.#forgetIfGone(observation),
      recordEvent: (observation, { type, reason, message }) => {
        if (observation.kind === 'present') pods.recordEvent(observation.pod, type, reason, message);
        return observation.kind === 'present';
      },
      crashLoop: {
        wishOf: (observation) =>
          observation.kind === 'present' ? (observation.pod.metadata.deletionTimestamp ?? '') : '',
        stateOf: ({ sandbox }) => sandbox.kind,
        isOvertaken: () => false,
        event: () => undefined,
      },
    };
  }

  #execute(observation: PodObservation, { steps }: PodDecision, signal: AbortSignal) {
    const memory = this.#memories.of(observation.uid);
    const context = { observation, memory, deps: this.#executeDeps, signal };
    const { clock } = this.#deps;
    return runPlan(steps, context, { executors, deadlineMs: () => stepDeadlineMs, errorOf: stepErrorOf, clock });
  }

  #makeProbes({ programs, hostIp }: PodRunnerOptions): PodProbes {
    const { pods, sandboxes, networks, clock } = this.#deps;
    return new PodProbes({
      clock,
      check: (uid, { check }, signal) => {
        const [address = hostIp] = networks.addressesOf(uid);
        return checkOnce(check, { uid, address }, signal, { sandboxes, programs });
      },
      onChange: (uid) => this.#reconciler.wake(uid),
      onFailure: (uid, name, message) => {
        const pod = pods.get(uid);
        const text = `${name === 'liveness' ? 'Liveness' : 'Readiness'} probe failed: ${message}`;
        if (pod) pods.recordEvent(pod, 'Warning', 'Unhealthy', text);
      },
    });
  }

  #watch(uid: string): void {
    this.#memories.of(uid).unwatch ??= this.#deps.sandboxes.watch(uid, () => this.#reconciler.wake(uid));
  }

  /** What is on disk may still be removed at a later try. */
  #forgetIfGone({ kind, uid, sandbox }: PodObservation): boolean {
    if (kind !== 'orphan' || sandbox.kind === 'running' || sandbox.kind === 'starting') return false;
    this.#memories.forget(uid);
    this.#probes.forget(uid);
    return true;
  }
}

/** In few words for people; keys are names of log fields, too. */
function seenOf(observation: PodObservation): ExplainFacts {
  const sandbox = observation.sandbox.kind;
  if (observation.kind === 'orphan') return { pod: 'gone', sandbox };
  const { namespace, name } = observation.pod.metadata;
  return { pod: `${namespace}/${name}`, sandbox };
}
