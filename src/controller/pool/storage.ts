import { controllerOf, type KubeObject, resources, type VirtualMachine } from '../../api/index.ts';
import { listOf, memberAt } from '../../base/index.ts';
import { getIfThere, type KubeClient, writeIfThere } from '../../kube/index.ts';
import { releaseOperations } from '../owned/index.ts';

type Client = Pick<KubeClient, 'get' | 'patch'>;

/** Takes the VM's reference off its claims and DataVolumes: they stay, and the next VM of this name finds them. */
export async function keepStorageOf(vm: VirtualMachine, client: Client, signal: AbortSignal): Promise<void> {
  const { claims, dataVolumes } = storageOf(vm);
  for (const [type, names] of [
    [resources.dataVolumes, dataVolumes],
    [resources.persistentVolumeClaims, claims],
  ] as const) {
    for (const name of names) {
      const ref = { name, ...(vm.metadata.namespace && { namespace: vm.metadata.namespace }) };
      const object = await getIfThere<KubeObject>(client, type, ref, { signal });
      if (!object || controllerOf(object)?.uid !== vm.metadata.uid) continue;
      await writeIfThere(client.patch(type, ref, releaseOperations(object, vm.metadata.uid), 'json', { signal }));
    }
  }
}

/** Names of the claims and DataVolumes that a VM has. */
export function storageOf({ spec }: VirtualMachine) {
  const templates = listOf(spec.dataVolumeTemplates).map((template) => memberAt(template, 'metadata', 'name'));
  const volumes = listOf(spec.template?.spec?.volumes);
  const named = (...path: readonly string[]) => volumes.map((volume) => memberAt(volume, ...path));
  const texts = (names: readonly unknown[]) => new Set(names.filter((name) => typeof name === 'string'));
  return {
    // A DataVolume makes a claim of its name.
    claims: texts([...templates, ...named('persistentVolumeClaim', 'claimName'), ...named('dataVolume', 'name')]),
    dataVolumes: texts([...templates, ...named('dataVolume', 'name')]),
  };
}
