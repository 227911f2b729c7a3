import { memoryOverheadBytes, parseQuantity, type VirtualMachineInstance, vfioDevices } from '../../../../api/index.ts';

/** Something but the guest's CPUs accesses its memory, or a fault of a page would come too late (upstream: AdjustResources). */
export function locksMemory(vmi: VirtualMachineInstance): boolean {
  const { cpu, launchSecurity, memory } = vmi.spec.domain;
  const isRequired = memory?.reservedOverhead?.memLock === 'Required';
  return vfioDevices(vmi) > 0 || Boolean(cpu?.realtime || launchSecurity?.sev || launchSecurity?.snp) || isRequired;
}

/** As much as QEMU may have to lock (upstream: CalculateMemlockSize in pkg/hypervisor/kvm/runtime.go). */
export function lockedMemoryBytes(vmi: VirtualMachineInstance, ratio: number): number {
  const baseBytes = baseMemory(vmi);
  const given = parseQuantity(vmi.status?.migrationState?.targetMemoryOverhead);
  const overhead = given ?? memoryOverheadBytes(vmi, { baseBytes: requestedMemory(vmi), ratio });
  // With a vIOMMU libvirt locks the guest's memory once per device.
  return overhead + baseBytes * Math.max(1, vfioDevices(vmi));
}

function requestedMemory({ spec }: VirtualMachineInstance): number {
  return parseQuantity(spec.domain.resources?.requests?.memory) ?? 0;
}

function baseMemory(vmi: VirtualMachineInstance): number {
  const { memory } = vmi.spec.domain;
  return parseQuantity(memory?.maxGuest) ?? (requestedMemory(vmi) || (parseQuantity(memory?.guest) ?? 0));
}
