import { findCondition, type KubeObject, type VirtualMachine, type VirtualMachineInstance } from '../api/index.ts';
import type { VmRow } from './rows.ts';

/** A VirtualMachine and its instance as one line of the list. Undefined when neither is there. */
export function vmRow(vm: VirtualMachine | undefined, vmi: VirtualMachineInstance | undefined): VmRow | undefined {
  const object: KubeObject | undefined = vm ?? vmi;
  if (!object) return undefined;
  const { namespace = '', name, creationTimestamp = '' } = object.metadata;
  const conditions = vmi?.status?.conditions ?? vm?.status?.conditions ?? [];
  const phase = vmi?.status?.phase || 'Pending';
  const strategy = vm?.spec.runStrategy ?? (vm?.spec.running === true ? 'Always' : 'Halted');
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
  const ip = status?.interfaces?.find(({ ipAddress }) => ipAddress)?.ipAddress;
  const guestOs = status?.guestOSInfo?.prettyName ?? status?.guestOSInfo?.name;
  return {
    uid: metadata.uid ?? '',
    phase,
    paused: findCondition(status?.conditions, 'Paused')?.status === 'True',
    ...(ip && { ip }),
    ...(guestOs && { guestOs }),
  };
}
