import { type FSWatcher, watch } from 'node:fs';
import { mkdir, rm } from 'node:fs/promises';
import path from 'node:path';
import type { Pod } from '../../api/index.ts';
import { type Clock, type Component, errorMessage, type Logger, sleep, systemClock } from '../../base/index.ts';
import { KeyedQueue, type KeyResult } from '../../reconcile/index.ts';
import { NodeError } from '../errors.ts';
import { buildPlan, type PlanOptions } from './build-plan.ts';
import { decidePod, type PodDecision, type PodObservation } from './decide.ts';
import type { HostDisks } from './host-disks.ts';
import type { ImageStore } from './images.ts';
import { logTail, rotateLog } from './pod-log.ts';
import type { PodSource } from './ports.ts';
import type { Sandboxes, SandboxState } from './sandbox.ts';
import { type Obstacle, projectPodStatus, statusDiffers } from './status.ts';

export interface PodRunnerOptions extends PlanOptions {
  readonly hostIp: string;
  /** Time until a pod with an obstacle (image missing) is tried again; a change in the image directory is seen at once. */
  readonly retryMs?: number;
}

export interface PodRunnerDeps {
  readonly pods: PodSource;
  readonly sandboxes: Sandboxes;
  readonly images: ImageStore;
  readonly hostDisks: HostDisks;
  readonly log: Logger;
  readonly clock?: Clock;
}

/**
 * kubelet's part for the pods of this node: one serial actor per pod UID that looks at the pod, its sandbox and the time,
 * decides (`decidePod`), acts and reports. Everything it must remember is on disk: after a restart it goes on where it was.
 * Stopping it leaves all pods alone.
 */
export class PodRunner implements Component {
  readonly name = 'pod runner';
  readonly #options: PodRunnerOptions;
  readonly #deps: PodRunnerDeps;
  readonly #clock: Clock;
  readonly #queue: KeyedQueue;
  readonly #watches = new Map<string, () => void>();
  readonly #obstacles = new Map<string, Obstacle>();
  readonly #rules = new Map<string, string>();
  /** Pods whose end was reported and whose files are gone, but which could not be taken out of the API yet. */
  readonly #reported = new Set<string>();
  #unsubscribe: () => void = () => undefined;
  #imageWatch: FSWatcher | undefined;
  #isDraining = false;

  constructor(options: PodRunnerOptions, deps: PodRunnerDeps) {
    this.#options = options;
    this.#deps = deps;
    this.#clock = deps.clock ?? systemClock;
    this.#queue = new KeyedQueue(
      { concurrency: 8, backoff: { baseMs: 100, maxMs: 10_000, jitter: 0.1 } },
      {
        run: (uid) => this.#run(uid),
        clock: this.#clock,
        onError: (uid, error, retryInMs) =>
          deps.log.warn({ pod: uid, err: errorMessage(error), retryInMs }, 'a pod could not be handled'),
      },
    );
  }

  /** The pod source must have synced. Takes up what an earlier runner left. */
  async start(): Promise<void> {
    const { pods, images, sandboxes } = this.#deps;
    await mkdir(images.dir, { recursive: true });
    this.#imageWatch = watch(images.dir, () => {
      for (const uid of this.#obstacles.keys()) this.#queue.add(uid);
    });
    this.#imageWatch.on('error', () => undefined);
    this.#unsubscribe = pods.subscribe((uid) => this.#queue.add(uid));
    const known = await sandboxes.list();
    await this.#deps.hostDisks.keepOnly(new Set(known));
    for (const uid of known) this.#queue.add(uid);
  }

  /** No pod is touched by this. */
  async stop(): Promise<void> {
    this.#unsubscribe();
    this.#imageWatch?.close();
    await this.#queue.stop();
    for (const close of this.#watches.values()) close();
    this.#watches.clear();
  }

  /** Ends all pods with their grace periods, as for a shutdown of the node, and waits until none runs. The objects stay. */
  async drain(signal: AbortSignal): Promise<void> {
    this.#isDraining = true;
    for (;;) {
      const uids = await this.running();
      for (const uid of uids) this.#queue.add(uid);
      if (uids.length === 0 && this.#unreported().length === 0) return;
      await sleep(100, signal, this.#clock);
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

  async #run(uid: string): Promise<KeyResult> {
    const { pods, sandboxes } = this.#deps;
    const seen: PodObservation = {
      pod: pods.get(uid),
      sandbox: await sandboxes.inspect(uid),
      terminatingSinceMs: await sandboxes.terminatingSinceMs(uid),
      nowMs: this.#clock.now().getTime(),
      isDraining: this.#isDraining,
    };
    // Unknown is not absent: before the first complete list nothing is an orphan.
    if (!seen.pod && !pods.isSynced) return { kind: 'done', requeueAfterMs: 1_000 };
    const decision = decidePod(seen);
    this.#logDecision(uid, seen, decision);
    // QEMU has ended; the object of the pod may stay for long.
    if (seen.sandbox.kind === 'exited' || seen.sandbox.kind === 'lost') await this.#deps.hostDisks.release(uid);
    const requeueAfterMs = await this.#act(uid, seen, decision);
    if (seen.pod && decision.action !== 'finish') await this.#report(seen.pod);
    else this.#forget(uid);
    return requeueAfterMs === undefined ? { kind: 'done' } : { kind: 'done', requeueAfterMs };
  }

  async #act(uid: string, { pod }: PodObservation, decision: PodDecision): Promise<number | undefined> {
    const { sandboxes, pods } = this.#deps;
    switch (decision.action) {
      case 'none':
        if (decision.rule === 'up') await rotateLog(this.#logFile(uid));
        break;
      case 'start':
        if (pod) return this.#start(pod, decision.requeueAfterMs);
        break;
      case 'terminate':
        await sandboxes.markTerminating(uid, this.#clock.now().getTime());
        await sandboxes.terminate(uid);
        break;
      case 'kill':
        await sandboxes.kill(uid);
        break;
      case 'remove':
        await this.#remove(uid);
        break;
      case 'finish':
        if (!pod) break;
        if (!this.#reported.has(uid)) await this.#report(pod);
        this.#reported.add(uid);
        await this.#remove(uid);
        await pods.delete(pod);
        break;
    }
    return decision.requeueAfterMs;
  }

  async #start(pod: Pod, requeueAfterMs: number | undefined): Promise<number | undefined> {
    const { sandboxes, pods } = this.#deps;
    const uid = uidOf(pod);
    try {
      const plan = await buildPlan(pod, sandboxes.podDir(uid), this.#logFile(uid), this.#options, {
        images: this.#deps.images,
        objects: pods,
        hostDisks: this.#deps.hostDisks,
      });
      await sandboxes.start(plan);
      this.#watch(uid);
      this.#obstacles.delete(uid);
      pods.recordEvent(pod, 'Normal', 'Started', `Started container ${pod.spec.containers[0]?.name ?? ''}`);
      return requeueAfterMs;
    } catch (error) {
      if (!(error instanceof NodeError)) throw error;
      const obstacle = { reason: waitingReason(error), message: error.message };
      if (this.#obstacles.get(uid)?.message !== obstacle.message) {
        pods.recordEvent(pod, 'Warning', 'Failed', `${obstacle.reason}: ${obstacle.message}`);
      }
      this.#obstacles.set(uid, obstacle);
      return this.#options.retryMs ?? 5_000;
    }
  }

  async #report(pod: Pod): Promise<void> {
    const uid = uidOf(pod);
    const sandbox = await this.#deps.sandboxes.inspect(uid);
    if (sandbox.kind === 'running') this.#watch(uid);
    const wanted = projectPodStatus(pod, {
      sandbox,
      obstacle: this.#obstacles.get(uid),
      hostIp: this.#options.hostIp,
      now: this.#clock.now(),
      logTail: sandbox.kind === 'exited' && sandbox.exitCode !== 0 ? await logTail(this.#logFile(uid)) : '',
      isDraining: this.#isDraining,
    });
    if (isReported(pod, sandbox) || !statusDiffers(pod, wanted)) return;
    await this.#deps.pods.patchStatus(pod, wanted);
  }

  async #remove(uid: string): Promise<void> {
    await this.#deps.hostDisks.release(uid);
    await this.#deps.sandboxes.remove(uid);
    await rm(path.dirname(this.#logFile(uid)), { recursive: true, force: true });
  }

  #watch(uid: string): void {
    if (this.#watches.has(uid)) return;
    this.#watches.set(
      uid,
      this.#deps.sandboxes.watch(uid, () => this.#queue.add(uid)),
    );
  }

  #forget(uid: string): void {
    this.#watches.get(uid)?.();
    this.#watches.delete(uid);
    this.#obstacles.delete(uid);
    this.#rules.delete(uid);
    this.#reported.delete(uid);
  }

  #logFile(uid: string): string {
    return path.join(this.#options.podLogsDir, uid, 'compute.log');
  }

  #logDecision(uid: string, { pod, sandbox }: PodObservation, { rule, action }: PodDecision): void {
    if (this.#rules.get(uid) === rule) return;
    this.#rules.set(uid, rule);
    const name = pod ? `${pod.metadata.namespace}/${pod.metadata.name}` : undefined;
    this.#deps.log.info({ pod: name, uid, rule, action, sandbox: sandbox.kind }, 'pod decision');
  }
}

/** A final status is never written again: its log may be gone, and a stopped node must not change the past. */
function isReported(pod: Pod, sandbox: SandboxState): boolean {
  const isFinal = pod.status?.phase === 'Succeeded' || pod.status?.phase === 'Failed';
  return isFinal && sandbox.kind !== 'running';
}

function uidOf(pod: Pod): string {
  const { uid } = pod.metadata;
  if (!uid) throw new NodeError('POD_INVALID', `pod ${pod.metadata.name} has no UID`);
  return uid;
}

function waitingReason(error: NodeError): string {
  switch (error.code) {
    case 'IMAGE_MISSING':
      return 'ErrImagePull';
    case 'IMAGE_INVALID':
      return 'InvalidImageName';
    case 'SANDBOX':
      return 'RunContainerError';
    default:
      return 'CreateContainerConfigError';
  }
}
