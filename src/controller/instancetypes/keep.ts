import { type KubeObject, resources, type VirtualMachine } from '../../api/index.ts';
import { sameJson } from '../../base/index.ts';
import { InstancetypeError, makeRevision, readSpec, revisedSpec } from '../../instancetype/index.ts';
import { isKubeError, type KubeClient } from '../../kube/index.ts';
import type { UnkeptReference } from './referred.ts';

/**
 * Makes the revisions and writes them into the VM's status, at once for both (upstream: Store in pkg/instancetype/revision). Gives the VM
 * as it is then. Rejects with KubeError or InstancetypeError.
 */
export async function keepReferences(
  vm: VirtualMachine,
  unkept: readonly UnkeptReference[],
  client: Pick<KubeClient, 'create' | 'get' | 'patch'>,
  signal: AbortSignal,
): Promise<VirtualMachine> {
  const refs: Record<string, unknown> = {};
  for (const one of unkept) {
    const name = one.made && (await storedRevision(vm, one, client, signal));
    refs[`${one.field}Ref`] = { ...one.ref, ...(name !== undefined && { controllerRevisionRef: { name } }) };
  }
  const { resourceVersion } = vm.metadata;
  const body = { metadata: { resourceVersion }, status: refs };
  const options = { signal, subresource: 'status' } as const;
  return client.patch<VirtualMachine>(resources.virtualMachines, vm.metadata, body, 'merge', options);
}

/** One that is there already is used, if it says the same. */
async function storedRevision(
  vm: VirtualMachine,
  { field, made }: UnkeptReference,
  client: Pick<KubeClient, 'create' | 'get'>,
  signal: AbortSignal,
): Promise<string | undefined> {
  if (!made) return undefined;
  const revision = makeRevision(vm, made.type, made.object);
  const { name } = revision.metadata;
  try {
    await client.create(resources.controllerRevisions, revision, { signal });
  } catch (error) {
    if (!isKubeError(error, 'ALREADY_EXISTS')) throw error;
    const existing = await client.get<KubeObject>(resources.controllerRevisions, revision.metadata, { signal });
    const spec = (one: KubeObject) => readSpec(field, revisedSpec(one, field));
    if (!sameJson(spec(existing), spec(revision))) {
      const text = `found existing ControllerRevision with unexpected data: ${name}: delete it if no VM needs it`;
      throw new InstancetypeError('CONFLICT', text, { cause: error });
    }
  }
  return name;
}
