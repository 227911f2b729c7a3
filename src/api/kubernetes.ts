/** The parts of Kubernetes' types that every program here reads. Objects keep fields that are not named here. */

export interface OwnerReference {
  apiVersion: string;
  kind: string;
  name: string;
  uid: string;
  controller?: boolean;
  blockOwnerDeletion?: boolean;
}

export interface ObjectMeta {
  name: string;
  namespace?: string;
  generateName?: string;
  uid?: string;
  resourceVersion?: string;
  generation?: number;
  creationTimestamp?: string;
  deletionTimestamp?: string;
  deletionGracePeriodSeconds?: number;
  labels?: Record<string, string>;
  annotations?: Record<string, string>;
  finalizers?: string[];
  ownerReferences?: OwnerReference[];
  /** Which fields belong to whom: for the API server alone. */
  managedFields?: readonly object[];
}

/** The owner that controls it; there is one at most. */
export function controllerOf({ metadata }: Pick<KubeObject, 'metadata'>): OwnerReference | undefined {
  return metadata.ownerReferences?.find(({ controller }) => controller);
}

export interface KubeObject {
  apiVersion: string;
  kind: string;
  metadata: ObjectMeta;
}

/**
 * `one` was written before `other`, of which it is another state. Resource versions are comparable numbers on every API server
 * there is; of one that has none nothing is known, and the answer is no.
 */
export function isOlderVersion(one: Pick<KubeObject, 'metadata'>, other: Pick<KubeObject, 'metadata'>): boolean {
  return Number(one.metadata.resourceVersion) < Number(other.metadata.resourceVersion);
}

export interface Condition {
  type: string;
  status: 'True' | 'False' | 'Unknown';
  reason?: string;
  message?: string;
  lastProbeTime?: string | null;
  lastTransitionTime?: string | null;
}

export interface EventObject extends KubeObject {
  involvedObject: {
    apiVersion?: string;
    kind: string;
    namespace?: string;
    name: string;
    uid?: string;
    resourceVersion?: string;
  };
  type: 'Normal' | 'Warning';
  reason: string;
  message: string;
  count?: number;
  firstTimestamp?: string;
  lastTimestamp?: string;
  source?: { component?: string; host?: string };
  reportingComponent?: string;
  reportingInstance?: string;
}

/** What the API server answers when it refuses (`kind: Status`). */
export interface StatusObject {
  kind: 'Status';
  apiVersion: 'v1';
  status?: 'Success' | 'Failure';
  message?: string;
  reason?: string;
  code?: number;
  details?: Record<string, unknown>;
}

/** Where a kind lives on the API server. */
export interface ResourceType {
  /** Empty for the core group. */
  readonly group: string;
  readonly version: string;
  /** Plural, lower case: `virtualmachineinstances`. */
  readonly resource: string;
  readonly kind: string;
  readonly namespaced: boolean;
}

export function apiVersionOf(type: ResourceType): string {
  return type.group === '' ? type.version : `${type.group}/${type.version}`;
}

function kubevirt(resource: string, kind: string): ResourceType {
  return { group: 'kubevirt.io', version: 'v1', resource, kind, namespaced: true };
}

function instancetype(resource: string, kind: string, namespaced: boolean): ResourceType {
  return { group: 'instancetype.kubevirt.io', version: 'v1beta1', resource, kind, namespaced };
}

function core(resource: string, kind: string, namespaced = true): ResourceType {
  return { group: '', version: 'v1', resource, kind, namespaced };
}

function snapshot(resource: string, kind: string, namespaced: boolean): ResourceType {
  return { group: 'snapshot.storage.k8s.io', version: 'v1', resource, kind, namespaced };
}

function vmSnapshot(resource: string, kind: string): ResourceType {
  return { group: 'snapshot.kubevirt.io', version: 'v1beta1', resource, kind, namespaced: true };
}

export const resources = {
  virtualMachineInstances: kubevirt('virtualmachineinstances', 'VirtualMachineInstance'),
  virtualMachines: kubevirt('virtualmachines', 'VirtualMachine'),
  migrations: kubevirt('virtualmachineinstancemigrations', 'VirtualMachineInstanceMigration'),
  replicaSets: kubevirt('virtualmachineinstancereplicasets', 'VirtualMachineInstanceReplicaSet'),
  pools: {
    group: 'pool.kubevirt.io',
    version: 'v1beta1',
    resource: 'virtualmachinepools',
    kind: 'VirtualMachinePool',
    namespaced: true,
  },
  migrationPolicies: {
    group: 'migrations.kubevirt.io',
    version: 'v1alpha1',
    resource: 'migrationpolicies',
    kind: 'MigrationPolicy',
    namespaced: false,
  },
  virtualMachineSnapshots: vmSnapshot('virtualmachinesnapshots', 'VirtualMachineSnapshot'),
  virtualMachineSnapshotContents: vmSnapshot('virtualmachinesnapshotcontents', 'VirtualMachineSnapshotContent'),
  virtualMachineRestores: vmSnapshot('virtualmachinerestores', 'VirtualMachineRestore'),
  virtualMachineClones: {
    group: 'clone.kubevirt.io',
    version: 'v1beta1',
    resource: 'virtualmachineclones',
    kind: 'VirtualMachineClone',
    namespaced: true,
  },
  virtualMachineExports: {
    group: 'export.kubevirt.io',
    version: 'v1',
    resource: 'virtualmachineexports',
    kind: 'VirtualMachineExport',
    namespaced: true,
  },
  virtualMachineInstancetypes: instancetype('virtualmachineinstancetypes', 'VirtualMachineInstancetype', true),
  virtualMachineClusterInstancetypes: instancetype(
    'virtualmachineclusterinstancetypes',
    'VirtualMachineClusterInstancetype',
    false,
  ),
  virtualMachinePreferences: instancetype('virtualmachinepreferences', 'VirtualMachinePreference', true),
  virtualMachineClusterPreferences: instancetype(
    'virtualmachineclusterpreferences',
    'VirtualMachineClusterPreference',
    false,
  ),
  kubevirts: kubevirt('kubevirts', 'KubeVirt'),
  pods: core('pods', 'Pod'),
  services: core('services', 'Service'),
  endpoints: core('endpoints', 'Endpoints'),
  endpointSlices: {
    group: 'discovery.k8s.io',
    version: 'v1',
    resource: 'endpointslices',
    kind: 'EndpointSlice',
    namespaced: true,
  },
  nodes: core('nodes', 'Node', false),
  resourceQuotas: core('resourcequotas', 'ResourceQuota'),
  namespaces: core('namespaces', 'Namespace', false),
  events: core('events', 'Event'),
  secrets: core('secrets', 'Secret'),
  configMaps: core('configmaps', 'ConfigMap'),
  serviceAccounts: core('serviceaccounts', 'ServiceAccount'),
  persistentVolumeClaims: core('persistentvolumeclaims', 'PersistentVolumeClaim'),
  persistentVolumes: core('persistentvolumes', 'PersistentVolume', false),
  storageClasses: {
    group: 'storage.k8s.io',
    version: 'v1',
    resource: 'storageclasses',
    kind: 'StorageClass',
    namespaced: false,
  },
  volumeSnapshots: snapshot('volumesnapshots', 'VolumeSnapshot', true),
  volumeSnapshotContents: snapshot('volumesnapshotcontents', 'VolumeSnapshotContent', false),
  volumeSnapshotClasses: snapshot('volumesnapshotclasses', 'VolumeSnapshotClass', false),
  dataVolumes: {
    group: 'cdi.kubevirt.io',
    version: 'v1beta1',
    resource: 'datavolumes',
    kind: 'DataVolume',
    namespaced: true,
  },
  dataSources: {
    group: 'cdi.kubevirt.io',
    version: 'v1beta1',
    resource: 'datasources',
    kind: 'DataSource',
    namespaced: true,
  },
  storageProfiles: {
    group: 'cdi.kubevirt.io',
    version: 'v1beta1',
    resource: 'storageprofiles',
    kind: 'StorageProfile',
    namespaced: false,
  },
  cdiConfigs: {
    group: 'cdi.kubevirt.io',
    version: 'v1beta1',
    resource: 'cdiconfigs',
    kind: 'CDIConfig',
    namespaced: false,
  },
  subjectAccessReviews: {
    group: 'authorization.k8s.io',
    version: 'v1',
    resource: 'subjectaccessreviews',
    kind: 'SubjectAccessReview',
    namespaced: false,
  },
  ingresses: {
    group: 'networking.k8s.io',
    version: 'v1',
    resource: 'ingresses',
    kind: 'Ingress',
    namespaced: true,
  },
  routes: {
    group: 'route.openshift.io',
    version: 'v1',
    resource: 'routes',
    kind: 'Route',
    namespaced: true,
  },
  podDisruptionBudgets: {
    group: 'policy',
    version: 'v1',
    resource: 'poddisruptionbudgets',
    kind: 'PodDisruptionBudget',
    namespaced: true,
  },
  controllerRevisions: {
    group: 'apps',
    version: 'v1',
    resource: 'controllerrevisions',
    kind: 'ControllerRevision',
    namespaced: true,
  },
} as const satisfies Record<string, ResourceType>;
