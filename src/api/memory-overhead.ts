import { memberAt } from '../base/index.ts';
import { parseQuantity } from './quantity.ts';
import type { Quantity, VirtualMachineInstance } from './vmi.ts';

const Mi = 2 ** 20;
const Gi = 2 ** 30;

/** Monitor, launcher, virtlogd, virtqemud and QEMU without its guest. */
const programsBytes = (25 + 100 + 25 + 40 + 30) * Mi;
const perCpuBytes = 8 * Mi;
const ioThreadBytes = 8 * Mi;

export interface OverheadOptions {
  /** Memory that the guest is reckoned with, for its page tables. */
  readonly baseBytes: number;
  /** `additionalGuestMemoryOverheadRatio`. */
  readonly ratio: number;
}

/**
 * What a guest costs beyond its memory (upstream: GetMemoryOverhead in pkg/hypervisor/kvm/hypervisorbackend.go). Its pod requests
 * that much more, and a QEMU that locks its memory may lock that much more. Quantities that are none count as nothing.
 */
export function memoryOverheadBytes(vmi: VirtualMachineInstance, { baseBytes, ratio }: OverheadOptions): number {
  const { memory } = vmi.spec.domain;
  const added = bytesOf(memory?.reservedOverhead?.addedOverhead);
  const total =
    Math.ceil(baseBytes / 512) + programsBytes + ioThreadBytes + machineBytes(vmi) + probeBytes(vmi) + added;
  return Math.ceil(total * ratio);
}

function machineBytes(vmi: VirtualMachineInstance): number {
  const { devices, launchSecurity } = vmi.spec.domain;
  let total = perCpuBytes * guestCpus(vmi);
  if (devices?.autoattachGraphicsDevice !== false) total += 32 * Mi;
  if (vmi.spec.architecture === 'arm64') total += 128 * Mi;
  if (vfioDevices(vmi) > 0) total += Gi;
  if ((vmi.spec.volumes ?? []).some(({ downwardMetrics }) => downwardMetrics)) total += Mi;
  if (launchSecurity && ('sev' in launchSecurity || 'snp' in launchSecurity)) total += 256 * Mi;
  if (devices?.tpm && devices.tpm.enabled !== false) total += 53 * Mi;
  if (vmi.spec.domain.cpu?.dedicatedCpuPlacement || isGuaranteed(vmi)) total += 100 * Mi;
  return total;
}

/** Commands of probes run in the launcher's container: each costs memory, and so does their program. */
function probeBytes({ spec }: VirtualMachineInstance): number {
  const probes = ['livenessProbe', 'readinessProbe'].filter((name) => memberAt(spec, name, 'exec'));
  return probes.length === 0 ? 0 : (100 + 10 * probes.length) * Mi;
}

/** Without a topology what the pod gets decides, as it does for the guest. */
function guestCpus({ spec }: VirtualMachineInstance): number {
  const { cpu, resources } = spec.domain;
  if (cpu) return (cpu.cores || 1) * (cpu.sockets || 1) * (cpu.threads || 1);
  return Math.max(1, Math.ceil(parseQuantity(resources?.limits?.cpu ?? resources?.requests?.cpu) ?? 1));
}

/** Its pod is of the QoS class Guaranteed. */
function isGuaranteed({ spec }: VirtualMachineInstance): boolean {
  const { requests, limits } = spec.domain.resources ?? {};
  return ['memory', 'cpu'].every((name) => {
    const asked = parseQuantity(requests?.[name]);
    return asked !== undefined && asked > 0 && asked === parseQuantity(limits?.[name]);
  });
}

/** Devices of the machine that access the guest's memory by themselves. */
export function vfioDevices({ spec }: VirtualMachineInstance): number {
  const { gpus = [], hostDevices = [], interfaces = [] } = spec.domain.devices ?? {};
  return gpus.length + hostDevices.length + interfaces.filter(({ sriov }) => sriov).length;
}

function bytesOf(quantity: Quantity | undefined): number {
  return parseQuantity(quantity) ?? 0;
}
