import { createReadStream, createWriteStream } from 'node:fs';
import { open, stat, truncate } from 'node:fs/promises';
import { pipeline } from 'node:stream/promises';

const maxLogBytes = 10 * 2 ** 20;
const tailBytes = 2048;
const tailLines = 20;

/** The last lines of a log: what kubelet gives as the message of a container that failed. */
export async function logTail(file: string): Promise<string> {
  const handle = await open(file, 'r').catch(() => undefined);
  if (!handle) return '';
  try {
    const { size } = await handle.stat();
    const buffer = Buffer.alloc(Math.min(size, tailBytes));
    const { bytesRead } = await handle.read(buffer, 0, buffer.length, size - buffer.length);
    const lines = buffer.subarray(0, bytesRead).toString('utf8').trimEnd().split('\n');
    return lines.slice(-tailLines).join('\n');
  } finally {
    await handle.close();
  }
}

/**
 * Keeps the last `maxBytes` as one older part and begins anew: a program that writes a log may also make it terabytes long, which take no room
 * until they are copied. Writers append (O_APPEND), so they go on at the new end.
 */
export async function rotateLog(file: string, maxBytes = maxLogBytes): Promise<void> {
  const found = await stat(file).catch(() => undefined);
  if (!found || found.size <= maxBytes) return;
  const range = { start: found.size - maxBytes, end: found.size - 1 };
  await pipeline(createReadStream(file, range), createWriteStream(`${file}.1`, { mode: 0o600 }));
  await truncate(file, 0);
}
