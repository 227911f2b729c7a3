import { isKubeError } from '../src/kube/index.ts';
import type { ApiUnderLoad } from './api-under-load.ts';

/**
 * What upstream's agent waits for without limit and ours does not ask for: kinds that its cluster has, as empty shells, the
 * config map of the CA, and a KubeVirt object.
 */
const kinds = [
  {
    group: 'backup.kubevirt.io',
    version: 'v1alpha1',
    plural: 'virtualmachinebackuptrackers',
    kind: 'VirtualMachineBackupTracker',
  },
  { group: 'plugin.kubevirt.io', version: 'v1alpha1', plural: 'plugins', kind: 'Plugin' },
  { group: 'migrations.kubevirt.io', version: 'v1alpha1', plural: 'migrationpolicies', kind: 'MigrationPolicy' },
] as const;

export async function installForOthers({ admin, kind }: ApiUnderLoad): Promise<void> {
  if (kind !== 'cluster') throw new Error('another agent is measured against a real API server: --api cluster');
  for (const { group, version, plural, kind: kindName } of kinds) {
    const names = { plural, singular: kindName.toLowerCase(), kind: kindName };
    const schema = { openAPIV3Schema: { type: 'object', 'x-kubernetes-preserve-unknown-fields': true } };
    const body = {
      apiVersion: 'apiextensions.k8s.io/v1',
      kind: 'CustomResourceDefinition',
      metadata: { name: `${plural}.${group}` },
      spec: {
        group,
        names,
        scope: kindName === 'VirtualMachineBackupTracker' ? 'Namespaced' : 'Cluster',
        versions: [{ name: version, served: true, storage: true, schema }],
      },
    };
    await admin
      .raw({ method: 'POST', path: '/apis/apiextensions.k8s.io/v1/customresourcedefinitions', body })
      .catch((error: unknown) => {
        // Some of them are ours, too.
        if (!isKubeError(error, 'ALREADY_EXISTS')) throw error;
      });
  }
}
