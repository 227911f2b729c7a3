import { constants } from 'node:fs';
import { chmod, chown, mkdir, open, readFile } from 'node:fs/promises';
import path from 'node:path';
import { errorMessage } from '../../base/index.ts';
import { LauncherError } from '../errors.ts';
import type { PodPaths } from './pod-paths.ts';

/**
 * A root launcher replaces /etc/libvirt/qemu.conf and serves /run/libvirt: right in a pod, damage on a machine that is used
 * otherwise. Kernel threads are only seen in the machine's own pid namespace, where no pod of a VMI is. Throws FOREIGN_DAEMON.
 */
export async function requireOwnPod(procDir = '/proc'): Promise<void> {
  const second = await readFile(`${procDir}/2/comm`, 'utf8').catch(() => '');
  if (second.trim() !== 'kthreadd') return;
  throw new LauncherError(
    'FOREIGN_DAEMON',
    'virt-launcher as root must run in a pod (own pid and mount namespace): it would change the libvirt of this machine',
  );
}

export interface QemuUser {
  readonly name: string;
  readonly uid: number;
  readonly gid: number;
}

/** Upstream's user first, then Debian's. */
const names = ['qemu', 'libvirt-qemu'] as const;

/** The user that QEMU runs as under a root daemon; undefined when none is known here: libvirt's own default is used. */
export async function findQemuUser(
  files: { readonly passwd?: string; readonly group?: string } = {},
): Promise<QemuUser | undefined> {
  const users = await readTable(files.passwd ?? '/etc/passwd');
  const groups = await readTable(files.group ?? '/etc/group');
  for (const name of names) {
    const user = users.get(name);
    if (!user) continue;
    const gid = groups.get(name)?.[2] ?? user[3];
    return { name, uid: Number(user[2]), gid: Number(gid) };
  }
  return undefined;
}

async function readTable(file: string): Promise<Map<string, string[]>> {
  const text = await readFile(file, 'utf8').catch(() => '');
  const rows = text.split('\n').map((line) => line.split(':'));
  return new Map(rows.filter((row) => row.length >= 3).map((row) => [row[0] ?? '', row]));
}

/**
 * Makes the directories of upstream's `initializeDirs`. `owner` is given by a root launcher: QEMU, which is another user then,
 * must enter them and bind its VNC socket; it could not make the log of its serial console. Safe to repeat. Throws SETUP_FAILED, naming the
 * directory.
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
  await makeSerialLog(paths, owner);
}

/** What the guest writes to its serial console, where its VMI wants that (logSerialConsole): the guest-console-log container reads it. */
export function serialLogOf({ vmiDir }: Pick<PodPaths, 'vmiDir'>): string {
  return path.join(vmiDir, 'virt-serial0-log');
}

/** libvirt puts a log of root's own in its place when the domain starts, which the container of user 107 could not read. */
export async function ownSerialLog(paths: Pick<PodPaths, 'vmiDir'>, { uid, gid }: QemuUser): Promise<void> {
  const handle = await open(serialLogOf(paths), constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  try {
    const found = await handle.stat();
    if (found.isFile() && (found.uid !== uid || found.gid !== gid)) await handle.chown(uid, gid);
  } finally {
    await handle.close();
  }
}

async function makeSerialLog(paths: PodPaths, owner: QemuUser | undefined): Promise<void> {
  const handle = await open(serialLogOf(paths), 'a', 0o640);
  try {
    if (owner) await handle.chown(owner.uid, owner.gid);
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
