import { constants, type Stats } from 'node:fs';
import { open, statfs } from 'node:fs/promises';
import path from 'node:path';
import { claimImagePath, parseQuantity, type Volume } from '../../api/index.ts';
import { errorMessage } from '../../base/index.ts';
import type { ResolvedDisk } from '../domain/index.ts';
import type { DiskEnv } from './env.ts';
import { DiskError } from './errors.ts';
import { ensureCreated, ensureDir, ensureOverlay, giveToQemu } from './image.ts';
import { lstatIfThere } from './image-path.ts';

/**
 * A raw file in a directory of the host, which the pod sees at `vmi-disks/<volume>` (`pkg/host-disk`). `DiskOrCreate` makes a
 * sparse one; the file is never a link. A root launcher uses only files that belong to QEMU's user already, and they stay
 * so: a VM could else read any file of the machine.
 */
export async function prepareHostDisk(volume: Volume, env: DiskEnv): Promise<ResolvedDisk> {
  const source = volume.hostDisk;
  const field = `spec.volumes[${volume.name}].hostDisk`;
  const base = path.basename(source?.path ?? '');
  if (!base || base === '.' || base === '..') throw new DiskError('INVALID_FIELD', `${field}.path: names no file`);
  if (source?.type !== 'Disk' && source?.type !== 'DiskOrCreate') {
    throw new DiskError('INVALID_FIELD', `${field}.type: ${source?.type} is none of Disk, DiskOrCreate`);
  }
  const dir = claimDir(volume.name, env);
  const file = path.join(dir, base);
  // The owner of a claim's file is the claim's matter.
  const isOfHost = env.owner !== undefined && source.path !== claimImagePath(volume.name);
  const resolved: ResolvedDisk = { path: file, format: 'raw', isBlock: false, ...(isOfHost && { keepsOwner: true }) };
  const there = await ordinaryFile(file, field);
  if (there) {
    if (isOfHost) refuseForeign(there, field, source.path, env);
    return resolved;
  }
  if (source.type === 'Disk') {
    throw new DiskError(
      'IMAGE_MISSING',
      `${field}: ${base} does not exist in ${path.dirname(source.path)} of the node (looked at ${dir}): ` +
        'create it, or use type DiskOrCreate with a capacity',
    );
  }
  await createRaw(file, field, source.capacity, env);
  return resolved;
}

function refuseForeign(there: Stats, field: string, hostPath: string, { owner }: DiskEnv): void {
  if (!owner || there.uid === owner.uid) return;
  throw new DiskError(
    'UNSAFE_PATH',
    `${field}: ${hostPath} belongs to user ${there.uid}, not to QEMU (${owner.uid}): if it is the disk of a VM, ` +
      `give it to QEMU with chown ${owner.uid}:${owner.gid}`,
  );
}

async function createRaw(
  file: string,
  field: string,
  capacity: string | number | undefined,
  env: DiskEnv,
): Promise<void> {
  const sizeBytes = Math.floor(parseQuantity(capacity) ?? 0);
  if (sizeBytes <= 0 || !Number.isSafeInteger(sizeBytes)) {
    throw new DiskError('INVALID_FIELD', `${field}.capacity: ${JSON.stringify(capacity)} is not a size`);
  }
  await ensureDir(path.dirname(file), env);
  const { bavail, bsize } = await statfs(path.dirname(file));
  if (bavail * bsize < sizeBytes) {
    throw new DiskError(
      'NO_SPACE',
      `${field}: ${sizeBytes} bytes are needed, ${bavail * bsize} are free in ${path.dirname(file)}: free some, or ask for less`,
    );
  }
  await ensureCreated(file, env, async (part) => {
    const handle = await open(part, 'wx', 0o640);
    try {
      await handle.truncate(sizeBytes);
      await giveToQemu(handle, env, 0o640);
    } finally {
      await handle.close();
    }
  });
}

/** Undefined: nothing is there. A link, device or directory is refused. */
async function ordinaryFile(file: string, field: string): Promise<Stats | undefined> {
  const there = await lstatIfThere(file).catch((error: unknown) => {
    throw new DiskError('UNSAFE_PATH', `${field}: ${file} cannot be looked at: ${errorMessage(error)}`, {
      cause: error,
    });
  });
  if (!there || there.isFile()) return there;
  const kind = there.isSymbolicLink() ? 'a symbolic link' : 'not an ordinary file';
  throw new DiskError('UNSAFE_PATH', `${field}: ${file} is ${kind}: name the file itself`);
}

/** Where the pod has the directory of a hostDisk or a file system claim. */
function claimDir(volumeName: string, env: DiskEnv): string {
  return path.join(env.paths.privateDir, 'vmi-disks', volumeName);
}

/** A claim: `disk.img` in its directory, or a block device named like the volume. */
export async function prepareClaim(volume: Volume, env: DiskEnv): Promise<ResolvedDisk> {
  const field = `spec.volumes[${volume.name}]`;
  const readonly = volume.persistentVolumeClaim?.readOnly === true;
  const file = path.join(claimDir(volume.name, env), 'disk.img');
  if (await ordinaryFile(file, field)) {
    return { path: file, format: 'raw', isBlock: false, ...(readonly && { readonly }) };
  }
  const device = path.join(env.paths.devDir, volume.name);
  if ((await lstatIfThere(device))?.isBlockDevice()) {
    return { path: device, format: 'raw', isBlock: true, ...(readonly && { readonly }) };
  }
  throw new DiskError(
    'MISSING_SOURCE',
    `${field}: the claim has neither ${file} nor the block device ${device}: is it mounted, and does it hold disk.img?`,
  );
}

/** A throw-away layer above a claim. */
export async function prepareEphemeral(volume: Volume, env: DiskEnv): Promise<ResolvedDisk> {
  const { path: backingPath, isBlock } = await prepareClaim(volume, env);
  const overlay = path.join(env.paths.ephemeralDir, 'disk-data', volume.name, 'disk.qcow2');
  await ensureOverlay(overlay, { path: backingPath, format: 'raw' }, env);
  return { path: overlay, format: 'qcow2', isBlock: false, backing: { path: backingPath, format: 'raw', isBlock } };
}

/** A plugged volume, or undefined while the agent has not mounted it. */
export async function findHotplugged(volume: Volume, env: Pick<DiskEnv, 'paths'>): Promise<ResolvedDisk | undefined> {
  const file = path.join(env.paths.hotplugDiskDir, `${volume.name}.img`);
  if ((await lstatIfThere(file))?.isFile()) return { path: file, format: 'raw', isBlock: false };
  const device = path.join(env.paths.hotplugDiskDir, volume.name);
  if ((await lstatIfThere(device))?.isBlockDevice()) return { path: device, format: 'raw', isBlock: true };
  return undefined;
}

/** The agent may be half way: a mount without its rights, a node without its device rule. */
export async function canBeOpened({ path: file, isBlock }: ResolvedDisk, isReadOnly: boolean): Promise<boolean> {
  const mode = isBlock || isReadOnly ? constants.O_RDONLY : constants.O_RDWR;
  try {
    const handle = await open(file, mode | constants.O_NONBLOCK | constants.O_NOFOLLOW);
    await handle.close();
    return true;
  } catch {
    return false;
  }
}
