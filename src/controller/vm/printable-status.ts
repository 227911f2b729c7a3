import { findCondition, isBeingDeleted, isFinal, type VirtualMachineInstance } from '../../api/index.ts';
import type { VmFacts, VmStatus } from './observation.ts';
import { strategyOrHalted } from './run-strategy.ts';

interface PrintableRule {
  readonly value: string;
  readonly when: (seen: VmFacts, status: VmStatus) => boolean;
}

const phaseIn = (vmi: VirtualMachineInstance | undefined, ...phases: string[]) =>
  vmi !== undefined && phases.includes(vmi.status?.phase ?? '');

const isTrue = (vmi: VirtualMachineInstance | undefined, type: string) =>
  findCondition(vmi?.status?.conditions, type)?.status === 'True';

function isFalseWith(vmi: VirtualMachineInstance | undefined, type: string, reason: string): boolean {
  const condition = findCondition(vmi?.status?.conditions, type);
  return condition?.status === 'False' && condition.reason === reason;
}

const isDown = (vmi: VirtualMachineInstance | undefined) => vmi === undefined || isFinal(vmi);

/**
 * First match wins (upstream: pkg/virt-controller/watch/vm/vm.go, setPrintableStatus; what it reads from claims, this reads from the
 * VMI's conditions). */
const printableRules: readonly PrintableRule[] = [
  { value: 'Terminating', when: ({ vm }) => isBeingDeleted(vm) },
  {
    value: 'Stopping',
    when: ({ vmi, deletionExpected }) =>
      vmi !== undefined && !isFinal(vmi) && (isBeingDeleted(vmi) || deletionExpected),
  },
  {
    value: 'Migrating',
    when: ({ vmi }) => {
      const { startTimestamp, endTimestamp } = vmi?.status?.migrationState ?? {};
      return startTimestamp !== undefined && endTimestamp === undefined;
    },
  },
  { value: 'Paused', when: ({ vmi }) => phaseIn(vmi, 'Running') && isTrue(vmi, 'Paused') },
  { value: 'Running', when: ({ vmi }) => phaseIn(vmi, 'Running') },
  { value: 'ErrorPvcNotFound', when: ({ vmi }) => isFalseWith(vmi, 'Synchronized', 'FailedPvcNotFound') },
  {
    value: 'DataVolumeError',
    when: ({ vmi, disks }) => disks === 'failed' || isFalseWith(vmi, 'Synchronized', 'FailedDataVolumeImport'),
  },
  { value: 'ErrorUnschedulable', when: ({ vmi }) => isFalseWith(vmi, 'PodScheduled', 'Unschedulable') },
  {
    value: 'WaitingForVolumeBinding',
    when: ({ vmi }) => phaseIn(vmi, 'Pending') && isTrue(vmi, 'Provisioning'),
  },
  {
    value: 'Provisioning',
    when: ({ vmi, disks }) =>
      disks === 'filling' || (phaseIn(vmi, 'Pending') && isFalseWith(vmi, 'DataVolumesReady', 'NotAllDVsReady')),
  },
  { value: 'ErrImagePull', when: ({ vmi }) => isFalseWith(vmi, 'Synchronized', 'ErrImagePull') },
  { value: 'ImagePullBackOff', when: ({ vmi }) => isFalseWith(vmi, 'Synchronized', 'ImagePullBackOff') },
  {
    value: 'Starting',
    when: ({ vmi, creationExpected }) =>
      (vmi === undefined && creationExpected) || phaseIn(vmi, '', 'Pending', 'Scheduling', 'Scheduled'),
  },
  {
    value: 'CrashLoopBackOff',
    when: ({ vm, vmi }, status) =>
      isDown(vmi) &&
      (status.startFailure?.consecutiveFailCount ?? 0) > 0 &&
      ['Always', 'RerunOnFailure', 'Once'].includes(strategyOrHalted(vm)),
  },
  { value: 'Stopped', when: ({ vmi }) => isDown(vmi) },
  {
    value: 'WaitingForReceiver',
    when: ({ vm, vmi }) => phaseIn(vmi, 'WaitingForSync') && strategyOrHalted(vm) === 'WaitAsReceiver',
  },
];

export function printableStatus(seen: VmFacts, status: VmStatus): string {
  return printableRules.find(({ when }) => when(seen, status))?.value ?? 'Unknown';
}
