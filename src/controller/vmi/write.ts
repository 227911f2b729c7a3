import { resources, type VirtualMachineInstance } from '../../api/index.ts';
import { sameJson } from '../../base/index.ts';
import { isKubeError, type KubeClient } from '../../kube/index.ts';

export type JsonPatchOperation =
  | { readonly op: 'test' | 'add' | 'replace'; readonly path: string; readonly value: unknown }
  | { readonly op: 'remove'; readonly path: string };

export type VmiWrite =
  | { readonly kind: 'unchanged' }
  | { readonly kind: 'written'; readonly vmi: VirtualMachineInstance }
  /** Somebody wrote in between, or the object is no more: look again. */
  | { readonly kind: 'stale' };

/** Fields that the controller writes while the agent owns the object. */
const shared = [
  '/status/phase',
  '/status/phaseTransitionTimestamps',
  '/status/volumeStatus',
  '/status/conditions',
  '/status/activePods',
  '/status/launcherContainerImageVersion',
  '/status/qosClass',
  '/status/memory',
  '/metadata/labels',
  '/metadata/finalizers',
] as const;

/**
 * Stores what differs: a PUT of the whole object while the controller owns it, a JSON patch guarded by tests while the agent
 * does (spec 50 §4.5). Rejects with KubeError.
 */
export async function writeVmi(
  client: Pick<KubeClient, 'update' | 'patch'>,
  old: VirtualMachineInstance,
  wanted: VirtualMachineInstance,
  signal: AbortSignal,
): Promise<VmiWrite> {
  const type = resources.virtualMachineInstances;
  const phase = old.status?.phase;
  const isAgents = phase === 'Scheduled' || phase === 'Running';
  const operations = isAgents ? guardedPatch(old, wanted) : [];
  if (isAgents ? operations.length === 0 : sameJson(old, wanted)) return { kind: 'unchanged' };
  try {
    const vmi = isAgents
      ? await client.patch<VirtualMachineInstance>(type, old.metadata, operations, 'json', { signal })
      : await client.update(type, wanted, { signal });
    return { kind: 'written', vmi };
  } catch (error) {
    // A failed test is answered with 422.
    if (isKubeError(error, 'CONFLICT', 'NOT_FOUND') || (isAgents && isKubeError(error, 'INVALID'))) {
      return { kind: 'stale' };
    }
    throw error;
  }
}

/** `test` of the old value and the change, per field; the phase is always tested, so that a final one stays. */
export function guardedPatch(old: VirtualMachineInstance, wanted: VirtualMachineInstance): JsonPatchOperation[] {
  const changes = shared.filter((path) => !sameJson(valueAt(old, path), valueAt(wanted, path)));
  if (changes.length === 0) return [];
  const tested = new Set<string>(['/status/phase', ...changes]);
  const tests = [...tested]
    .map((path) => ({ op: 'test', path, value: valueAt(old, path) }) as const)
    .filter(({ value }) => value !== undefined);
  return [...tests, ...changes.map((path) => change(path, valueAt(old, path), valueAt(wanted, path)))];
}

function change(path: string, old: unknown, wanted: unknown): JsonPatchOperation {
  if (wanted === undefined) return { op: 'remove', path };
  return { op: old === undefined ? 'add' : 'replace', path, value: wanted };
}

function valueAt(vmi: VirtualMachineInstance, path: string): unknown {
  let value: unknown = vmi;
  for (const step of path.slice(1).split('/')) value = (value as Record<string, unknown> | undefined)?.[step];
  return value;
}
