import { constants } from 'node:fs';
import { open } from 'node:fs/promises';

/** The text of a plain file, of which no more than `maxBytes` is taken. Rejects with the system's error; a pipe keeps nobody waiting. */
export async function readBounded(file: string, maxBytes: number): Promise<string> {
  const handle = await open(file, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  try {
    const buffer = Buffer.alloc(maxBytes);
    let length = 0;
    for (;;) {
      const { bytesRead } = await handle.read(buffer, length, maxBytes - length);
      length += bytesRead;
      if (bytesRead === 0 || length === maxBytes) return buffer.toString('utf8', 0, length);
    }
  } finally {
    await handle.close();
  }
}
