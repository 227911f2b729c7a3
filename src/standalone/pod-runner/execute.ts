import { rm } from 'node:fs/promises';
import path from 'node:path';
import type { LogKeeper } from '../../host/index.ts';
import type { Executors, ObjectEvent, Outcome, Step, StepContext } from '../../reconcile/index.ts';
import { NodeError } from '../errors.ts';
import { buildPlan, isGuestLog, type PlanOptions } from './build-plan.ts';
import type { ClaimDirectories } from './claims.ts';
import type { PodStepArgs } from './decide.ts';
import type { HostDisks } from './host-disks.ts';
import type { ImageStore } from './images.ts';
import type { PodMemory } from './memory.ts';
import type { PodObservation } from './observe.ts';
import type { PodProbes } from './pod-probes.ts';
import type { PodNetworks, PodSource } from './ports.ts';
import { probesOf } from './probe-spec.ts';
import type { Sandboxes } from './sandbox.ts';
import { type StatusDeps, writePodStatus } from './status.ts';
import { refreshObjects } from './volumes.ts';

export interface ExecuteDeps extends StatusDeps {
  readonly pods: PodSource;
  readonly sandboxes: Sandboxes;
  readonly images: ImageStore;
  readonly hostDisks: HostDisks;
  readonly claims: Pick<ClaimDirectories, 'take' | 'device'>;
  readonly networks: PodNetworks;
  readonly logs: LogKeeper;
  readonly probes: PodProbes;
  readonly plan: PlanOptions;
  /** Time until a pod with an obstacle is tried again. */
  readonly retryMs: number;
}

export interface ExecuteContext extends StepContext {
  readonly observation: PodObservation;
  readonly memory: PodMemory;
  readonly deps: ExecuteDeps;
}

const done: Outcome = { kind: 'done' };

export const executors: Executors<PodStepArgs, ExecuteContext> = {
  startSandbox,
  terminateSandbox,
  killSandbox: async (_step, { observation, deps }) => {
    await deps.sandboxes.kill(observation.uid);
    return done;
  },
  rotateLog: async (_step, { observation, deps }) => {
    for (const name of logNames(observation)) deps.logs.keep(deps.logFile(observation.uid, name));
    return done;
  },
  keepProbes: async ({ pod }, { observation: { uid, sandbox }, deps }) => {
    const [container] = pod.spec.containers;
    if (!container || sandbox.kind !== 'running') return done;
    const wasReady = pod.status?.containerStatuses?.[0]?.ready === true;
    const probes = probesOf(container);
    deps.probes.keep({ uid, container: container.name, probes, startedAtMs: sandbox.startedAtMs, wasReady });
    return done;
  },
  refreshObjects: refreshMountedObjects,
  releaseDisks: async (_step, { observation, deps }) => {
    await deps.hostDisks.release(observation.uid);
    return done;
  },
  reportEnd,
  removeFiles: async (_step, { observation: { uid }, deps }) => {
    await deps.sandboxes.remove(uid);
    await deps.networks.release(uid);
    const dir = path.dirname(deps.logFile(uid));
    deps.logs.forgetBelow(dir);
    await rm(dir, { recursive: true, force: true });
    return done;
  },
  deletePod: async ({ pod }, { deps }) => {
    await deps.pods.delete(pod);
    return done;
  },
};

/** Containers of the pod that write a log here. */
function logNames(observation: PodObservation): string[] {
  if (observation.kind === 'orphan') return [];
  const { containers, initContainers = [] } = observation.pod.spec;
  return [...containers.slice(0, 1), ...initContainers.filter(isGuestLog)].map(({ name }) => name);
}

async function startSandbox(
  { pod }: Step<PodStepArgs, 'startSandbox'>,
  { observation: { uid }, memory, deps }: ExecuteContext,
): Promise<Outcome> {
  const { pods, sandboxes, images, hostDisks, claims, networks, plan, logFile, watch, retryMs } = deps;
  try {
    const parts = { images, objects: pods, hostDisks, claims, networks };
    const logOf = (container: string) => logFile(uid, container);
    await sandboxes.start(await buildPlan(pod, sandboxes.podDir(uid), logOf, plan, parts));
  } catch (error) {
    if (!(error instanceof NodeError)) throw error;
    memory.obstacle = { reason: waitingReason(error), message: error.message };
    return { kind: 'wait', afterMs: retryMs, reason: error.message };
  }
  watch(uid);
  memory.obstacle = undefined;
  const message = `Started container ${pod.spec.containers[0]?.name ?? ''}`;
  const event: ObjectEvent = { type: 'Normal', reason: 'Started', message };
  return { kind: 'done', events: [event] };
}

/** The pod runs on with what it has; that it is not up to date is said once. */
async function refreshMountedObjects(
  { pod }: Step<PodStepArgs, 'refreshObjects'>,
  { observation: { uid, now }, memory, deps: { sandboxes, pods } }: ExecuteContext,
): Promise<Outcome> {
  const before = memory.objects?.problem;
  memory.objects = { atMs: now.getTime() };
  const problems = await refreshObjects(pod, sandboxes.podDir(uid), pods);
  if (problems.length === 0) return done;
  const message = `the pod keeps what it had of these: ${problems.join('; ')}`;
  memory.objects = { atMs: now.getTime(), problem: message };
  if (message === before) return done;
  return { kind: 'done', events: [{ type: 'Warning', reason: 'FailedMount', message }] };
}

/** The time first: a process that is asked and not known to be asked would be given a second grace period. */
async function terminateSandbox(
  { because }: Step<PodStepArgs, 'terminateSandbox'>,
  { observation, deps: { sandboxes, probes } }: ExecuteContext,
): Promise<Outcome> {
  const { uid, now } = observation;
  const isAsked = observation.kind === 'present' && observation.terminatingSinceMs !== undefined;
  if (!isAsked) await sandboxes.markTerminating(uid, now.getTime());
  await sandboxes.terminate(uid);
  probes.stop(uid);
  if (because === undefined) return done;
  return { kind: 'done', events: [{ type: 'Normal', reason: 'Killing', message: because }] };
}

async function reportEnd(
  { pod }: Step<PodStepArgs, 'reportEnd'>,
  { observation, memory, deps }: ExecuteContext,
): Promise<Outcome> {
  const { uid, now } = observation;
  const isDraining = observation.kind === 'present' && observation.isDraining;
  if (!memory.isEndReported) await writePodStatus(pod, { uid, now, isDraining }, memory, deps);
  memory.isEndReported = true;
  return done;
}

/** kubelet's words for why a container waits. */
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
