/** Labels, annotations and finalizers, exactly upstream's (`staging/src/kubevirt.io/api/core/v1/types.go`). */
export const labels = {
  app: 'kubevirt.io',
  createdBy: 'kubevirt.io/created-by',
  nodeName: 'kubevirt.io/nodeName',
  migrationTargetNodeName: 'kubevirt.io/migrationTargetNodeName',
  schedulable: 'kubevirt.io/schedulable',
  vmName: 'vm.kubevirt.io/name',
  outdatedLauncherImage: 'kubevirt.io/outdatedLauncherImage',
  /** Figures of a migration target's pod, for CPUs and memory that are plugged in by the migration. */
  podCpuLimit: 'kubevirt.io/vmi-pod-cpu-resource-limits',
  podMemoryRequest: 'kubevirt.io/vmi-pod-memory-resource-requests',
  memoryOverheadRatio: 'kubevirt.io/memory-hotplug-overhead-ratio',
} as const;

export const annotations = {
  domain: 'kubevirt.io/domain',
  nonroot: 'kubevirt.io/nonroot',
  heartbeat: 'kubevirt.io/heartbeat',
  createMigrationTarget: 'kubevirt.io/create-migration-target',
  allowPodBridgeMigration: 'kubevirt.io/allow-pod-bridge-network-live-migration',
  evictionSource: 'kubevirt.io/eviction-source',
} as const;

export const finalizers = {
  vmi: 'kubevirt.io/foregroundDeleteVirtualMachine',
  vm: 'kubevirt.io/virtualMachineControllerFinalize',
} as const;
