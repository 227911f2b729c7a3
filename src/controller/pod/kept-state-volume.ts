import { keepsEfi, keepsState, keepsTpm, tracksChanges, type VirtualMachineInstance } from '../../api/index.ts';
import { PodRenderError } from './errors.ts';
import { privateDir } from './standard-volumes.ts';
import { addEmptyDir, type PodStorage } from './storage.ts';

const volume = 'vm-state';

/**
 * Directories of the claim, at the places where libvirt keeps TPMs and EFI variables (upstream: withBackendStorage in
 * pkg/virt-controller/services/rendervolumes.go). `claimName`: undefined where there is no claim yet. Throws PodRenderError.
 */
export function addKeptState(storage: PodStorage, vmi: VirtualMachineInstance, claimName: string | undefined): void {
  const { domain } = vmi.spec;
  if (!keepsState(domain) && !tracksChanges(vmi)) return;
  if (claimName === undefined) {
    throw new PodRenderError('CLAIM_MISSING', 'the claim that is to keep the state of the VM does not exist yet');
  }
  storage.volumes.push({ name: volume, persistentVolumeClaim: { claimName } });
  const add = (mountPath: string, subPath: string) => storage.mounts.push({ name: volume, mountPath, subPath });
  add('/run/kubevirt-private/backend-storage-meta', 'meta');
  const isRoot = (vmi.status?.runtimeUser ?? 0) === 0;
  // A kubelet would make these for the mounts below, and nobody but root could write there.
  if (!isRoot) {
    addEmptyDir(storage, 'private-libvirt', `${privateDir}/libvirt`);
    addEmptyDir(storage, 'private-libvirt-qemu', `${privateDir}/libvirt/qemu`);
  }
  if (keepsTpm(domain)) {
    add(isRoot ? '/var/lib/libvirt/swtpm' : `${privateDir}/libvirt/qemu/swtpm`, 'swtpm');
    add(isRoot ? '/var/lib/swtpm-localca' : `${privateDir}/var/lib/swtpm-localca`, 'swtpm-localca');
  }
  if (keepsEfi(domain)) add(isRoot ? '/var/lib/libvirt/qemu/nvram' : `${privateDir}/libvirt/qemu/nvram`, 'nvram');
  if (tracksChanges(vmi)) add(isRoot ? '/var/lib/libvirt/qemu/cbt' : `${privateDir}/libvirt/qemu/cbt`, 'cbt');
}
