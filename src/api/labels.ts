/** Labels, annotations and finalizers, exactly upstream's (spec 61 §9–11). */
export const labels = {
  app: 'kubevirt.io',
  createdBy: 'kubevirt.io/created-by',
  nodeName: 'kubevirt.io/nodeName',
  migrationTargetNodeName: 'kubevirt.io/migrationTargetNodeName',
  schedulable: 'kubevirt.io/schedulable',
  vmName: 'vm.kubevirt.io/name',
} as const;

export const annotations = {
  domain: 'kubevirt.io/domain',
  nonroot: 'kubevirt.io/nonroot',
  heartbeat: 'kubevirt.io/heartbeat',
  createMigrationTarget: 'kubevirt.io/create-migration-target',
} as const;

export const finalizers = {
  vmi: 'kubevirt.io/foregroundDeleteVirtualMachine',
  vm: 'kubevirt.io/virtualMachineControllerFinalize',
} as const;
