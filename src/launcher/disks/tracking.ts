import { lstat, readdir, readFile, rm } from 'node:fs/promises';
import path from 'node:path';
import type { Volume } from '../../api/index.ts';
import { isRecord, listOf, memberAt, textAt } from '../../base/index.ts';
import { replaceFile } from '../../host/index.ts';
import type { ResolvedDisk } from '../domain/index.ts';
import type { DiskEnv } from './env.ts';
import { DiskError } from './errors.ts';
import { chownToQemu, ensureCreated, handOver, imageInfo, toolOptions } from './image.ts';
import { lstatIfThere } from './image-path.ts';
import { keepsDataIn } from './record-header.ts';
import { runTool } from './run.ts';

type TrackingEnv = Pick<DiskEnv, 'paths' | 'owner' | 'signal'>;

/** What a record of changed blocks is about. */
interface Image {
  readonly claim: string;
  readonly path: string;
  readonly isBlock: boolean;
  /** Of an image in a file; another one is another image, whatever its path. */
  readonly inode: number;
}

/**
 * What an image in a file was like when its guest had ended: whoever writes to it then changes that. The time of the last change of the
 * inode would tell more, but a kubelet that gives claims to a group changes it at each start.
 */
interface Look {
  readonly sizeBytes: string;
  readonly changedNs: string;
}

interface Origin extends Image {
  /** UID of the VMI whose guest has it, or had it last. */
  readonly usedBy: string;
  /** Absent while the guest runs, after a launcher that was killed, and for block devices, which do not tell who has written to them. */
  readonly atEnd?: Look;
}

const recordSuffix = '.qcow2';

/**
 * The disk with a record of its changed blocks above it: a qcow2 file whose data are in the raw image itself, so that the image stays what
 * it is for everybody else, and whose bitmaps outlive the guest (upstream: `createQCOW2OverlayFunc` of
 * pkg/virt-launcher/virtwrap/storage/cbt.go). A record is used again only when nobody else has written to the image since its guest ended;
 * else it is made anew: what changed is not known, and the next backup has to be a full one. Throws `MISSING_SOURCE` when the pod has no
 * place for records.
 */
export async function trackChanges(
  vmiUid: string,
  volume: Volume,
  disk: ResolvedDisk,
  env: TrackingEnv,
): Promise<ResolvedDisk> {
  const { trackingDir } = env.paths;
  if (!(await lstatIfThere(trackingDir))?.isDirectory()) {
    throw new DiskError(
      'MISSING_SOURCE',
      `spec.volumes[${volume.name}]: its changed blocks cannot be recorded: ${trackingDir} is not mounted; restart the VM`,
    );
  }
  const record = recordFile(volume.name, env);
  const image = await imageOf(volume, disk);
  const { sizeBytes } = await measured(disk.path, 'raw', env);
  const before = await usableOrigin(record, { vmiUid, image, sizeBytes }, env);
  if (!before) await makeRecord(record, image.path, sizeBytes, env);
  // It comes last, so that a record without one is never used.
  if (before?.usedBy !== vmiUid) await writeOrigin(record, { ...image, usedBy: vmiUid });
  // libvirt before 10.10 does not know of the image, and gives only the record to QEMU's user.
  if (!disk.keepsOwner) await chownToQemu(disk.path, env);
  const { keepsOwner, ...rest } = disk;
  const dataStore = { path: disk.path, isBlock: disk.isBlock };
  return { ...rest, path: record, format: 'qcow2', isBlock: false, dataStore };
}

/** The image that a record is about, while the volume is there. */
export async function trackedImage(
  volumeName: string,
  env: Pick<DiskEnv, 'paths'>,
): Promise<{ readonly path: string; readonly isBlock: boolean } | undefined> {
  return readOrigin(recordFile(volumeName, env));
}

/**
 * The guest of this VMI has ended here: writes down what its images are like. One that has moved away writes to them elsewhere, and what is
 * said here then fits no more until that has ended, too.
 */
export async function noteGuestEnded(vmiUid: string, { paths }: Pick<DiskEnv, 'paths'>): Promise<void> {
  const names = await readdir(paths.trackingDir).catch(() => []);
  for (const name of names.filter((each) => each.endsWith(recordSuffix))) {
    const record = path.join(paths.trackingDir, name);
    const origin = await readOrigin(record);
    if (origin?.usedBy !== vmiUid || origin.isBlock) continue;
    const atEnd = await lookAt(origin.path).catch(() => undefined);
    // One that is gone keeps the others from nothing: its record is made anew.
    if (atEnd) await writeOrigin(record, { ...origin, atEnd });
  }
}

/** Of a volume that was unplugged. */
export async function forgetChanges(volumeName: string, env: Pick<DiskEnv, 'paths'>): Promise<void> {
  const record = recordFile(volumeName, env);
  await rm(originFile(record), { force: true });
  await rm(record, { force: true });
}

function recordFile(volumeName: string, { paths }: Pick<DiskEnv, 'paths'>): string {
  return path.join(paths.trackingDir, `${volumeName}${recordSuffix}`);
}

function originFile(record: string): string {
  return `${record}.origin`;
}

async function imageOf({ persistentVolumeClaim, dataVolume }: Volume, disk: ResolvedDisk): Promise<Image> {
  const { path: image, isBlock } = disk;
  const inode = isBlock ? 0 : (await lstat(image)).ino;
  return { claim: persistentVolumeClaim?.claimName ?? dataVolume?.name ?? '', path: image, isBlock, inode };
}

async function lookAt(image: string): Promise<Look> {
  const { size, mtimeNs } = await lstat(image, { bigint: true });
  return { sizeBytes: String(size), changedNs: String(mtimeNs) };
}

async function readOrigin(record: string): Promise<Origin | undefined> {
  const text = await readFile(originFile(record), 'utf8').catch(() => '{}');
  try {
    const origin: unknown = JSON.parse(text);
    return isRecord(origin) && textAt(origin, 'path') !== undefined ? (origin as unknown as Origin) : undefined;
  } catch {
    return undefined;
  }
}

function writeOrigin(record: string, origin: Origin): Promise<void> {
  return replaceFile(originFile(record), JSON.stringify(origin), 0o600);
}

interface Wanted {
  readonly vmiUid: string;
  readonly image: Image;
  readonly sizeBytes: number;
}

/** Of a record that has all that changed in the image. Whatever is in doubt is not used. */
async function usableOrigin(
  record: string,
  { vmiUid, image, sizeBytes }: Wanted,
  env: TrackingEnv,
): Promise<Origin | undefined> {
  if (!(await lstatIfThere(record))?.isFile()) return undefined;
  const origin = await readOrigin(record);
  if (!origin || !isAbout(origin, image)) return undefined;
  // Before any tool opens it: who has the claim could have it name another file, or a server.
  if (!(await keepsDataIn(record, image.path))) return undefined;
  const recorded = await measured(record, 'qcow2', env).catch(() => undefined);
  if (!recorded) return undefined;
  // This VMI's own guest has it open when it is on its way to here, and the size may be about to change.
  if (vmiUid !== '' && origin.usedBy === vmiUid) return recorded.sizeBytes > sizeBytes ? undefined : origin;
  const isUntouched = !image.isBlock && isSameLook(origin.atEnd, await lookAt(image.path));
  return isUntouched && recorded.isWhole && recorded.sizeBytes === sizeBytes ? origin : undefined;
}

function isAbout(origin: Origin, { claim, path: image, isBlock, inode }: Image): boolean {
  return (
    origin.claim === claim && origin.path === image && origin.isBlock === isBlock && (isBlock || origin.inode === inode)
  );
}

function isSameLook(before: Look | undefined, now: Look): boolean {
  return before?.sizeBytes === now.sizeBytes && before.changedNs === now.changedNs;
}

/** Made above an empty file, then told of the image: creating one above the image itself would empty that. */
async function makeRecord(record: string, image: string, sizeBytes: number, env: TrackingEnv): Promise<void> {
  await rm(originFile(record), { force: true });
  await rm(record, { force: true });
  const empty = `${record}.empty`;
  try {
    await ensureCreated(record, { ...env, imageVolume: false }, async (part) => {
      const option = (file: string) => `data_file=${file.replaceAll(',', ',,')}`;
      const create = [
        'create',
        '-q',
        '-f',
        'qcow2',
        '-o',
        `${option(empty)},data_file_raw=on`,
        part,
        String(sizeBytes),
      ];
      await runTool('qemu-img', create, toolOptions(env));
      await runTool('qemu-img', ['amend', '-q', '-f', 'qcow2', '-o', option(image), part], toolOptions(env));
      await handOver(part, { ...env, imageVolume: false }, 0o640);
    });
  } finally {
    await rm(empty, { force: true });
  }
}

interface Measured {
  readonly sizeBytes: number;
  /** No bitmap is left from a QEMU that was killed. */
  readonly isWhole: boolean;
}

async function measured(file: string, format: 'raw' | 'qcow2', env: TrackingEnv): Promise<Measured> {
  const info = await imageInfo(file, format, env);
  const sizeBytes = memberAt(info, 'virtual-size');
  if (typeof sizeBytes !== 'number') {
    throw new DiskError('TOOL_FAILED', `qemu-img info does not tell the size of ${file}`);
  }
  const bitmaps = listOf(memberAt(info, 'format-specific', 'data', 'bitmaps'));
  return { sizeBytes, isWhole: !bitmaps.some((bitmap) => listOf(memberAt(bitmap, 'flags')).includes('in-use')) };
}
