import { open } from 'node:fs/promises';
import path from 'node:path';
import { Readable } from 'node:stream';
import { errorCode, sleep } from '../base/index.ts';
import { type LogTime, readLogTimes, timeAt } from '../host/index.ts';
import { sinceOffset, timePrefix } from './pod-log-times.ts';

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
  /** Milliseconds since the epoch: only lines written then or later, as exactly as that is known (a second). */
  readonly sinceMs: number | undefined;
  /** Each line begins with the time at which it was written. */
  readonly timestamps: boolean;
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

/**
 * Logs in files `<dir>/<pod uid>/<container>.log`, appended to by the program that runs the pods, which notes beside them when they had how
 * many bytes.
 */
export function directoryPodLogs(dir: string): PodLogs {
  return {
    async read(query, signal) {
      const file = path.join(dir, path.basename(query.uid), `${path.basename(query.container)}.log`);
      try {
        const handle = await open(file, 'r');
        const log = await begin(handle, file, query, signal);
        const bytes = chunks(log, query, signal);
        const text = query.timestamps ? limited(stamped(bytes, log), query.limitBytes) : bytes;
        const stream = Readable.from(text, { objectMode: false });
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

interface OpenLog {
  readonly handle: Handle;
  /** Offset of the first byte to give. */
  readonly start: number;
  readonly times: readonly LogTime[];
}

async function begin(handle: Handle, file: string, query: PodLogQuery, signal: AbortSignal): Promise<OpenLog> {
  const { tailLines, sinceMs, timestamps } = query;
  try {
    const times = timestamps || sinceMs !== undefined ? await readLogTimes(file) : [];
    const tail = tailLines === undefined ? 0 : await tailStart(handle, tailLines, signal);
    const since = sinceMs === undefined ? 0 : await sinceStart(handle, times, sinceMs);
    return { handle, start: Math.max(tail, since), times };
  } catch (error) {
    await handle.close();
    throw error;
  }
}

/** At the beginning of a line. */
async function sinceStart(handle: Handle, times: readonly LogTime[], sinceMs: number): Promise<number> {
  const { size, mtimeMs } = await handle.stat();
  const offset = sinceOffset(times, sinceMs, { size, endMs: mtimeMs });
  if (offset >= size) return size;
  const begin = Math.max(0, offset - chunkBytes);
  const { buffer, bytesRead } = await handle.read(Buffer.alloc(offset - begin), 0, offset - begin, begin);
  return begin + buffer.subarray(0, bytesRead).lastIndexOf(0x0a) + 1;
}

/** Each line with its time before it. What follows a line that is not at its end yet gets none. */
async function* stamped(bytes: AsyncIterable<Buffer>, { handle, start, times }: OpenLog): AsyncGenerator<Buffer> {
  let at = start;
  let isAtBegin = true;
  for await (const chunk of bytes) {
    const { mtimeMs } = await handle.stat();
    const pieces: Buffer[] = [];
    for (let from = 0; from < chunk.length; ) {
      const end = chunk.indexOf(0x0a, from);
      const to = end < 0 ? chunk.length : end + 1;
      if (isAtBegin) pieces.push(Buffer.from(timePrefix(timeAt(times, at + to, mtimeMs))));
      pieces.push(chunk.subarray(from, to));
      isAtBegin = end >= 0;
      from = to;
    }
    at += chunk.length;
    yield Buffer.concat(pieces);
  }
}

async function* limited(bytes: AsyncIterable<Buffer>, limit = Number.POSITIVE_INFINITY): AsyncGenerator<Buffer> {
  let left = limit;
  for await (const chunk of bytes) {
    yield chunk.subarray(0, left);
    left -= chunk.length;
    if (left <= 0) return;
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

async function* chunks({ handle, start }: OpenLog, query: PodLogQuery, signal: AbortSignal): AsyncGenerator<Buffer> {
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
      else if ((await handle.stat()).size < at) at = 0;
      else await sleep(pollMs, signal).catch(() => undefined);
    }
  } finally {
    await handle.close();
  }
}
