import { lstat, readFile, rm } from 'node:fs/promises';
import path from 'node:path';
import type { Volume } from '../../api/index.ts';
import { isRecord, memberAt, textAt } from '../../base/index.ts';
import { replaceFile } from '../../host/index.ts';
import type { ResolvedDisk } from '../domain/index.ts';
import type { DiskEnv } from './env.ts';
import { DiskError } from './errors.ts';
import { chownToQemu, ensureCreated, handOver } from './image.ts';
import { lstatIfThere } from './image-path.ts';
import { runTool } from './run.ts';

type TrackingEnv = Pick<DiskEnv, 'paths' | 'owner' | 'signal'>;

/** What a record of changed blocks is about. */
interface Origin {
  readonly claim: string;
  readonly path: string;
  readonly isBlock: boolean;
  /** Of an image in a file; another one is another image, whatever its path. */
  readonly inode: number;
}

const toolTimeoutMs = 30_000;

/**
 * The disk with a record of its changed blocks above it: a qcow2 file whose data are in the raw image itself, so that the image stays what
 * it is for everybody else, and whose bitmaps outlive the guest (upstream: `createQCOW2OverlayFunc` of
 * pkg/virt-launcher/virtwrap/storage/cbt.go). A record of another image is made anew: what changed in this one is not known, and the next
 * backup has to be a full one. Throws `MISSING_SOURCE` when the pod has no place for records.
 */
export async function trackChanges(volume: Volume, disk: ResolvedDisk, env: TrackingEnv): Promise<ResolvedDisk> {
  const { trackingDir } = env.paths;
  if (!(await lstatIfThere(trackingDir))?.isDirectory()) {
    throw new DiskError(
      'MISSING_SOURCE',
      `spec.volumes[${volume.name}]: its changed blocks cannot be recorded: ${trackingDir} is not mounted; restart the VM`,
    );
  }
  const record = recordFile(volume.name, env);
  const origin = await originOf(volume, disk);
  const sizeBytes = await virtualSize(disk.path, 'raw', env);
  if (!(await isUsable(record, origin, sizeBytes, env))) await makeRecord(record, origin, sizeBytes, env);
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

/** Of a volume that was unplugged. */
export async function forgetChanges(volumeName: string, env: Pick<DiskEnv, 'paths'>): Promise<void> {
  const record = recordFile(volumeName, env);
  await rm(originFile(record), { force: true });
  await rm(record, { force: true });
}

function recordFile(volumeName: string, { paths }: Pick<DiskEnv, 'paths'>): string {
  return path.join(paths.trackingDir, `${volumeName}.qcow2`);
}

function originFile(record: string): string {
  return `${record}.origin`;
}

async function originOf({ persistentVolumeClaim, dataVolume }: Volume, disk: ResolvedDisk): Promise<Origin> {
  const { path: image, isBlock } = disk;
  const inode = isBlock ? 0 : (await lstat(image)).ino;
  return { claim: persistentVolumeClaim?.claimName ?? dataVolume?.name ?? '', path: image, isBlock, inode };
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

/** One that is too small for a grown image grows; its bitmaps stay. */
async function isUsable(record: string, origin: Origin, sizeBytes: number, env: TrackingEnv): Promise<boolean> {
  if (!(await lstatIfThere(record))?.isFile()) return false;
  if (JSON.stringify(await readOrigin(record)) !== JSON.stringify(origin)) return false;
  const recorded = await virtualSize(record, 'qcow2', env).catch(() => undefined);
  if (recorded === undefined || recorded > sizeBytes) return false;
  if (recorded < sizeBytes) await runTool('qemu-img', ['resize', '-q', record, String(sizeBytes)], toolOptions(env));
  return true;
}

/**
 * Made above an empty file, then told of the image: creating one above the image itself would empty that. The origin comes last, so that
 * a record without one is never used.
 */
async function makeRecord(record: string, origin: Origin, sizeBytes: number, env: TrackingEnv): Promise<void> {
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
      await runTool('qemu-img', ['amend', '-q', '-f', 'qcow2', '-o', option(origin.path), part], toolOptions(env));
      await handOver(part, { ...env, imageVolume: false }, 0o640);
    });
  } finally {
    await rm(empty, { force: true });
  }
  await replaceFile(originFile(record), JSON.stringify(origin), 0o600);
}

/** `--force-share`: a guest that arrives here may still run elsewhere. */
async function virtualSize(file: string, format: 'raw' | 'qcow2', env: TrackingEnv): Promise<number> {
  const args = ['info', '-f', format, '--force-share', '--output=json', file];
  const info: unknown = JSON.parse(await runTool('qemu-img', args, toolOptions(env)));
  const size = memberAt(info, 'virtual-size');
  if (typeof size === 'number') return size;
  throw new DiskError('TOOL_FAILED', `qemu-img info does not tell the size of ${file}`);
}

function toolOptions({ signal }: TrackingEnv) {
  return { timeoutMs: toolTimeoutMs, signal };
}
