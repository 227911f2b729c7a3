import { selects, type VirtualMachine, type VirtualMachineInstance } from '../../api/index.ts';
import { isRecord, memberAt } from '../../base/index.ts';
import type { ControllerConfig } from '../../cluster-config/index.ts';

type TrackingConfig = ControllerConfig['changeTracking'];

const gateIsOff = 'IncrementalBackupFeatureGateDisabled';
const inUse = ['Initializing', 'Enabled'];

/** Whether the blocks that a guest of the VM changes shall be recorded. */
export function isSelected({ metadata }: VirtualMachine, { vms }: TrackingConfig): boolean {
  return vms !== undefined && selects(vms, metadata.labels ?? {});
}

/** What a new VMI says: only a start can change it (upstream: `SetChangedBlockTrackingOnVMI` of pkg/storage/cbt/cbt.go). */
export function trackingOfNew(vm: VirtualMachine, config: TrackingConfig): 'Initializing' | 'Disabled' | undefined {
  if (!config.isEnabled) return undefined;
  if (isSelected(vm, config)) return 'Initializing';
  return stateOf(vm) === '' ? undefined : 'Disabled';
}

/** What the VM says of it (upstream: `SyncVMChangedBlockTrackingState`); undefined: nothing. */
export function trackingStatus(
  vm: VirtualMachine,
  vmi: VirtualMachineInstance | undefined,
  config: TrackingConfig,
): object | undefined {
  const old = memberAt(vm.status, 'changedBlockTracking');
  const state = nextState(stateOf(vm), vmi && stateOf(vmi), config.isEnabled, isSelected(vm, config));
  if (state === '') return undefined;
  return { ...(isRecord(old) && old), state };
}

/** `vmi`: the state of the VMI, undefined without one. */
function nextState(vm: string, vmi: string | undefined, isEnabled: boolean, isWanted: boolean): string {
  const isTracked = vmi !== undefined && inUse.includes(vmi);
  if (isEnabled && isWanted) return wantedState(vm, vmi);
  // A guest that runs is tracked to its end.
  if (isTracked) return 'PendingRestart';
  if (!isEnabled) return isWanted ? gateIsOff : '';
  return vm === '' ? '' : 'Disabled';
}

function wantedState(vm: string, vmi: string | undefined): string {
  if (vmi === undefined) return vm === 'Enabled' ? vm : 'Initializing';
  return inUse.includes(vmi) ? vmi : 'PendingRestart';
}

function stateOf({ status }: { readonly status?: object }): string {
  return String(memberAt(status, 'changedBlockTracking', 'state') ?? '');
}
