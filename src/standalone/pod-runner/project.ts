import {
  type Condition,
  type Container,
  type ContainerState,
  type ContainerStatus,
  findCondition,
  isSameCondition,
  type Pod,
  type PodStatus,
  transitionTime,
} from '../../api/index.ts';
import { rfc3339, sameJson } from '../../base/index.ts';
import { isGuestLog } from './build-plan.ts';
import type { ProbeState } from './pod-probes.ts';
import type { SandboxState } from './sandbox.ts';

/** Why a container has not been started. */
export interface Obstacle {
  /** kubelet's word: `ErrImagePull`, `InvalidImageName`, `CreateContainerConfigError`, `RunContainerError`. */
  readonly reason: string;
  readonly message: string;
}

export interface PodView {
  readonly sandbox: SandboxState;
  readonly obstacle: Obstacle | undefined;
  readonly hostIp: string;
  /** Of a network of its own; empty for a pod in the machine's, or of which they are no longer known. */
  readonly podIps: readonly string[];
  readonly now: Date;
  /** End of the log, for the message of a container that failed. */
  readonly logTail: string;
  /** The node was stopped, the pod with it. */
  readonly isDraining: boolean;
  /** Undefined: its probes were not begun, or it has none. */
  readonly probes: ProbeState | undefined;
}

/** The status of a pod as kubelet would write it; the VMI controller and users read it. Pure. */
export function projectPodStatus(pod: Pod, view: PodView): PodStatus {
  const state = containerState(pod, view);
  const phase = state.terminated ? (state.terminated.exitCode === 0 ? 'Succeeded' : 'Failed') : undefined;
  const isUp = state.running !== undefined;
  const isReady = isUp && isContainerReady(pod, view);
  const startedAtMs = 'startedAtMs' in view.sandbox ? view.sandbox.startedAtMs : view.now.getTime();
  const drained = view.isDraining && phase !== undefined;
  return {
    phase: phase ?? (isUp ? 'Running' : 'Pending'),
    ...(drained && { reason: 'Terminated', message: 'The node was stopped.' }),
    hostIP: view.hostIp,
    hostIPs: [{ ip: view.hostIp }],
    ...((isUp || phase) && addresses(pod, view)),
    startTime: pod.status?.startTime ?? rfc3339(new Date(startedAtMs)),
    conditions: conditions(pod, { isUp, isReady, isFinal: phase !== undefined }, view.now),
    ...(pod.spec.initContainers?.length && {
      initContainerStatuses: pod.spec.initContainers.map((container) =>
        isGuestLog(container) ? sideStatus(pod, container, state) : doneStatus(container, isUp || Boolean(phase)),
      ),
    }),
    containerStatuses: pod.spec.containers.slice(0, 1).map((container) => status(pod, container, state, isReady)),
    qosClass: pod.status?.qosClass ?? 'Burstable',
  };
}

/** What was reported stays: addresses end with the pod, and those of one pod never change. */
function addresses({ status }: Pod, { podIps, hostIp }: PodView): Pick<PodStatus, 'podIP' | 'podIPs'> {
  const [podIP = status?.podIP ?? hostIp] = podIps;
  const podIPs = podIps.length > 0 ? podIps.map((ip) => ({ ip })) : (status?.podIPs ?? [{ ip: podIP }]);
  return { podIP, podIPs };
}

function containerState(pod: Pod, view: PodView): ContainerState {
  const { sandbox, obstacle } = view;
  switch (sandbox.kind) {
    case 'running':
      return { running: { startedAt: rfc3339(new Date(sandbox.startedAtMs)) } };
    case 'exited':
      return {
        terminated: {
          exitCode: sandbox.exitCode,
          reason: sandbox.exitCode === 0 ? 'Completed' : 'Error',
          ...(sandbox.exitCode !== 0 && view.logTail !== '' && { message: view.logTail }),
          startedAt: rfc3339(new Date(sandbox.startedAtMs)),
          finishedAt: rfc3339(new Date(sandbox.finishedAtMs)),
        },
      };
    case 'lost':
      return lost(pod, view);
    case 'none':
      if (pod.status?.phase === 'Running') return lost(pod, view);
      return { waiting: obstacle ?? { reason: 'ContainerCreating' } };
    case 'starting':
      return { waiting: { reason: 'ContainerCreating' } };
  }
}

function lost(pod: Pod, view: PodView): ContainerState {
  const known = pod.status?.containerStatuses?.[0]?.state?.terminated;
  if (known) return { terminated: known };
  const message = 'The container is gone and nobody saw how it ended: it was killed, or the machine was restarted.';
  return {
    terminated: { exitCode: 137, reason: 'ContainerStatusUnknown', message, finishedAt: rfc3339(view.now) },
  };
}

function status(pod: Pod, container: Container, state: ContainerState, isReady?: boolean): ContainerStatus {
  const isUp = state.running !== undefined;
  const image = container.image ?? '';
  const hasRun = isUp || state.terminated !== undefined;
  return {
    name: container.name,
    state,
    ready: isReady ?? isUp,
    started: isUp,
    restartCount: 0,
    image,
    imageID: hasRun ? image : '',
    ...(hasRun && { containerID: `virt-node://${pod.metadata.uid ?? ''}` }),
  };
}

/** It begins and ends with the pod. */
function sideStatus(pod: Pod, container: Container, state: ContainerState): ContainerStatus {
  const { waiting, running, terminated } = state;
  if (waiting) return status(pod, container, { waiting: { reason: 'PodInitializing' } });
  if (running) return status(pod, container, { running });
  const { startedAt, finishedAt } = terminated ?? {};
  const ended = {
    exitCode: 0,
    reason: 'Completed',
    ...(startedAt && { startedAt }),
    ...(finishedAt && { finishedAt }),
  };
  return status(pod, container, { terminated: ended });
}

/** Init containers here only exist to tell an image's digest; there is nothing to run. */
function doneStatus(container: Container, done: boolean): ContainerStatus {
  const image = container.image ?? '';
  return {
    name: container.name,
    state: done ? { terminated: { exitCode: 0, reason: 'Completed' } } : { waiting: { reason: 'PodInitializing' } },
    ready: done,
    restartCount: 0,
    image,
    imageID: done ? image : '',
  };
}

/** What its readiness probe says, once it has said something. */
function isContainerReady({ spec, status: reported }: Pod, { probes }: PodView): boolean {
  if (spec.containers[0]?.readinessProbe === undefined) return true;
  return probes?.isReady ?? reported?.containerStatuses?.[0]?.ready ?? false;
}

interface Readiness {
  readonly isUp: boolean;
  readonly isReady: boolean;
  readonly isFinal: boolean;
}

function conditions(pod: Pod, { isUp, isReady, isFinal }: Readiness, now: Date): Condition[] {
  const old = pod.status?.conditions ?? [];
  const gates = pod.spec.readinessGates ?? [];
  const closed = gates.map((gate) => gate.conditionType).filter((type) => findCondition(old, type)?.status !== 'True');
  const containers = isReady ? undefined : isFinal ? 'PodCompleted' : 'ContainersNotReady';
  const unready = `containers with unready status: [${pod.spec.containers[0]?.name ?? ''}]`;
  const notReady = { ...(containers && { reason: containers }), ...(isUp && !isReady && { message: unready }) };
  const gate = closed.length > 0 ? `the status of pod readiness gate ${closed.join(', ')} is not "True"` : undefined;
  const wanted: Condition[] = [
    { type: 'PodScheduled', status: 'True' },
    { type: 'Initialized', status: isUp || isFinal ? 'True' : 'False' },
    { type: 'ContainersReady', status: containers ? 'False' : 'True', ...notReady },
    containers
      ? { type: 'Ready', status: 'False', ...notReady }
      : gate
        ? { type: 'Ready', status: 'False', reason: 'ReadinessGatesNotReady', message: gate }
        : { type: 'Ready', status: 'True' },
  ];
  return wanted.map((condition) => {
    const since = transitionTime(findCondition(old, condition.type), condition.status, rfc3339(now));
    return { ...condition, lastProbeTime: null, lastTransitionTime: since };
  });
}

/** True when writing `wanted` would change the pod. Conditions of others do not count. */
export function statusDiffers(pod: Pod, wanted: PodStatus): boolean {
  const current = pod.status ?? {};
  return Object.entries(wanted).some(([field, value]) => {
    if (field !== 'conditions') return !sameJson(current[field], value);
    return (wanted.conditions ?? []).some((condition) => {
      const found = findCondition(current.conditions, condition.type);
      return !found || !isSameCondition(found, condition);
    });
  });
}
