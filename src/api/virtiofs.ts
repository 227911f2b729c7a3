import type { VirtualMachineInstance } from './vmi.ts';

/** Directory of the launcher's pod in which side containers listen for QEMU (pkg/virtiofs/virtiofs.go), and its volume. */
export const virtiofsVolume = 'virtiofs-containers';
export const virtiofsDir = `/var/run/kubevirt/${virtiofsVolume}`;

export function virtiofsSocket(name: string): string {
  return `${name}.sock`;
}

/** Volumes of the pod that the guest mounts as file systems, by name. */
export function virtiofsNames({ spec }: VirtualMachineInstance): readonly string[] {
  return (spec.domain.devices?.filesystems ?? []).filter(({ virtiofs }) => virtiofs).map(({ name }) => name);
}
