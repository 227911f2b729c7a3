import { resources, type VirtualMachine } from '../../api/index.ts';
import { matcherFields } from '../../instancetype/index.ts';
import { isKubeError, type KubeClient } from '../../kube/index.ts';
import { storedRevisionName } from './lookup.ts';

/**
 * Writes into the VM's templates what it referred to; after that it refers to nothing (upstream: handleExpand in
 * pkg/instancetype/controller/vm). Gives the VM as it is then. Rejects with KubeError.
 */
export async function expandVm(
  vm: VirtualMachine,
  whole: VirtualMachine,
  client: Pick<KubeClient, 'update' | 'patch' | 'delete'>,
  signal: AbortSignal,
): Promise<VirtualMachine> {
  const { instancetype: _instancetype, preference: _preference, ...spec } = vm.spec;
  const { template, dataVolumeTemplates } = whole.spec;
  const disks = dataVolumeTemplates === undefined ? {} : { dataVolumeTemplates };
  const wanted: VirtualMachine = { ...vm, spec: { ...spec, template, ...disks } };
  const updated = await client.update(resources.virtualMachines, wanted, { signal });
  if (!updated.status?.instancetypeRef && !updated.status?.preferenceRef) return updated;
  const status = { instancetypeRef: null, preferenceRef: null };
  const options = { signal, subresource: 'status' } as const;
  const type = resources.virtualMachines;
  const cleared = await client.patch<VirtualMachine>(type, vm.metadata, { status }, 'merge', options);
  for (const name of matcherFields.flatMap((field) => storedRevisionName(vm, field) ?? [])) {
    await deleteRevision({ name, namespace: vm.metadata.namespace }, client, signal);
  }
  return cleared;
}

/** It goes with the VM at the latest. */
async function deleteRevision(
  ref: { readonly name: string; readonly namespace: string | undefined },
  client: Pick<KubeClient, 'delete'>,
  signal: AbortSignal,
): Promise<void> {
  try {
    await client.delete(resources.controllerRevisions, ref, { signal });
  } catch (error) {
    if (signal.aborted || !isKubeError(error)) throw error;
  }
}
