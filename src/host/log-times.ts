import { open, stat } from 'node:fs/promises';
import { openPlainFile, readText } from './plain-file.ts';
import { replaceFileSync } from './replace-file.ts';

/** A log had `bytes` at this time: what stands before was written by then. */
export interface LogTime {
  readonly bytes: number;
  readonly atMs: number;
}

/** What was noted of a log, and how it grew since, which was too early to be noted. */
export interface NotedTime extends LogTime {
  readonly since?: LogTime;
}

/** No more often than this, so that a log that is written to all the time has few of them; the last growth before a longer pause is one of them, too. */
const leastPauseMs = 1_000;
/** Then every second one is dropped. */
const maxTimesBytes = 128 * 1024;
/** Between two looks at it one more may have come. */
const maxReadBytes = 2 * maxTimesBytes;

const timesFile = (file: string) => `${file}.times`;

/**
 * Notes how long a log is now, when that is longer than it was, or anew. `last`: what this gave the last time; what is noted is read when it is not
 * known. Undefined for a log that is not there.
 */
export async function noteTime(file: string, nowMs: number, last?: NotedTime): Promise<NotedTime | undefined> {
  const found = await stat(file).catch(() => undefined);
  if (!found) return undefined;
  const before: NotedTime | undefined = last ?? (await readLogTimes(file)).at(-1);
  const noted = { bytes: found.size, atMs: nowMs };
  if (before?.bytes === noted.bytes || before?.since?.bytes === noted.bytes) return before;
  // It was begun anew, or is written to for the first time.
  if (!before || before.bytes > noted.bytes) {
    write(file, [noted]);
    return noted;
  }
  if (nowMs - before.atMs < leastPauseMs) return { bytes: before.bytes, atMs: before.atMs, since: noted };
  const due = before.since && before.since.bytes < noted.bytes ? [before.since, noted] : [noted];
  const { size } = await stat(timesFile(file)).catch(() => ({ size: 0 }));
  if (size > maxTimesBytes) {
    write(file, [...(await readLogTimes(file)).filter((_, index) => index % 2 === 1), ...due]);
    return noted;
  }
  const handle = await open(timesFile(file), 'a', 0o600);
  await handle.write(textOf(due)).finally(() => handle.close());
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

/** When the byte before `offset` was written. Later ones than were noted: at `endMs`. */
export function timeAt(times: readonly LogTime[], offset: number, endMs: number): number {
  // The first that has it; offsets and times only grow.
  let low = 0;
  let high = times.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((times[middle]?.bytes ?? 0) >= offset) high = middle;
    else low = middle + 1;
  }
  return times[low]?.atMs ?? endMs;
}

const textOf = (times: readonly LogTime[]) => times.map(({ bytes, atMs }) => `${bytes} ${atMs}\n`).join('');

/** Only how old lines are is lost with it. */
function write(file: string, times: readonly LogTime[]): void {
  replaceFileSync(timesFile(file), textOf(times), 0o600);
}
