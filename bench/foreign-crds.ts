import { isKubeError } from '../src/kube/index.ts';
import type { ApiUnderLoad } from './api-under-load.ts';

interface Kind {
  readonly group: string;
  readonly version: string;
  readonly plural: string;
  readonly kind: string;
  readonly scope: 'Namespaced' | 'Cluster';
}

const trackers: Kind = {
  ...{ group: 'backup.kubevirt.io', version: 'v1alpha1', scope: 'Namespaced' },
  ...{ plural: 'virtualmachinebackuptrackers', kind: 'VirtualMachineBackupTracker' },
};

/** What upstream's agent waits for without limit and ours does not ask for: kinds that its cluster has, as empty shells. */
const kindsOfAgents: readonly Kind[] = [
  trackers,
  { group: 'plugin.kubevirt.io', version: 'v1alpha1', plural: 'plugins', kind: 'Plugin', scope: 'Cluster' },
  {
    ...{ group: 'migrations.kubevirt.io', version: 'v1alpha1', scope: 'Cluster' },
    ...{ plural: 'migrationpolicies', kind: 'MigrationPolicy' },
  },
];

/** The same of upstream's controller. */
const kindsOfControllers: readonly Kind[] = [
  trackers,
  { ...trackers, plural: 'virtualmachinebackups', kind: 'VirtualMachineBackup' },
  {
    ...{ group: 'export.kubevirt.io', version: 'v1', scope: 'Namespaced' },
    ...{ plural: 'virtualmachineexports', kind: 'VirtualMachineExport' },
  },
];

export function installForOthers(api: ApiUnderLoad): Promise<void> {
  return installKinds(api, kindsOfAgents);
}

/** With it the rights of an administrator: it asks for more than ours does. */
export async function installForOtherControllers(api: Pick<ApiUnderLoad, 'admin' | 'kind'>): Promise<void> {
  await installKinds(api, kindsOfControllers);
  const body = {
    ...{ apiVersion: 'rbac.authorization.k8s.io/v1', kind: 'ClusterRoleBinding' },
    metadata: { name: 'bench-controller' },
    roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: 'cluster-admin' },
    subjects: [{ kind: 'ServiceAccount', name: 'kubevirt-controller', namespace: 'kubevirt' }],
  };
  await api.admin.raw({ method: 'POST', path: '/apis/rbac.authorization.k8s.io/v1/clusterrolebindings', body });
}

async function installKinds(
  { admin, kind }: Pick<ApiUnderLoad, 'admin' | 'kind'>,
  kinds: readonly Kind[],
): Promise<void> {
  if (kind !== 'cluster') throw new Error('another program is measured against a real API server: --api cluster');
  for (const { group, version, plural, scope, kind: kindName } of kinds) {
    const names = { plural, singular: kindName.toLowerCase(), kind: kindName };
    const schema = { openAPIV3Schema: { type: 'object', 'x-kubernetes-preserve-unknown-fields': true } };
    const body = {
      apiVersion: 'apiextensions.k8s.io/v1',
      kind: 'CustomResourceDefinition',
      metadata: { name: `${plural}.${group}` },
      spec: { group, names, scope, versions: [{ name: version, served: true, storage: true, schema }] },
    };
    await admin
      .raw({ method: 'POST', path: '/apis/apiextensions.k8s.io/v1/customresourcedefinitions', body })
      .catch((error: unknown) => {
        // Some of them are ours, too.
        if (!isKubeError(error, 'ALREADY_EXISTS')) throw error;
      });
  }
}
