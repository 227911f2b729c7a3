import { mkdir, mkdtemp, rm, stat, truncate, writeFile } from 'node:fs/promises';
import path from 'node:path';
import type { DiskEnv } from './env.ts';
import { DiskError } from './errors.ts';
import { ensureCreated, ensureDir, handOver } from './image.ts';
import { runTool } from './run.ts';

export interface IsoContent {
  /** At most 32 characters. */
  readonly volumeId: string;
  /** Relative path inside the image → content. */
  readonly files: ReadonlyMap<string, string | Buffer>;
  /** Mode of the files as the guest sees it. */
  readonly fileMode: number;
}

const isoTimeoutMs = 10_000;
/** Largest request alignment of direct I/O; a CD's own blocks have 2048 bytes, and QEMU refuses an image with a broken end. */
const alignmentBytes = 4096;
const volumeIdPattern = /^[\x20-\x7e]{1,32}$/;

/** Makes a CD image with Joliet and Rock Ridge names. Kept when it exists; `content` is then not even asked for. */
export async function ensureIso(file: string, env: DiskEnv, content: () => Promise<IsoContent>): Promise<void> {
  await ensureCreated(file, env, async (part) => {
    const { volumeId, files, fileMode } = await content();
    if (!volumeIdPattern.test(volumeId)) {
      throw new DiskError(
        'INVALID_FIELD',
        `the volume label ${JSON.stringify(volumeId)} must be 1 to 32 ASCII characters`,
      );
    }
    await ensureDir(path.dirname(file), env);
    // Private: the content may be secret.
    const staging = await mkdtemp(path.join(path.dirname(file), '.iso-'));
    try {
      await writeTree(staging, files, fileMode);
      const names = ['-joliet', '-joliet-long', '-rock'];
      const args = ['-quiet', '-output', part, '-volid', volumeId, ...names, staging];
      await runTool('genisoimage', args, { timeoutMs: isoTimeoutMs, signal: env.signal });
      await padTo(part, alignmentBytes);
      await handOver(part, env, 0o640);
    } finally {
      await rm(staging, { recursive: true, force: true });
    }
  });
}

async function padTo(file: string, multipleBytes: number): Promise<void> {
  const { size } = await stat(file);
  await truncate(file, Math.ceil(size / multipleBytes) * multipleBytes);
}

async function writeTree(dir: string, files: IsoContent['files'], mode: number): Promise<void> {
  for (const [name, content] of files) {
    const file = path.join(dir, name);
    if (!file.startsWith(`${dir}/`))
      throw new DiskError('UNSAFE_PATH', `${JSON.stringify(name)} leads out of the image`);
    await mkdir(path.dirname(file), { recursive: true });
    await writeFile(file, content, { mode, flag: 'wx' });
  }
}
