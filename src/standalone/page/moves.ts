import { isFinalMigration, labels, resources, type VirtualMachineInstanceMigration } from '../../api/index.ts';
import type { KubeClient, ObjectRef } from '../../kube/index.ts';
import { NodeError } from '../errors.ts';

/** Begins to move an instance as `virtctl migrate` does; `node`: to that one. What the API's admission says against it is the error. */
export async function beginMove(
  client: KubeClient,
  { namespace = '', name }: ObjectRef,
  node: string | undefined,
  signal?: AbortSignal,
): Promise<VirtualMachineInstanceMigration> {
  const spec = { vmiName: name, ...(node !== undefined && { addedNodeSelector: { 'kubernetes.io/hostname': node } }) };
  // The API makes the name.
  const metadata = { generateName: 'kubevirt-migrate-vm-', namespace, name: '' };
  const { apiVersion, kind } = { apiVersion: 'kubevirt.io/v1', kind: 'VirtualMachineInstanceMigration' };
  const migration = { apiVersion, kind, metadata, spec };
  return client.create<VirtualMachineInstanceMigration>(resources.migrations, migration, { ...(signal && { signal }) });
}

/** Deletes the migration that is not over, as `virtctl migrate-cancel` does. Rejects with NodeError NOT_FOUND when there is none. */
export async function cancelMove(
  client: KubeClient,
  { namespace = '', name }: ObjectRef,
  given?: AbortSignal,
): Promise<void> {
  const [labelSelector, signal] = [`${labels.migrationVmi}=${name}`, { ...(given && { signal: given }) }];
  const list = { namespace, labelSelector, ...signal };
  const { items } = await client.list<VirtualMachineInstanceMigration>(resources.migrations, list);
  const open = items.filter((each) => !isFinalMigration(each));
  if (open.length === 0) throw new NodeError('NOT_FOUND', `${namespace}/${name} is not being moved`);
  for (const { metadata } of open) {
    const { uid } = metadata;
    await client.delete(resources.migrations, { namespace, name: metadata.name }, { uid, ...signal });
  }
}
