import { resources, type VirtualMachineInstance } from '../../api/index.ts';
import { sameJson } from '../../base/index.ts';
import { getIfThere, isKubeError, type KubeClient } from '../../kube/index.ts';
import { guardedPatch, type WriteAttempt, type WriteOutcome, writeGuarded } from '../../reconcile/index.ts';

/** Fields that the controller writes while the agent owns the object. */
const shared = [
  '/status/phase',
  '/status/phaseTransitionTimestamps',
  '/status/volumeStatus',
  '/status/interfaces',
  '/status/conditions',
  '/status/activePods',
  '/status/launcherContainerImageVersion',
  '/status/qosClass',
  '/status/memory',
  '/metadata/labels',
  '/metadata/finalizers',
] as const;

export interface WriteDeps {
  readonly client: Pick<KubeClient, 'get' | 'update' | 'patch'>;
  /** Hears of each state of the VMI that the API server answers. */
  readonly saw: (newer: VirtualMachineInstance) => void;
  readonly signal: AbortSignal;
}

export type VmiWritten = WriteOutcome<VirtualMachineInstance, unknown>;

/**
 * Stores what differs: a PUT of the whole object while the controller owns it, a JSON patch guarded by tests while the agent
 * does. When others wrote in between, the newest object is read and the outcome is `outdated`: all that is projected depends on
 * it. Rejects with KubeError.
 */
export function writeVmi(
  old: VirtualMachineInstance,
  wanted: VirtualMachineInstance,
  deps: WriteDeps,
): Promise<VmiWritten> {
  const { client, saw, signal } = deps;
  const type = resources.virtualMachineInstances;
  return writeGuarded<VirtualMachineInstance, VirtualMachineInstance, unknown>(old, {
    attempt: (base) => attempt(base, wanted, deps),
    newest: () => getIfThere<VirtualMachineInstance>(client, type, old.metadata, { signal }),
    stillHolds: () => false,
    saw,
    tries: 1,
  });
}

async function attempt(
  old: VirtualMachineInstance,
  wanted: VirtualMachineInstance,
  { client, signal }: WriteDeps,
): Promise<WriteAttempt<VirtualMachineInstance, VirtualMachineInstance, unknown>> {
  const type = resources.virtualMachineInstances;
  const phase = old.status?.phase;
  const isAgents = phase === 'Scheduled' || phase === 'Running';
  const operations = isAgents ? vmiPatch(old, wanted) : [];
  if (isAgents ? operations.length === 0 : sameJson(old, wanted)) return { kind: 'unchanged', note: old };
  try {
    const object = isAgents
      ? await client.patch<VirtualMachineInstance>(type, old.metadata, operations, 'json', { signal })
      : await client.update(type, wanted, { signal });
    return { kind: 'written', object, note: wanted };
  } catch (error) {
    if (isKubeError(error, 'NOT_FOUND')) return { kind: 'gone' };
    // A failed test is answered with 422.
    if (isKubeError(error, 'CONFLICT') || (isAgents && isKubeError(error, 'INVALID'))) return { kind: 'conflict' };
    if (isKubeError(error, 'INVALID')) return { kind: 'refused', refusal: error };
    throw error;
  }
}

/** `test` of the old value and the change, per field; the phase is always tested, so that a final one stays. */
export function vmiPatch(old: VirtualMachineInstance, wanted: VirtualMachineInstance) {
  return guardedPatch(old, wanted, { fields: shared, always: ['/status/phase'], isSame: sameJson });
}
