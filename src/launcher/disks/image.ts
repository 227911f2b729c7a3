import { constants } from 'node:fs';
import { mkdir, open, rename, rm } from 'node:fs/promises';
import path from 'node:path';
import type { DiskFormat } from '../domain/index.ts';
import type { DiskEnv } from './env.ts';
import { DiskError } from './errors.ts';
import { runTool } from './run.ts';
import { lstatIfThere } from './safe-path.ts';

export interface ImageFacts {
  readonly format: DiskFormat;
  readonly virtualSizeBytes: number;
}

const defaultMemoryLimitBytes = 2_097_152_000;
const infoCpuSeconds = 10;
const toolTimeoutMs = 30_000;
const qcow2Magic = 0x514649fb;
const externalDataFileBit = 4n;

/**
 * Format and size of an image that somebody else made. Only raw and qcow2 without a backing or data file pass: others could
 * name a file of this machine that the guest would then read. Throws `BAD_IMAGE`, `TOOL_FAILED`.
 */
export async function inspectImage(file: string, what: string, env: DiskEnv): Promise<ImageFacts> {
  await refuseReferences(file, what);
  const limits = { memoryBytes: env.diskMemoryLimitBytes ?? defaultMemoryLimitBytes, cpuSeconds: infoCpuSeconds };
  const args = ['info', '--force-share', '--output=json', file];
  const text = await runTool('qemu-img', args, { timeoutMs: toolTimeoutMs, signal: env.signal, limits }).catch(
    (error: unknown) => {
      throw new DiskError('BAD_IMAGE', `${what}: ${file} is not a usable disk image: ${String(error)}`, {
        cause: error,
      });
    },
  );
  const info = parseInfo(text);
  const reference = info['backing-filename'] ?? info['full-backing-filename'];
  if (info.format !== 'raw' && info.format !== 'qcow2') {
    throw badImage(what, file, `has the format ${String(info.format)}; convert it to qcow2 with qemu-img convert`);
  }
  if (reference !== undefined) throw badImage(what, file, 'has a backing file; flatten it with qemu-img convert');
  return { format: info.format, virtualSizeBytes: Number(info['virtual-size'] ?? 0) };
}

/** Looks at the header before any tool opens the image. */
async function refuseReferences(file: string, what: string): Promise<void> {
  const handle = await open(file, 'r');
  try {
    const header = Buffer.alloc(80);
    const { bytesRead } = await handle.read(header, 0, header.length, 0);
    if (bytesRead < header.length || header.readUInt32BE(0) !== qcow2Magic) return;
    if (header.readBigUInt64BE(8) !== 0n) {
      throw badImage(what, file, 'has a backing file; flatten it with qemu-img convert');
    }
    const version = header.readUInt32BE(4);
    if (version >= 3 && (header.readBigUInt64BE(72) & externalDataFileBit) !== 0n) {
      throw badImage(what, file, 'keeps its data in another file; convert it with qemu-img convert');
    }
  } finally {
    await handle.close();
  }
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
  await ensureCreated(file, env, (part) => runTool('qemu-img', [...args, part], toolOptions(env)));
}

/** An empty qcow2 image. Kept when it exists. */
export async function ensureEmptyImage(file: string, sizeBytes: number, env: DiskEnv): Promise<void> {
  const args = ['create', '-q', '-f', 'qcow2'];
  await ensureCreated(file, env, (part) => runTool('qemu-img', [...args, part, String(sizeBytes)], toolOptions(env)));
}

function toolOptions(env: DiskEnv) {
  return { timeoutMs: toolTimeoutMs, signal: env.signal };
}

/**
 * Makes `file` with `create(part)` unless it exists: the name appears only when the content is whole, so that a crash leaves
 * nothing that looks finished.
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
    await handOver(part, env, 0o640);
    await rename(part, file);
  } catch (error) {
    await rm(part, { force: true });
    throw error;
  }
}

/** Owner and mode for QEMU's user, through a descriptor: the name could be replaced by a link meanwhile. */
async function handOver(file: string, env: DiskEnv, mode: number): Promise<void> {
  const handle = await open(file, constants.O_RDONLY | constants.O_NOFOLLOW);
  try {
    await handle.chmod(mode);
    if (env.owner) await handle.chown(env.owner.uid, env.owner.gid);
  } finally {
    await handle.close();
  }
}

/** A directory that QEMU's user may enter; only new ones are changed. */
export async function ensureDir(dir: string, env: DiskEnv): Promise<void> {
  const first = await mkdir(dir, { recursive: true });
  if (first === undefined) return;
  for (let made = dir; made.startsWith(first); made = path.dirname(made)) await handOver(made, env, 0o755);
}
