import { open } from 'node:fs/promises';
import path from 'node:path';
import { NodeError } from '../errors.ts';
import { ConfinedFailure, importUser, runConfined } from './confined.ts';
import { type Packing, refused } from './detect.ts';
import { roomIn } from './work-directory.ts';
import { imageError, type WorkFile } from './work-file.ts';

const mib = 2 ** 20;
/** A disk of this size in a second is slow for either program. */
const bytesPerSecond = 4 * mib;
const programs: Readonly<Record<Packing, readonly [string, ...string[]]>> = {
  gzip: ['gzip', '-dc'],
  xz: ['xz', '-dc', '--memlimit-decompress=256MiB'],
};

/** Writes what is packed beside it, at most so many bytes; the packed file is taken away. Rejects with NodeError. */
export async function unpack(
  file: WorkFile,
  packing: Packing,
  maxBytes: number,
  signal: AbortSignal,
): Promise<WorkFile> {
  const unpacked = { ...file, name: `${file.name}.unpacked` };
  const roomBytes = await roomIn(file.dir);
  const fileBytes = Math.min(maxBytes, roomBytes);
  const seconds = 60 + Math.ceil(fileBytes / bytesPerSecond);
  const limits = { memoryBytes: 512 * mib, cpuSeconds: seconds, fileBytes, timeoutMs: seconds * 2_000 };
  const from = await open(path.join(file.dir, file.name), 'r');
  try {
    const to = await open(path.join(file.dir, unpacked.name), 'wx', 0o600);
    try {
      const descriptors = { inputFile: from.fd, outputFile: to.fd };
      await runConfined(programs[packing], { dir: file.dir, limits, signal, ...descriptors });
      if (process.geteuid?.() === 0) await to.chown(importUser.uid, importUser.gid);
    } catch (error) {
      throw unpackError(error, file, packing, { maxBytes, roomBytes });
    } finally {
      await to.close();
    }
  } finally {
    await from.close();
  }
  return unpacked;
}

/** Both ignore SIGXFSZ or not, as their versions have it; the system's words are the same. */
function unpackError(
  error: unknown,
  { what }: WorkFile,
  packing: Packing,
  { maxBytes, roomBytes }: { readonly maxBytes: number; readonly roomBytes: number },
): unknown {
  const isTooLarge =
    error instanceof ConfinedFailure && (error.signal === 'SIGXFSZ' || /File too large/.test(error.words));
  if (isTooLarge && roomBytes < maxBytes) {
    const text = `${what} needs more room when it is unpacked than is left (${roomBytes} bytes): free some space`;
    return new NodeError('NO_SPACE', text, { cause: error });
  }
  if (isTooLarge) {
    return refused(
      what,
      `is more than ${maxBytes} bytes when it is unpacked, which are the most that it may be`,
      error,
    );
  }
  return imageError(error, what, `cannot be unpacked by ${packing}`);
}
