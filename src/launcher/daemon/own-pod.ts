import { readFile } from 'node:fs/promises';
import { LauncherError } from '../errors.ts';

/**
 * A root launcher replaces /etc/libvirt/qemu.conf and serves /run/libvirt: right in a pod, damage on somebody's machine.
 * Kernel threads are only seen in the machine's own pid namespace, where no pod of a VMI is. Throws FOREIGN_DAEMON.
 */
export async function requireOwnPod(procDir = '/proc'): Promise<void> {
  const second = await readFile(`${procDir}/2/comm`, 'utf8').catch(() => '');
  if (second.trim() !== 'kthreadd') return;
  throw new LauncherError(
    'FOREIGN_DAEMON',
    'virt-launcher as root must run in a pod (own pid and mount namespace): it would change the libvirt of this machine',
  );
}
