import { readFileSync } from 'node:fs';
import { CodedError } from '../base/index.ts';

export class CpuSetError extends CodedError<'CPU_SET_UNREADABLE'> {}

/** More CPUs than any machine has: a guard against a range that is made up. */
const maxCpus = 50_000;

/**
 * CPUs that a process may use, as the kernel applies them to it: for a launcher the same as its cgroup's set, without having
 * to know which cgroup version, driver and namespace the node has. Ascending. Throws CPU_SET_UNREADABLE.
 */
export function cpuSetOf(pid: number, procDir = '/proc'): readonly number[] {
  let status: string;
  try {
    status = readFileSync(`${procDir}/${pid}/status`, 'utf8');
  } catch (cause) {
    throw new CpuSetError('CPU_SET_UNREADABLE', `the CPUs of process ${pid} cannot be read`, { cause });
  }
  const text = /^Cpus_allowed_list:\s*(\S+)$/m.exec(status)?.[1] ?? '';
  const cpus = parseCpuList(text);
  if (!cpus)
    throw new CpuSetError('CPU_SET_UNREADABLE', `process ${pid} has no usable list of CPUs: "${text.slice(0, 100)}"`);
  return cpus;
}

/** `0-3,8` in the kernel's form; undefined when it is none. */
export function parseCpuList(text: string): readonly number[] | undefined {
  const cpus: number[] = [];
  for (const part of text.split(',')) {
    const match = /^(\d{1,5})(?:-(\d{1,5}))?$/.exec(part);
    if (!match) return undefined;
    const first = Number(match[1]);
    const last = Number(match[2] ?? match[1]);
    if (last < first || cpus.length + last - first >= maxCpus) return undefined;
    for (let cpu = first; cpu <= last; cpu++) cpus.push(cpu);
  }
  return cpus;
}
