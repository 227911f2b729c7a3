import type { Key, VirtualMachine, VirtualMachineBackupTracker, VirtualMachineInstance } from '../../api/index.ts';
import type { Clock } from '../../base/index.ts';
import type { Observed, ReadYourWrites } from '../../reconcile/index.ts';

/** A tracker and the VM that it is of; plain data. */
export interface PresentTracker extends Observed {
  readonly kind: 'present';
  readonly tracker: VirtualMachineBackupTracker;
  readonly vmName: string;
  readonly vm: VirtualMachine | undefined;
  readonly vmi: VirtualMachineInstance | undefined;
}

export interface AbsentTracker extends Observed {
  readonly kind: 'absent';
}

export type TrackerObservation = PresentTracker | AbsentTracker;

export interface ObserveDeps {
  readonly trackers: Pick<ReadYourWrites<VirtualMachineBackupTracker>, 'get'>;
  readonly vms: { get(key: Key): VirtualMachine | undefined };
  readonly vmis: { get(key: Key): VirtualMachineInstance | undefined };
  readonly clock: Clock;
}

export function observeTracker(key: Key, { trackers, vms, vmis, clock }: ObserveDeps): TrackerObservation {
  const tracker = trackers.get(key);
  const now = clock.now();
  if (!tracker) return { kind: 'absent', key, uid: '', now };
  const { metadata, spec } = tracker;
  const vmName = spec?.source?.name ?? '';
  const at = `${metadata.namespace}/${vmName}`;
  return { kind: 'present', key, uid: metadata.uid ?? '', now, tracker, vmName, vm: vms.get(at), vmi: vmis.get(at) };
}
