import { chmod, chown, mkdir, open } from 'node:fs/promises';
import path from 'node:path';
import { errorMessage } from '../../base/index.ts';
import { LauncherError } from '../errors.ts';
import type { PodPaths } from './pod-paths.ts';
import type { QemuUser } from './qemu-user.ts';

/**
 * Makes the directories of spec 70 §3. `owner` is given by a root launcher: QEMU, which is another user then, must enter
 * them and bind its VNC socket. Throws SETUP_FAILED, naming the directory.
 */
export async function makePodDirectories(paths: PodPaths, owner: QemuUser | undefined): Promise<void> {
  const { disks } = paths;
  await makeDirectory(paths.socketsDir, 0o755);
  await makeDirectory(paths.vmiDir, 0o750, owner);
  for (const name of ['vm-disks', 'config-map-disks', 'sysprep-disks', 'secret-disks', 'downwardapi-disks']) {
    await makeDirectory(path.join(disks.privateDir, name), 0o750, owner);
  }
  await makeDirectory(path.join(disks.privateDir, 'service-account-disk'), 0o750, owner);
  await makeDirectory(path.join(disks.privateDir, 'downwardmetrics-channel'), 0o750, owner);
  for (const name of ['disk-data', 'cloud-init-data', 'ignition-data']) {
    await makeDirectory(path.join(disks.ephemeralDir, name), 0o755, owner);
  }
  await makeDirectory(disks.emptyDiskDir, 0o755, owner);
  await makeDirectory(path.dirname(paths.libvirt.qemuConfFile), 0o755);
  await makeDirectory(paths.libvirt.runDir, 0o755);
}

/** The serial log that the guest-console-log container reads: QEMU as another user could not make it (spec 70 §3). */
export async function makeSerialLog(paths: PodPaths, owner: QemuUser | undefined): Promise<void> {
  if (!owner) return;
  const file = path.join(paths.vmiDir, 'virt-serial0-log');
  const handle = await open(file, 'a', 0o640);
  try {
    await handle.chown(owner.uid, owner.gid);
  } finally {
    await handle.close();
  }
}

async function makeDirectory(dir: string, mode: number, owner?: QemuUser): Promise<void> {
  try {
    const made = await mkdir(dir, { recursive: true });
    if (made === undefined && !owner) return;
    await chmod(dir, mode);
    if (owner) await chown(dir, owner.uid, owner.gid);
  } catch (cause) {
    throw new LauncherError('SETUP_FAILED', `directory ${dir} of the pod cannot be made: ${errorMessage(cause)}`, {
      cause,
    });
  }
}
