import { parseQuantity } from './quantity.ts';
import type { Quantity, VmiSpec } from './vmi.ts';

const mebibyte = 2 ** 20;
/** Less is not enough for the guest's kernel beside its own tables. */
const leastBytes = 1024 * mebibyte;

/** Why memory cannot be plugged into a guest of this template, in upstream's words (ValidateLiveUpdateMemory of pkg/liveupdate/memory). */
export function memoryProblem({ domain, architecture }: VmiSpec, maxGuest: Quantity): string | undefined {
  const { cpu, memory, launchSecurity } = domain;
  const isLarge = memory?.hugepages?.pageSize === '1Gi';
  const [block, alignment] = isLarge ? [1024 * mebibyte, '1Gi'] : [2 * mebibyte, '2Mi'];
  const [guest, max] = [parseQuantity(memory?.guest) ?? 0, parseQuantity(maxGuest) ?? 0];
  if (cpu?.realtime) return 'Memory hotplug is not compatible with realtime VMs';
  if (cpu?.numa?.guestMappingPassthrough) return 'Memory hotplug is not compatible with guest mapping passthrough';
  if (launchSecurity) return 'Memory hotplug is not compatible with encrypted VMs';
  if (guest > max) return 'Guest memory is greater than the configured maxGuest memory';
  if (guest % block !== 0) return `Guest memory must be ${alignment} aligned`;
  if (max % block !== 0) return `MaxGuest must be ${alignment} aligned`;
  if (architecture !== 'amd64') return 'Memory hotplug is only available for x86_64 VMs';
  if (guest < leastBytes) return 'Memory hotplug is only available for VMs with at least 1Gi of guest memory';
  return undefined;
}
