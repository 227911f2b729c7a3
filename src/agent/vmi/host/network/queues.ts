import { type Interface, parseQuantity, type VirtualMachineInstance } from '../../../../api/index.ts';

/** Of tap devices, by the kernel. */
const maxQueues = 256;

/**
 * Queues of an interface's tap device, 0 for the usual single one: a vCPU each when several are asked for
 * (pkg/virt-launcher/virtwrap/converter/network/virtio-queues.go). One that the domain has keeps its number.
 */
export function queuesOf(vmi: VirtualMachineInstance, { name, model }: Interface): number {
  if (model && model !== 'virtio') return 0;
  const status = vmi.status?.interfaces?.find((entry) => entry.name === name);
  if (status && hasSource(status.infoSource, 'domain')) return status.queueCount ?? 0;
  if (!vmi.spec.domain.devices?.networkInterfaceMultiqueue) return 0;
  return Math.min(vcpusOf(vmi), maxQueues);
}

/** One of the words of `infoSource`. */
export function hasSource(infoSource: string | undefined, word: string): boolean {
  return infoSource?.split(',').some((each) => each.trim() === word) ?? false;
}

/** Without sockets, cores and threads the asked CPU time says how many there are. */
function vcpusOf(vmi: VirtualMachineInstance): number {
  const { cpu, resources } = vmi.spec.domain;
  const { sockets, cores, threads } = cpu ?? {};
  if (sockets || cores || threads) return (sockets || 1) * (cores || 1) * (threads || 1);
  const asked = parseQuantity(resources?.limits?.cpu ?? resources?.requests?.cpu) ?? 1;
  return Math.max(1, Math.ceil(asked));
}
