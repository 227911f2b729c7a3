import { open } from 'node:fs/promises';

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
