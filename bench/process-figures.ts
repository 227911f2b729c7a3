import { readdirSync, readFileSync } from 'node:fs';

/** CPU time of all living threads of a process, in milliseconds. */
export function cpuMs(pid: number): number {
  return readdirSync(`/proc/${pid}/task`).reduce((sum, thread) => sum + threadMs(pid, thread), 0);
}

function threadMs(pid: number, thread: string): number {
  return Number(readFileSync(`/proc/${pid}/task/${thread}/schedstat`, 'latin1').split(' ')[0]) / 1e6;
}

export interface Activity {
  readonly cpuMs: number;
  /** Of a program of Node.js: what is not garbage collection or compiling beside it. */
  readonly firstThreadMs: number;
  readonly wakeUps: number;
}

/** CPU time and wake-ups of all living threads of a process, exactly: for spans in which it does hardly anything. */
export function activity(pid: number): Activity {
  const wakeUps = readdirSync(`/proc/${pid}/task`).map((thread) => {
    const status = readFileSync(`/proc/${pid}/task/${thread}/status`, 'latin1');
    return Number(/^voluntary_ctxt_switches:\s+(\d+)/m.exec(status)?.[1]);
  });
  return {
    cpuMs: cpuMs(pid),
    firstThreadMs: threadMs(pid, `${pid}`),
    wakeUps: wakeUps.reduce((sum, each) => sum + each, 0),
  };
}

/** What a process has in memory now (`VmRSS`), or the most that it ever had (`VmHWM`). */
export function residentMb(pid: number, field: 'VmRSS' | 'VmHWM' = 'VmRSS'): number {
  const status = readFileSync(`/proc/${pid}/status`, 'latin1');
  return Number(new RegExp(`^${field}:\\s+(\\d+)`, 'm').exec(status)?.[1]) / 1024;
}

export interface MemoryMb {
  readonly resident: number;
  /** What several processes map counts for each by its share: the sum over all processes is what the machine has given away. */
  readonly proportional: number;
  /** Gone with this process. */
  readonly own: number;
}

export function memoryMb(pid: number): MemoryMb {
  const text = readFileSync(`/proc/${pid}/smaps_rollup`, 'latin1');
  const kilobytes = (name: string) => Number(new RegExp(`^${name}:\\s+(\\d+) kB$`, 'm').exec(text)?.[1]);
  return {
    resident: kilobytes('Rss') / 1024,
    proportional: kilobytes('Pss') / 1024,
    own: (kilobytes('Private_Clean') + kilobytes('Private_Dirty')) / 1024,
  };
}
