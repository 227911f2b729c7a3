import { findCondition, type KubeObject, type VirtualMachine, type VirtualMachineInstance } from '../api/index.ts';
import type { VmRow } from './rows.ts';

/**
 * A VirtualMachine and its instance as one line of the list. Undefined when neither is there. Total: one bad object must not
 * take the lines of all others along.
 */
export function vmRow(vm: VirtualMachine | undefined, vmi: VirtualMachineInstance | undefined): VmRow | undefined {
  const object: KubeObject | undefined = vm ?? vmi;
  if (!object) return undefined;
  const { namespace = '', name, creationTimestamp = '' } = object.metadata;
  const conditions = [vmi?.status?.conditions, vm?.status?.conditions].find(Array.isArray) ?? [];
  const phase = vmi?.status?.phase || 'Pending';
  const strategy = vm?.spec?.runStrategy ?? (vm?.spec?.running === true ? 'Always' : 'Halted');
  return {
    namespace,
    name,
    status: vm ? (vm.status?.printableStatus ?? (vmi ? phase : 'Stopped')) : phase,
    conditions,
    createdAt: creationTimestamp,
    ...(vm && { runStrategy: strategy }),
    ...(vmi && { vmi: instanceOf(vmi, phase) }),
  };
}

function instanceOf({ metadata, status }: VirtualMachineInstance, phase: string): NonNullable<VmRow['vmi']> {
  const interfaces = Array.isArray(status?.interfaces) ? status.interfaces : [];
  const ip = interfaces.find((each) => each?.ipAddress)?.ipAddress;
  const guestOs = status?.guestOSInfo?.prettyName ?? status?.guestOSInfo?.name;
  return {
    uid: metadata.uid ?? '',
    phase,
    paused: findCondition(status?.conditions, 'Paused')?.status === 'True',
    ...(ip && { ip }),
    ...(guestOs && { guestOs }),
  };
}
