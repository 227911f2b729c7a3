import { readFileSync } from 'node:fs';
import { uptime } from 'node:os';

export interface LogLine {
  readonly timestamp: string;
  readonly tookMs?: Readonly<Record<string, number>>;
}

/** The first line of a program's log that has all of `parts`. */
export function logLine(file: string, parts: readonly string[]): LogLine {
  const line = readFileSync(file, 'utf8')
    .split('\n')
    .find((text) => parts.every((part) => text.includes(part)));
  if (line === undefined) throw new Error(`${file} has no line with ${parts.join(' and ')}`);
  return JSON.parse(line);
}

const ticksPerSecond = 100;

/** Wall-clock milliseconds at which a process began, to 10 ms. */
function startedAtMs(pid: string): number {
  const fields = readFileSync(`/proc/${pid}/stat`, 'latin1')
    .replace(/^.*\) /s, '')
    .split(' ');
  return Date.now() - (uptime() - Number(fields[19]) / ticksPerSecond) * 1000;
}

/** From the start of the process to the line with which it says that it is at work. */
export function startUpMs(pid: string, file: string, readyMessage: string): number {
  return Date.parse(logLine(file, [`"msg":"${readyMessage}"`]).timestamp) - startedAtMs(pid);
}
