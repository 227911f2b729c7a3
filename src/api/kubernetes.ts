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

/** `apiVersion`: `group/version`, or the version alone for the core group. */
function typed(apiVersion: string, resource: string, kind: string, namespaced = true): ResourceType {
  const [version = '', group = ''] = apiVersion.split('/').reverse();
  return { group, version, resource, kind, namespaced };
}

function kubevirt(resource: string, kind: string): ResourceType {
  return typed('kubevirt.io/v1', resource, kind);
}

function instancetype(resource: string, kind: string, namespaced: boolean): ResourceType {
  return typed('instancetype.kubevirt.io/v1beta1', resource, kind, namespaced);
}

function core(resource: string, kind: string, namespaced = true): ResourceType {
  return typed('v1', resource, kind, namespaced);
}

function snapshot(resource: string, kind: string, namespaced: boolean): ResourceType {
  return typed('snapshot.storage.k8s.io/v1', resource, kind, namespaced);
}

function vmSnapshot(resource: string, kind: string): ResourceType {
  return typed('snapshot.kubevirt.io/v1beta1', resource, kind);
}

function backup(resource: string, kind: string): ResourceType {
  return typed('backup.kubevirt.io/v1alpha1', resource, kind);
}

export const resources = {
  virtualMachineInstances: kubevirt('virtualmachineinstances', 'VirtualMachineInstance'),
  virtualMachines: kubevirt('virtualmachines', 'VirtualMachine'),
  migrations: kubevirt('virtualmachineinstancemigrations', 'VirtualMachineInstanceMigration'),
  replicaSets: kubevirt('virtualmachineinstancereplicasets', 'VirtualMachineInstanceReplicaSet'),
  pools: typed('pool.kubevirt.io/v1beta1', 'virtualmachinepools', 'VirtualMachinePool'),
  migrationPolicies: typed('migrations.kubevirt.io/v1alpha1', 'migrationpolicies', 'MigrationPolicy', false),
  virtualMachineSnapshots: vmSnapshot('virtualmachinesnapshots', 'VirtualMachineSnapshot'),
  virtualMachineSnapshotContents: vmSnapshot('virtualmachinesnapshotcontents', 'VirtualMachineSnapshotContent'),
  virtualMachineRestores: vmSnapshot('virtualmachinerestores', 'VirtualMachineRestore'),
  virtualMachineClones: typed('clone.kubevirt.io/v1beta1', 'virtualmachineclones', 'VirtualMachineClone'),
  virtualMachineExports: typed('export.kubevirt.io/v1', 'virtualmachineexports', 'VirtualMachineExport'),
  virtualMachineBackups: backup('virtualmachinebackups', 'VirtualMachineBackup'),
  virtualMachineBackupTrackers: backup('virtualmachinebackuptrackers', 'VirtualMachineBackupTracker'),
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
  endpointSlices: typed('discovery.k8s.io/v1', 'endpointslices', 'EndpointSlice'),
  nodes: core('nodes', 'Node', false),
  resourceQuotas: core('resourcequotas', 'ResourceQuota'),
  namespaces: core('namespaces', 'Namespace', false),
  events: core('events', 'Event'),
  secrets: core('secrets', 'Secret'),
  configMaps: core('configmaps', 'ConfigMap'),
  serviceAccounts: core('serviceaccounts', 'ServiceAccount'),
  persistentVolumeClaims: core('persistentvolumeclaims', 'PersistentVolumeClaim'),
  persistentVolumes: core('persistentvolumes', 'PersistentVolume', false),
  storageClasses: typed('storage.k8s.io/v1', 'storageclasses', 'StorageClass', false),
  volumeSnapshots: snapshot('volumesnapshots', 'VolumeSnapshot', true),
  volumeSnapshotContents: snapshot('volumesnapshotcontents', 'VolumeSnapshotContent', false),
  volumeSnapshotClasses: snapshot('volumesnapshotclasses', 'VolumeSnapshotClass', false),
  dataVolumes: typed('cdi.kubevirt.io/v1beta1', 'datavolumes', 'DataVolume'),
  dataSources: typed('cdi.kubevirt.io/v1beta1', 'datasources', 'DataSource'),
  storageProfiles: typed('cdi.kubevirt.io/v1beta1', 'storageprofiles', 'StorageProfile', false),
  cdiConfigs: typed('cdi.kubevirt.io/v1beta1', 'cdiconfigs', 'CDIConfig', false),
  subjectAccessReviews: typed('authorization.k8s.io/v1', 'subjectaccessreviews', 'SubjectAccessReview', false),
  ingresses: typed('networking.k8s.io/v1', 'ingresses', 'Ingress'),
  routes: typed('route.openshift.io/v1', 'routes', 'Route'),
  podDisruptionBudgets: typed('policy/v1', 'poddisruptionbudgets', 'PodDisruptionBudget'),
  controllerRevisions: typed('apps/v1', 'controllerrevisions', 'ControllerRevision'),
} as const satisfies Record<string, ResourceType>;
