import { constants } from 'node:fs';
import { type FileHandle, mkdir, open, rename, rm } from 'node:fs/promises';
import path from 'node:path';
import type { DiskFormat } from '../domain/index.ts';
import type { DiskEnv } from './env.ts';
import { DiskError } from './errors.ts';
import { lstatIfThere } from './image-path.ts';
import { runTool } from './run.ts';

const defaultMemoryLimitBytes = 2_097_152_000;
const infoCpuSeconds = 10;
const toolTimeoutMs = 30_000;
/** Of a qcow2 header: its first word, and the bit of incompatible features that says that its data are in another file. */
export const qcow2Magic = 0x514649fb;
export const externalDataFileBit = 4n;
const headerBytes = 80;

/** How images begin that QEMU would open as something else than raw, some of them with the files that they name. */
const otherFormats: readonly (readonly [format: string, offset: number, magic: Buffer])[] = [
  ['vmdk', 0, Buffer.from('KDMV')],
  ['vmdk', 0, Buffer.from('COWD')],
  ['vmdk', 0, Buffer.from('# Disk DescriptorFile')],
  ['vdi', 64, Buffer.from([0x7f, 0x10, 0xda, 0xbe])],
  ['vhdx', 0, Buffer.from('vhdxfile')],
  ['vpc', 0, Buffer.from('conectix')],
  ['qed', 0, Buffer.from('QED\0')],
];

/**
 * Format of an image of unknown origin. Only raw and qcow2 without a backing or data file pass: others could
 * name a file of this machine that the guest would then read. No tool is left to guess the format: guessing opens what the
 * image names. Throws `BAD_IMAGE`, `TOOL_FAILED`.
 */
export async function inspectImage(file: string, what: string, env: DiskEnv): Promise<DiskFormat> {
  const handle = await open(file, 'r');
  try {
    const header = Buffer.alloc(headerBytes);
    await handle.read(header, 0, headerBytes, 0);
    const [other] = otherFormats.find(([, at, magic]) => header.subarray(at, at + magic.length).equals(magic)) ?? [];
    if (other) throw badImage(what, file, `has the format ${other}; convert it to qcow2 with qemu-img convert`);
    if (header.readUInt32BE(0) !== qcow2Magic) return 'raw';
    refuseReferences(header, what, file);
  } finally {
    await handle.close();
  }
  await checkQcow2(file, what, env);
  return 'qcow2';
}

/** Before any tool opens the image. */
function refuseReferences(header: Buffer, what: string, file: string): void {
  if (header.readBigUInt64BE(8) !== 0n)
    throw badImage(what, file, 'has a backing file; flatten it with qemu-img convert');
  const version = header.readUInt32BE(4);
  if (version >= 3 && (header.readBigUInt64BE(72) & externalDataFileBit) !== 0n) {
    throw badImage(what, file, 'keeps its data in another file; convert it with qemu-img convert');
  }
}

/** That it can be read at all, and in the limits of memory and time that an image may cost. */
async function checkQcow2(file: string, what: string, env: DiskEnv): Promise<void> {
  const limits = { memoryBytes: env.diskMemoryLimitBytes ?? defaultMemoryLimitBytes, cpuSeconds: infoCpuSeconds };
  const text = await runTool('qemu-img', infoArgs(file, 'qcow2'), { ...toolOptions(env), limits }).catch(
    (error: unknown) => {
      throw new DiskError('BAD_IMAGE', `${what}: ${file} is not a usable disk image: ${String(error)}`, {
        cause: error,
      });
    },
  );
  const info = parseInfo(text);
  const reference = info['backing-filename'] ?? info['full-backing-filename'];
  if (reference !== undefined) throw badImage(what, file, 'has a backing file; flatten it with qemu-img convert');
}

/** Of an image of this launcher's own making, or of a format that was found out before. Throws `TOOL_FAILED`. */
export async function imageInfo(
  file: string,
  format: DiskFormat,
  env: Pick<DiskEnv, 'signal'>,
): Promise<Record<string, unknown>> {
  return parseInfo(await runTool('qemu-img', infoArgs(file, format), toolOptions(env)));
}

/** `--force-share`: a guest may have it open, here or where it comes from. */
function infoArgs(file: string, format: DiskFormat): string[] {
  return ['info', '-f', format, '--force-share', '--output=json', file];
}

function badImage(what: string, file: string, problem: string): DiskError {
  return new DiskError('BAD_IMAGE', `${what}: the image ${file} ${problem}`);
}

function parseInfo(text: string): Record<string, unknown> {
  try {
    return JSON.parse(text) as Record<string, unknown>;
  } catch (error) {
    throw new DiskError('TOOL_FAILED', 'qemu-img info gave no JSON', { cause: error });
  }
}

/** Writes above `backing`, which stays as it is. Kept when it exists. */
export async function ensureOverlay(
  file: string,
  backing: { readonly path: string; readonly format: DiskFormat },
  env: DiskEnv,
): Promise<void> {
  const args = ['create', '-q', '-f', 'qcow2', '-b', backing.path, '-F', backing.format];
  await ensureCreated(file, env, async (part) => {
    await runTool('qemu-img', [...args, part], toolOptions(env));
    await handOver(part, env, 0o640);
  });
}

/** An empty qcow2 image. Kept when it exists. */
export async function ensureEmptyImage(file: string, sizeBytes: number, env: DiskEnv): Promise<void> {
  const args = ['create', '-q', '-f', 'qcow2'];
  await ensureCreated(file, env, async (part) => {
    await runTool('qemu-img', [...args, part, String(sizeBytes)], toolOptions(env));
    await handOver(part, env, 0o640);
  });
}

export function toolOptions(env: Pick<DiskEnv, 'signal'>) {
  return { timeoutMs: toolTimeoutMs, signal: env.signal };
}

/**
 * Makes `file` with `create(part)` unless it exists: the name appears only when the content is whole and belongs to QEMU's user,
 * so that a crash leaves nothing that looks finished.
 */
export async function ensureCreated(
  file: string,
  env: DiskEnv,
  create: (part: string) => Promise<unknown>,
): Promise<void> {
  const there = await lstatIfThere(file);
  if (there?.isFile()) return;
  if (there) throw new DiskError('UNSAFE_PATH', `${file} should be an ordinary file: remove it`);
  await ensureDir(path.dirname(file), env);
  const part = `${file}.part`;
  try {
    await rm(part, { force: true });
    await create(part);
    await rename(part, file);
  } catch (error) {
    await rm(part, { force: true });
    throw error;
  }
}

/** Owner and mode for QEMU's user, through a descriptor: the name could be replaced by a link meanwhile. */
export async function handOver(file: string, env: DiskEnv, mode: number): Promise<void> {
  const handle = await open(file, constants.O_RDONLY | constants.O_NOFOLLOW);
  try {
    await giveToQemu(handle, env, mode);
  } finally {
    await handle.close();
  }
}

/** An image, also in a block device, becomes QEMU's; its mode stays. Without a user of QEMU's own nothing changes. */
export async function chownToQemu(file: string, { owner }: Pick<DiskEnv, 'owner'>): Promise<void> {
  if (!owner) return;
  const handle = await open(file, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  try {
    await handle.chown(owner.uid, owner.gid);
  } finally {
    await handle.close();
  }
}

/** Owner and mode for QEMU's user of a file that is open. */
export async function giveToQemu(handle: FileHandle, { owner }: DiskEnv, mode: number): Promise<void> {
  await handle.chmod(mode);
  if (owner) await handle.chown(owner.uid, owner.gid);
}

/** A directory that QEMU's user may enter; only new ones are changed. */
export async function ensureDir(dir: string, env: DiskEnv): Promise<void> {
  const first = await mkdir(dir, { recursive: true });
  if (first === undefined) return;
  for (let made = dir; made.startsWith(first); made = path.dirname(made)) await handOver(made, env, 0o755);
}
