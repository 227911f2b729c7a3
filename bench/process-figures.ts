import { readdirSync, readFileSync } from 'node:fs';

/** CPU time of all living threads of a process, in milliseconds. */
export function cpuMs(pid: number): number {
  const threads = readdirSync(`/proc/${pid}/task`);
  const nanoseconds = threads.map((thread) => {
    return Number(readFileSync(`/proc/${pid}/task/${thread}/schedstat`, 'latin1').split(' ')[0]);
  });
  return nanoseconds.reduce((sum, each) => sum + each, 0) / 1e6;
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
