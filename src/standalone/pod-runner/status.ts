import type { Pod } from '../../api/index.ts';
import type { Attempt, WriteReport, Written } from '../../reconcile/index.ts';
import type { PodDecision } from './decide.ts';
import type { PodMemory } from './memory.ts';
import type { PodObservation, PresentPod } from './observe.ts';
import { logTail } from './pod-log.ts';
import type { PodProbes } from './pod-probes.ts';
import type { PodNetworks, PodSource } from './ports.ts';
import { projectPodStatus, statusDiffers } from './project.ts';
import type { Sandboxes, SandboxState } from './sandbox.ts';

export interface StatusDeps {
  readonly pods: Pick<PodSource, 'patchStatus'>;
  readonly sandboxes: Pick<Sandboxes, 'inspect'>;
  readonly networks: Pick<PodNetworks, 'addressesOf'>;
  readonly probes: Pick<PodProbes, 'state' | 'stop'>;
  readonly hostIp: string;
  /** Of the container `compute` unless another one is named. */
  readonly logFile: (uid: string, container?: string) => string;
  /** Reconciles the pod when something of its sandbox changes. */
  readonly watch: (uid: string) => void;
}

/** Projects the status and writes what differs, also after a failed step. Never rejects. */
export async function writeStatus(
  { observation, decision }: Attempt<PodObservation, PodDecision>,
  memory: PodMemory,
  report: WriteReport,
  deps: StatusDeps,
): Promise<Written> {
  if (observation.kind === 'orphan') return { kind: 'no-object' };
  reportObstacle(observation, memory, report);
  if (decision.leavesStatus) return { kind: 'unchanged' };
  try {
    return { kind: await writePodStatus(observation.pod, observation, memory, deps) };
  } catch (error) {
    return { kind: 'failed', error };
  }
}

/** Looks at the sandbox again: a step has just changed it. */
export async function writePodStatus(
  pod: Pod,
  { uid, now, isDraining }: Pick<PresentPod, 'uid' | 'now' | 'isDraining'>,
  { obstacle }: PodMemory,
  { pods, sandboxes, networks, probes, hostIp, logFile, watch }: StatusDeps,
): Promise<'written' | 'unchanged'> {
  const sandbox = await sandboxes.inspect(uid);
  if (sandbox.kind === 'running') watch(uid);
  else probes.stop(uid);
  if (isReported(pod, sandbox)) return 'unchanged';
  const hasFailed = sandbox.kind === 'exited' && sandbox.exitCode !== 0;
  const tail = hasFailed ? await logTail(logFile(uid)) : '';
  const wanted = projectPodStatus(pod, {
    sandbox,
    obstacle,
    hostIp,
    podIps: networks.addressesOf(uid),
    now,
    logTail: tail,
    isDraining,
    probes: probes.state(uid),
  });
  if (!statusDiffers(pod, wanted)) return 'unchanged';
  await pods.patchStatus(pod, wanted);
  return 'written';
}

/** Once, not at every try. */
function reportObstacle(before: PresentPod, { obstacle }: PodMemory, report: WriteReport): void {
  if (!obstacle || obstacle.message === before.obstacle?.message) return;
  report([{ type: 'Warning', reason: 'Failed', message: `${obstacle.reason}: ${obstacle.message}` }]);
}

/** A final status is never written again: its log may be gone, and a stopped node must not change the past. */
function isReported(pod: Pod, sandbox: SandboxState): boolean {
  const isFinal = pod.status?.phase === 'Succeeded' || pod.status?.phase === 'Failed';
  return isFinal && sandbox.kind !== 'running';
}
