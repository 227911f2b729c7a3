import {
  controllerOf,
  type KubeObject,
  resources,
  type VirtualMachine,
  type VirtualMachineRestore,
} from '../../api/index.ts';
import { isRecord, memberAt } from '../../base/index.ts';
import { type MatcherField, matcherFields } from '../../instancetype/index.ts';
import { getIfThere, type KubeClient, writeIfThere } from '../../kube/index.ts';
import { controllerReference } from '../owned/index.ts';
import { copyRevision, revisionNames } from '../snapshot-source/index.ts';

type Client = Pick<KubeClient, 'get' | 'create' | 'update'>;
const type = resources.controllerRevisions;

/**
 * The VM naming revisions of its own with what the snapshot's say. Makes them; the VM owns them later, when it is there. Rejects with KubeError.
 */
export async function withRevisions(
  restore: VirtualMachineRestore,
  vm: VirtualMachine,
  client: Client,
  signal: AbortSignal,
): Promise<VirtualMachine> {
  const fields: Partial<Record<MatcherField, object>> = {};
  for (const field of matcherFields) {
    const matcher = vm.spec[field];
    const name = memberAt(matcher, 'revisionName');
    if (!isRecord(matcher) || typeof name !== 'string' || name === '') continue;
    fields[field] = { ...matcher, revisionName: await ownRevision(restore, vm, name, client, signal) };
  }
  return { ...vm, spec: { ...vm.spec, ...fields } };
}

async function ownRevision(
  { metadata, spec }: VirtualMachineRestore,
  vm: VirtualMachine,
  name: string,
  client: Client,
  signal: AbortSignal,
): Promise<string> {
  const { namespace } = metadata;
  const kept = await client.get<KubeObject>(type, { name, ...(namespace && { namespace }) }, { signal });
  const names = revisionNames(name, [spec.virtualMachineSnapshotName, vm.metadata.name], metadata.uid);
  // A VM that is yet to be made has no UID.
  const owner = vm.metadata.uid ? controllerReference(resources.virtualMachines, vm) : undefined;
  return copyRevision(kept, names, owner, client, signal);
}

/** Those that the VM names and nothing owns. Rejects with KubeError. */
export async function ownRevisions(vm: VirtualMachine, client: Client, signal: AbortSignal): Promise<void> {
  for (const field of matcherFields) {
    const name = memberAt(vm.spec[field], 'revisionName');
    if (typeof name !== 'string' || name === '') continue;
    const ref = { name, namespace: vm.metadata.namespace };
    const found = await getIfThere<KubeObject>(client, type, ref, { signal });
    if (!found || controllerOf(found)) continue;
    const ownerReferences = [controllerReference(resources.virtualMachines, vm)];
    await writeIfThere(client.update(type, { ...found, metadata: { ...found.metadata, ownerReferences } }, { signal }));
  }
}
