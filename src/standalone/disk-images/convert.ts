import { open } from 'node:fs/promises';
import path from 'node:path';
import { runConfined } from './confined.ts';
import { type DiskInfo, driverOf } from './inspect.ts';
import { imageError, type WorkFile } from './work-file.ts';

const gib = 2 ** 30;
const bytesPerSecond = 2 * 2 ** 20;

export interface ConvertOptions {
  readonly to: 'raw' | 'qcow2';
  readonly signal: AbortSignal;
  /** From 0 to 1. */
  readonly onProgress?: (share: number) => void;
}

/** The same disk in another format, sparse, beside the source. It is on disk when this resolves. Rejects with NodeError. */
export async function convert(file: WorkFile, info: DiskInfo, options: ConvertOptions): Promise<WorkFile> {
  const { to, signal, onProgress } = options;
  const name = `${file.name}.${to}`;
  const { dir, what } = file;
  const seconds = 60 + Math.ceil(info.virtualBytes / bytesPerSecond);
  // A qcow2 has tables besides its data.
  const fileBytes = Math.ceil(info.virtualBytes * 1.02) + 2 ** 26;
  const limits = { memoryBytes: 2 * gib, cpuSeconds: seconds, fileBytes, timeoutMs: seconds * 2_000 };
  const argv = ['qemu-img', 'convert', '-p', '-f', driverOf(info.kind), '-O', to, file.name, name] as const;
  const onOutput = (text: string) => {
    // One piece may have several.
    const share = [...text.matchAll(/\((\d{1,3}\.\d\d)\/100%\)/g)].at(-1)?.[1];
    if (share !== undefined) onProgress?.(Number(share) / 100);
  };
  await runConfined(argv, { dir, limits, signal, onOutput }).catch((error: unknown) => {
    throw imageError(error, what, 'cannot be converted');
  });
  const handle = await open(path.join(dir, name), 'r');
  await handle.sync().finally(() => handle.close());
  return { ...file, name };
}
