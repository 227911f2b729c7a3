import type { Pod, VirtualMachineInstance } from '../../api/index.ts';

/** What a launcher pod's state means to its VMI. */
export const podFacts = {
  isReady,
  isDownOrGoingDown,
  hasFailed,
  isFinal,
  isTemporary,
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

function isTemporary(pod: Pod): boolean {
  return pod.metadata.annotations?.['kubevirt.io/ephemeral-provisioning'] !== undefined;
}

function controllerUid(pod: Pod): string | undefined {
  return pod.metadata.ownerReferences?.find(({ controller }) => controller)?.uid;
}

/** The newest of the VMI's launchers, see LauncherPods; once it has a node, only pods there (a migration target is not the current one). */
function currentPod(vmi: VirtualMachineInstance, pods: readonly Pod[]): Pod | undefined {
  const node = vmi.status?.nodeName;
  const candidates = pods.filter((pod) => !node || pod.spec.nodeName === node);
  const created = (pod: Pod) => Date.parse(pod.metadata.creationTimestamp ?? '') || 0;
  return candidates.reduce<Pod | undefined>((newest, pod) => {
    return newest && created(newest) >= created(pod) ? newest : pod;
  }, undefined);
}

function computeImage(pod: Pod): string | undefined {
  return pod.spec.containers.find(({ name }) => name === 'compute')?.image;
}
