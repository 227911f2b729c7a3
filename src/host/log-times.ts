import { open, stat } from 'node:fs/promises';
import { openPlainFile, readText } from './plain-file.ts';
import { replaceFileSync } from './replace-file.ts';

/** A log had `bytes` at this time: what stands before was written by then. */
export interface LogTime {
  readonly bytes: number;
  readonly atMs: number;
}

/** No more often than this, so that a log that is written to all the time has few of them. */
const leastPauseMs = 1_000;
/** Then every second one is dropped. */
const maxTimesBytes = 128 * 1024;
/** Between two looks at it one more may have come. */
const maxReadBytes = 2 * maxTimesBytes;

const timesFile = (file: string) => `${file}.times`;

/**
 * Notes how long a log is now, when that is longer than it was, or anew. `last`: what was noted last, which is read when it is not known.
 * Gives what is noted last now; undefined for a log that is not there.
 */
export async function noteTime(file: string, nowMs: number, last?: LogTime): Promise<LogTime | undefined> {
  const found = await stat(file).catch(() => undefined);
  if (!found) return undefined;
  const before = last ?? (await readLogTimes(file)).at(-1);
  const noted = { bytes: found.size, atMs: nowMs };
  if (before?.bytes === noted.bytes) return before;
  // It was begun anew, or is written to for the first time.
  if (!before || before.bytes > noted.bytes) {
    write(file, [noted]);
    return noted;
  }
  if (nowMs - before.atMs < leastPauseMs) return before;
  const { size } = await stat(timesFile(file)).catch(() => ({ size: 0 }));
  if (size > maxTimesBytes) {
    write(file, [...(await readLogTimes(file)).filter((_, index) => index % 2 === 1), noted]);
    return noted;
  }
  const handle = await open(timesFile(file), 'a', 0o600);
  await handle.write(lineOf(noted)).finally(() => handle.close());
  return noted;
}

/** What was noted of a log, the oldest first; empty when nothing was. */
export async function readLogTimes(file: string): Promise<LogTime[]> {
  const text = await openPlainFile(timesFile(file))
    .then((handle) => readText(handle, maxReadBytes).finally(() => handle.close()))
    .catch(() => '');
  return text.split('\n').flatMap((line) => {
    const [, bytes, atMs] = /^(\d{1,15}) (\d{1,15})$/.exec(line) ?? [];
    return bytes !== undefined && atMs !== undefined ? [{ bytes: Number(bytes), atMs: Number(atMs) }] : [];
  });
}

const lineOf = ({ bytes, atMs }: LogTime) => `${bytes} ${atMs}\n`;

/** Only how old lines are is lost with it. */
function write(file: string, times: readonly LogTime[]): void {
  replaceFileSync(timesFile(file), times.map(lineOf).join(''), 0o600);
}
