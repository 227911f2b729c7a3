import { readFile } from 'node:fs/promises';

/** Fields of proc_pid_stat(5). */
export interface ProcessStat {
  readonly state: string;
  readonly parent: number;
  readonly flags: number;
  /** Clock ticks since the machine's start: tells a process from a later one with its pid. */
  readonly startTicks: string;
  /** Time of CPUs in clock ticks, in user mode and in the kernel. */
  readonly cpuTicks: number;
  /** Memory in pages. */
  readonly residentPages: number;
}

/** Undefined for what is no such text. */
export function parseProcessStat(text: string): ProcessStat | undefined {
  // The name in parentheses may hold anything, so fields count from the last one.
  const nameEnd = text.lastIndexOf(')');
  const fields = nameEnd < 0 ? [] : text.slice(nameEnd + 2).split(' ');
  const [state, startTicks] = [fields[0], fields[19]];
  if (!state || !startTicks) return undefined;
  // Sums are made of them: what is missing, or no count, is nothing.
  const count = (at: number) => (Number.isSafeInteger(Number(fields[at])) ? Number(fields[at]) : 0);
  return {
    state,
    parent: Number(fields[1]),
    flags: Number(fields[6]),
    startTicks,
    cpuTicks: count(11) + count(12),
    residentPages: count(21),
  };
}

/** A zombie has ended: only its parent has not asked yet. */
export function hasEnded({ state }: ProcessStat): boolean {
  return state === 'Z' || state === 'X' || state === 'x';
}

/** Undefined when it cannot be read, as of a process that is gone. */
export async function readProcessStat(pid: number, procDir = '/proc'): Promise<ProcessStat | undefined> {
  return readFile(`${procDir}/${pid}/stat`, 'latin1').then(parseProcessStat, () => undefined);
}
