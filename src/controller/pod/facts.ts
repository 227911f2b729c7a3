import { findCondition, labels, type Pod, type VirtualMachineInstance } from '../../api/index.ts';

/** What a launcher pod's state means to its VMI. */
export const podFacts = {
  isReady,
  isDownOrGoingDown,
  hasFailed,
  isFinal,
  isTemporary,
  isActive,
  isUnschedulable,
  controllerUid,
  currentPod,
  computeImage,
};

/** May be handed over: `compute` runs, every other container is ready. */
function isReady(pod: Pod): boolean {
  if (pod.status?.phase !== 'Running' || isDownOrGoingDown(pod)) return false;
  const statuses = pod.status.containerStatuses ?? [];
  return (
    statuses.some(({ name }) => name === 'compute') &&
    statuses.every(({ name, ready, state }) =>
      name === 'compute' || name === 'istio-proxy' ? state?.running !== undefined : ready,
    )
  );
}

function isDownOrGoingDown(pod: Pod): boolean {
  const compute = pod.status?.containerStatuses?.find(({ name }) => name === 'compute');
  return isFinal(pod) || compute?.state?.terminated !== undefined || pod.metadata.deletionTimestamp !== undefined;
}

/** The launcher ended with an error: not as the last act of a guest that ran. */
function hasFailed(pod: Pod): boolean {
  const compute = pod.status?.containerStatuses?.find(({ name }) => name === 'compute');
  return (compute?.state?.terminated?.exitCode ?? 0) !== 0;
}

function isFinal(pod: Pod): boolean {
  return pod.status?.phase === 'Succeeded' || pod.status?.phase === 'Failed';
}

/** Its processes may run; pods that only wait for a volume's first user do not count. */
function isActive(pod: Pod): boolean {
  return !isFinal(pod) && !isTemporary(pod);
}

function isUnschedulable({ status }: Pod): boolean {
  const found = findCondition(status?.conditions, 'PodScheduled');
  return status?.phase === 'Pending' && found?.status === 'False' && found.reason === 'Unschedulable';
}

function isTemporary(pod: Pod): boolean {
  return pod.metadata.annotations?.['kubevirt.io/ephemeral-provisioning'] !== undefined;
}

function controllerUid(pod: Pod): string | undefined {
  return pod.metadata.ownerReferences?.find(({ controller }) => controller)?.uid;
}

/**
 * The newest of the VMI's launchers, see LauncherPods; once it has a node, only pods there (a migration target is not the current one).
 * A target that a careless scheduler put beside its source is not the current one either: no migration was handed over to it.
 */
function currentPod(vmi: VirtualMachineInstance, pods: readonly Pod[]): Pod | undefined {
  const node = vmi.status?.nodeName;
  const there = pods.filter((pod) => !node || pod.spec.nodeName === node);
  const established = there.filter((pod) => !isNewTarget(vmi, pod));
  const candidates = established.length > 0 ? established : there;
  const created = (pod: Pod) => Date.parse(pod.metadata.creationTimestamp ?? '') || 0;
  return candidates.reduce<Pod | undefined>((newest, pod) => {
    return newest && created(newest) >= created(pod) ? newest : pod;
  }, undefined);
}

/** Made for a migration of which the VMI does not speak, neither as where it went nor as where it leaves from. */
function isNewTarget({ status }: VirtualMachineInstance, { metadata: { name, labels: own } }: Pod): boolean {
  if (own?.[labels.migrationJobUid] === undefined) return false;
  const { targetPod, sourcePod } = status?.migrationState ?? {};
  return name !== targetPod && name !== sourcePod;
}

function computeImage(pod: Pod): string | undefined {
  return pod.spec.containers.find(({ name }) => name === 'compute')?.image;
}
