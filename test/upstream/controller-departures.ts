export interface ControllerDeparture {
  /** Kind and name of an object, and members; `*`: whatever is there. */
  readonly path: string;
  readonly why: string;
  /** It depends on upstream's timing whether it is seen. */
  readonly isSeenAtTimes?: true;
}

/** What virt-api's webhook writes into a VMI in upstream's cluster, and our controller where nobody has. */
const ofWebhooks = [
  'VirtualMachineInstance *.metadata.finalizers',
  'VirtualMachineInstance *.spec.domain.cpu*',
  'VirtualMachineInstance *.spec.domain.firmware',
  'VirtualMachineInstance *.status.memory',
  'VirtualMachineInstance *.status.memory.guest*',
  'VirtualMachineInstance *.status.currentCPUTopology',
  'VirtualMachineInstance *.status.phaseTransitionTimestamps',
  'VirtualMachineInstance *.status.runtimeUser',
].map((path) => ({ path, why: "virt-api's webhook writes it, which is not there" }));

/** Where our controller leaves another object than upstream's, and why. */
export const departures: readonly ControllerDeparture[] = [
  ...ofWebhooks,
  { path: '*.conditions.*.lastProbeTime', why: 'a condition says when it was looked at' },
  { path: '*.conditions.Ready.lastTransitionTime', why: 'a condition says since when it is so' },
  { path: '*.conditions.Ready.message', why: 'the same in other words' },
  {
    path: 'VirtualMachine *.spec.template.spec.domain.firmware*',
    why: "a guest's identity follows from the VM's name and is told to its VMI; upstream writes it into the VM, too",
  },
  { path: 'VirtualMachine *.status.observedGeneration', why: 'the same: what is written makes a generation' },
  { path: 'VirtualMachine *.status.desiredGeneration', why: 'the same; and a VM that is halted wants one, too' },
  { path: '*.metadata.annotations.kubevirt.io/vm-generation', why: 'the same' },
  { path: 'VirtualMachineSnapshotContent *.virtualMachine.metadata.generation', why: 'the same' },
  {
    path: 'VirtualMachineSnapshotContent *.virtualMachine.spec.template.spec.domain.firmware*',
    why: "a guest's identity is not in the VM, see above",
  },
  { path: 'VirtualMachineClone *.status.creationTime', why: 'upstream has the field, and writes it never' },
  {
    path: 'events.VirtualMachineClone clone: Normal VMVolumeSnapshotsInvalid: *',
    why: 'upstream looks at volumes before it knows which of them have snapshots, and again',
    isSeenAtTimes: true,
  },
  { path: 'VirtualMachine *.status.conditions.Failure.message', why: 'the same in other words' },
  {
    path: 'events.VirtualMachine vm: Warning FailedCreate: *',
    why: 'the same, and upstream tells of own writes that were overtaken as of failures',
  },
  {
    path: 'events.VirtualMachine vm: Warning FailedFindInstancetype: *',
    why: 'upstream says it in the condition only',
  },
  { path: 'VirtualMachine *.status.created', why: 'false is said' },
  { path: 'VirtualMachine *.status.ready', why: 'false is said' },
  { path: 'VirtualMachine *.status.conditions.LiveMigratable', why: 'what a VMI said goes with it' },
  {
    path: '*.memory.memoryOverhead',
    why: 'page tables are reckoned for a guest whose request is not given, too, as in its pod',
  },
  { path: 'Pod *.metadata.annotations.kubevirt.io/memory-overhead-bytes', why: 'the same' },
  {
    path: 'events.VirtualMachinePool pool: Normal SuccessfulDelete: Successfully updated *',
    why: 'upstream tells of an update as of a deletion, where nothing was to be updated',
    isSeenAtTimes: true,
  },
  { path: 'ControllerRevision revision-start-vm-*.revision', why: 'the generation of the VM, see its firmware' },
  {
    path: 'ControllerRevision revision-start-vm-*-GENERATION',
    why: 'goes with the VMI that was started from it; upstream leaves it until the next start, and to the garbage collector',
  },
  { path: '*.conditions.Synchronized.message', why: 'says what to do' },
  { path: 'events.VirtualMachineInstance vm: * FailedPvcNotFound: *', why: 'the same, and it is a warning' },
  { path: '*.conditions.PodScheduled', why: 'there is no pod yet that could be scheduled; Synchronized says why' },
];
