import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { errorCode, errorMessage } from '../../base/index.ts';
import { CgroupError } from './errors.ts';
import {
  below,
  type CgroupOptions,
  cgroupMountOf,
  cgroupPathOf,
  housekeepingName,
  isAround,
  readOfProcess,
} from './places.ts';

/** The cgroup that decides on which CPUs the threads of one container run. */
export interface CpusetCgroup {
  readonly version: 1 | 2;
  readonly directory: string;
}

export interface Housekeeping {
  /** As the kernel lists CPUs: `3`, `2,4-6`. */
  readonly cpus: string;
  /** These threads stay in the container's own cgroup. */
  readonly isApart: (tid: number) => boolean;
}

const cpuList = /^\d{1,5}(?:-\d{1,5})?(?:,\d{1,5}(?:-\d{1,5})?){0,1000}$/;
/** Threads that are started meanwhile are met by the next round. */
const maxRounds = 5;

/**
 * Of a container's process. Undefined where it has none of its own: what would be moved there are threads of the machine. Where both
 * versions are mounted, a controller that version 1 has is not in version 2. Throws CgroupError CGROUP_GONE, or CGROUP_UNREACHABLE.
 */
export function cpusetCgroupOf(pid: number, { procDir, hostRoot, hostPid }: CgroupOptions): CpusetCgroup | undefined {
  const mounts = readOfProcess(`${procDir}/${hostPid}/mountinfo`);
  const first = cgroupMountOf(mounts, 'cpuset');
  const mount = first ?? cgroupMountOf(mounts, 'unified');
  const hierarchy = first ? 'cpuset' : 'unified';
  if (!mount) {
    const problem = "no cgroup file system with cpusets is mounted: mount the host's /sys/fs/cgroup";
    throw new CgroupError('CGROUP_UNREACHABLE', problem);
  }
  const given = cgroupPathOf(readOfProcess(`${procDir}/${pid}/cgroup`), hierarchy);
  const own = cgroupPathOf(readOfProcess(`${procDir}/self/cgroup`), hierarchy);
  if (given === undefined || isAround(given, own)) return undefined;
  return { version: first ? 1 : 2, directory: below(mount, given, hostRoot) };
}

/**
 * Puts all threads of a container into a subgroup with CPUs of its own, but those that are apart: a guest's vCPUs keep theirs for
 * themselves. A thread that is apart and was started by one in the subgroup comes back. Returns how many were moved. Throws
 * CgroupError.
 */
export function keepHouse(cgroup: CpusetCgroup, { cpus, isApart }: Housekeeping): number {
  if (!cpuList.test(cpus)) {
    throw new CgroupError('CPUS_REFUSED', `${JSON.stringify(cpus.slice(0, 100))} is no list of CPUs`);
  }
  const child = path.join(cgroup.directory, housekeepingName);
  const threads = cgroup.version === 1 ? 'tasks' : 'cgroup.threads';
  try {
    makeChild(cgroup, child);
    writeIfOther(path.join(child, 'cpuset.cpus'), cpus);
    const returned = moveAll(path.join(child, threads), path.join(cgroup.directory, threads), isApart);
    return returned + moveAll(path.join(cgroup.directory, threads), path.join(child, threads), (tid) => !isApart(tid));
  } catch (cause) {
    throw cgroupError(cgroup.directory, cause);
  }
}

/** Each step looks what is there: the process may have ended between any two of an earlier try. */
function makeChild({ version, directory }: CpusetCgroup, child: string): void {
  if (version === 2) {
    const control = path.join(directory, 'cgroup.subtree_control');
    if (!readFileSync(control, 'utf8').split(/\s/).includes('cpuset')) writeFileSync(control, '+cpuset');
    mkdirSync(child, { recursive: true, mode: 0o755 });
    writeIfOther(path.join(child, 'cgroup.type'), 'threaded');
    return;
  }
  mkdirSync(child, { recursive: true, mode: 0o755 });
  // A new cpuset of version 1 has neither memory nor CPUs, and takes no thread without.
  for (const name of ['cpuset.mems', 'cpuset.cpus']) {
    const file = path.join(child, name);
    if (readFileSync(file, 'utf8').trim() === '')
      writeFileSync(file, readFileSync(path.join(directory, name), 'utf8').trim());
  }
}

function writeIfOther(file: string, text: string): void {
  if (readFileSync(file, 'utf8').trim() !== text) writeFileSync(file, text);
}

function moveAll(from: string, to: string, isMeant: (tid: number) => boolean): number {
  let moved = 0;
  for (let round = 0; round < maxRounds; round++) {
    const listed = readFileSync(from, 'utf8').split('\n').map(Number);
    const threads = listed.filter((tid) => tid > 0 && isMeant(tid));
    if (threads.length === 0) break;
    for (const tid of threads) if (move(tid, to)) moved++;
  }
  return moved;
}

/** False for a thread that has ended meanwhile. */
function move(tid: number, to: string): boolean {
  try {
    writeFileSync(to, String(tid));
    return true;
  } catch (error) {
    if (errorCode(error) === 'ESRCH') return false;
    throw error;
  }
}

function cgroupError(directory: string, cause: unknown): CgroupError {
  if (cause instanceof CgroupError) return cause;
  const code = errorCode(cause) ?? '';
  if (code === 'ENOENT' || code === 'ENODEV') {
    return new CgroupError('CGROUP_GONE', `the cgroup ${directory} is gone`, { cause });
  }
  const advice = code === 'EPERM' || code === 'EACCES' || code === 'EROFS' ? ': run the node agent privileged' : '';
  const problem = `threads of ${directory} cannot be given CPUs of their own: ${errorMessage(cause)}${advice}`;
  return new CgroupError('CPUS_REFUSED', problem, { cause });
}
