import { open } from 'node:fs/promises';
import path from 'node:path';
import { Readable } from 'node:stream';
import { errorCode, sleep } from '../base/index.ts';

export interface PodLogQuery {
  readonly namespace: string;
  readonly pod: string;
  readonly uid: string;
  readonly container: string;
  /** Keep the stream open and give what is appended. */
  readonly follow: boolean;
  /** Only the last so many lines; undefined for all. */
  readonly tailLines: number | undefined;
  /** At most so many bytes; undefined for all. */
  readonly limitBytes: number | undefined;
}

/** Where the text of a container comes from. */
export interface PodLogs {
  /** undefined when the container has not written anything yet. */
  read(query: PodLogQuery, signal: AbortSignal): Promise<Readable | undefined>;
}

const pollMs = 250;
const chunkBytes = 64 * 1024;
/** How far back lines are looked for: a sparse file may claim any size. Our own logs are rotated below this. */
const maxTailBytes = 16 * 1024 * 1024;

/** Logs in files `<dir>/<pod uid>/<container>.log`, appended to by the program that runs the pods. */
export function directoryPodLogs(dir: string): PodLogs {
  return {
    async read(query, signal) {
      const file = path.join(dir, path.basename(query.uid), `${path.basename(query.container)}.log`);
      try {
        const handle = await open(file, 'r');
        const start = await startOf(handle, query, signal);
        const stream = Readable.from(chunks(handle, start, query, signal), { objectMode: false });
        // One that is never read from does not begin, and so does not end what it would have begun with.
        return stream.once('close', () => void handle.close());
      } catch (error) {
        if (errorCode(error) === 'ENOENT') return undefined;
        throw error;
      }
    },
  };
}

type Handle = Awaited<ReturnType<typeof open>>;

async function startOf(handle: Handle, { tailLines }: PodLogQuery, signal: AbortSignal): Promise<number> {
  try {
    return tailLines === undefined ? 0 : await tailStart(handle, tailLines, signal);
  } catch (error) {
    await handle.close();
    throw error;
  }
}

/** Offset at which the last `lines` lines begin, found by reading backwards; or as far back as that goes. */
async function tailStart(handle: Handle, lines: number, signal: AbortSignal): Promise<number> {
  const { size } = await handle.stat();
  if (lines === 0) return size;
  const buffer = Buffer.alloc(chunkBytes);
  const first = Math.max(0, size - maxTailBytes);
  let end = size;
  let seen = 0;
  while (end > first) {
    signal.throwIfAborted();
    const begin = Math.max(first, end - chunkBytes);
    const { bytesRead } = await handle.read(buffer, 0, end - begin, begin);
    for (let at = bytesRead - 1; at >= 0; at--) {
      const isLineEnd = buffer[at] === 0x0a && begin + at !== size - 1;
      if (isLineEnd && ++seen === lines) return begin + at + 1;
    }
    end = begin;
  }
  return first;
}

async function* chunks(handle: Handle, start: number, query: PodLogQuery, signal: AbortSignal): AsyncGenerator<Buffer> {
  let at = start;
  let left = query.limitBytes ?? Number.POSITIVE_INFINITY;
  try {
    while (left > 0 && !signal.aborted) {
      const buffer = Buffer.alloc(Math.min(chunkBytes, left));
      const { bytesRead } = await handle.read(buffer, 0, buffer.length, at);
      at += bytesRead;
      left -= bytesRead;
      if (bytesRead > 0) yield buffer.subarray(0, bytesRead);
      else if (!query.follow) return;
      else await sleep(pollMs, signal).catch(() => undefined);
    }
  } finally {
    await handle.close();
  }
}
