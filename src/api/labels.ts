/** Labels, annotations and finalizers, but for those that say so exactly upstream's (`staging/src/kubevirt.io/api/core/v1/types.go`). */
export const labels = {
  app: 'kubevirt.io',
  createdBy: 'kubevirt.io/created-by',
  nodeName: 'kubevirt.io/nodeName',
  migrationTargetNodeName: 'kubevirt.io/migrationTargetNodeName',
  /** On a migration: the VMI that it moves. */
  migrationVmi: 'kubevirt.io/vmi-name',
  /** On the target pod of a migration: the migration's UID. */
  migrationJobUid: 'kubevirt.io/migrationJobUID',
  schedulable: 'kubevirt.io/schedulable',
  vmName: 'vm.kubevirt.io/name',
  /** On a VM of a pool and on its VMI: the ControllerRevision with the template that it was made from. */
  poolRevision: 'kubevirt.io/vm-pool-revision-name',
  outdatedLauncherImage: 'kubevirt.io/outdatedLauncherImage',
  /** Figures of a migration target's pod, for CPUs and memory that are plugged in by the migration. */
  podCpuLimit: 'kubevirt.io/vmi-pod-cpu-resource-limits',
  snapshotSourceName: 'snapshot.kubevirt.io/source-vm-name',
  snapshotSourceNamespace: 'snapshot.kubevirt.io/source-vm-namespace',
  restoreSourceName: 'restore.kubevirt.io/source-vm-name',
  restoreSourceNamespace: 'restore.kubevirt.io/source-vm-namespace',
  podMemoryRequest: 'kubevirt.io/vmi-pod-memory-resource-requests',
  /** On an exporter pod: by which its service finds it. */
  exportService: 'kubevirt.io.virt-export-service',
  memoryOverheadRatio: 'kubevirt.io/memory-hotplug-overhead-ratio',
} as const;

/** Upstream's controllers note on each of their objects with which version of the API they know it. */
export const observedApiVersion: Readonly<Record<string, string>> = {
  'kubevirt.io/latest-observed-api-version': 'v1',
  'kubevirt.io/storage-observed-api-version': 'v1',
};

export const annotations = {
  domain: 'kubevirt.io/domain',
  /** Ours: how far a guest on its way has come; see `MigrationProgress`. */
  migrationProgress: 'virt-handler.kubevirt.io/migration-progress',
  /** Ours: UID of the migration that this VMI's agent refused, so that another try would end in the same way. */
  migrationRefused: 'virt-handler.kubevirt.io/migration-refused',
  nonroot: 'kubevirt.io/nonroot',
  /** Of a pod, read by Multus (k8snetworkplumbingwg/multi-net-spec): networks besides the main one … */
  multusNetworks: 'k8s.v1.cni.cncf.io/networks',
  /** … and another main one. */
  multusDefaultNetwork: 'v1.multus-cni.io/default-network',
  heartbeat: 'kubevirt.io/heartbeat',
  createMigrationTarget: 'kubevirt.io/create-migration-target',
  /** On a VM that waits for a guest: its run strategy once the guest is there. */
  restoreRunStrategy: 'kubevirt.io/restore-run-strategy',
  allowPodBridgeMigration: 'kubevirt.io/allow-pod-bridge-network-live-migration',
  evictionSource: 'kubevirt.io/eviction-source',
  /** On the target pod of a migration: the migration's name. */
  migrationJobName: 'kubevirt.io/migrationJobName',
  /** On a migration: the node that it helps to empty. */
  evacuationMigration: 'kubevirt.io/evacuationMigration',
  workloadUpdateMigration: 'kubevirt.io/workloadUpdateMigration',
  /** Ours, on a migration: the name of the one that a loss ended, and that this one tries again. */
  migrationRetryOf: 'virt-controller.kubevirt.io/retry-of',
  /** On a claim and on a VM: name and UID of the restore that made it what it is. */
  lastRestore: 'restore.kubevirt.io/lastRestoreUID',
  /** On claims and DataVolumes that a restore makes: its name. */
  restoreName: 'restore.kubevirt.io/name',
  /** On a claim: the VM that the restore named there makes shall own it. */
  restoredOwnedByVm: 'restore.kubevirt.io/owned-by-vm',
  /** CDI's, on a claim: what is in it. */
  contentType: 'cdi.kubevirt.io/storage.contentType',
  /** CDI's: the claim is filled, and belongs to the DataVolume of this name. */
  populatedFor: 'cdi.kubevirt.io/storage.populatedFor',
  /** CDI's, on a DataVolume: its claim is filled by others. */
  prePopulated: 'cdi.kubevirt.io/storage.prePopulated',
  /** On a VMI: migrations that update it are cancelled, and no more are made. */
  workloadUpdateAbort: 'kubevirt.io/testWorkloadUpdateMigrationAbortion',
} as const;

export const finalizers = {
  vmi: 'kubevirt.io/foregroundDeleteVirtualMachine',
  vm: 'kubevirt.io/virtualMachineControllerFinalize',
  migration: 'kubevirt.io/migrationJobFinalize',
  pool: 'pool.kubevirt.io/finalizer',
  /** On a VM: a snapshot of it is being taken. */
  snapshotSource: 'snapshot.kubevirt.io/snapshot-source-protection',
  vmSnapshot: 'snapshot.kubevirt.io/vmsnapshot-protection',
  vmSnapshotContent: 'snapshot.kubevirt.io/vmsnapshotcontent-protection',
  vmRestore: 'snapshot.kubevirt.io/vmrestore-protection',
  vmBackup: 'backup.kubevirt.io/vmbackup-protection',
} as const;
