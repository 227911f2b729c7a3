import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { errorCode, errorMessage } from '../../base/index.ts';
import { CgroupError } from './errors.ts';
import type { CgroupOptions } from './places.ts';

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

/** Upstream's name (pkg/hypervisor/kvm/runtime.go). */
const childName = 'housekeeping';
const cpuList = /^\d{1,5}(?:-\d{1,5})?(?:,\d{1,5}(?:-\d{1,5})?){0,1000}$/;
/** Threads that are started meanwhile are met by the next round. */
const maxRounds = 5;

/**
 * Of a container's process. Undefined where it has none of its own: what would be moved there are threads of the machine. Throws
 * CgroupError CGROUP_GONE, or CGROUP_UNREACHABLE.
 */
export function cpusetCgroupOf(pid: number, { procDir, hostRoot, hostPid }: CgroupOptions): CpusetCgroup | undefined {
  const mount = cpusetMount(read(`${procDir}/${hostPid}/mountinfo`));
  if (!mount) {
    const problem = "no cgroup file system with cpusets is mounted: mount the host's /sys/fs/cgroup";
    throw new CgroupError('CGROUP_UNREACHABLE', problem);
  }
  const given = cpusetPath(read(`${procDir}/${pid}/cgroup`), mount.version);
  const own = cpusetPath(read(`${procDir}/self/cgroup`), mount.version);
  if (given === undefined) return undefined;
  const isShared = given === '/' || given === own || own?.startsWith(`${given}/`) === true;
  if (isShared) return undefined;
  const relative = path.posix.relative(mount.root, given);
  if (![given, mount.root, relative].some((each) => each.split('/').includes('..'))) {
    return { version: mount.version, directory: path.join(hostRoot, mount.directory, relative) };
  }
  const problem = 'this agent sees cgroups in a namespace of its own: run it with the cgroup namespace of the node';
  throw new CgroupError('CGROUP_UNREACHABLE', problem);
}

interface CpusetMount {
  readonly version: 1 | 2;
  readonly root: string;
  readonly directory: string;
}

/** Of proc_pid_mountinfo(5). Where both versions are mounted, a controller that version 1 has is not in version 2. */
function cpusetMount(text: string): CpusetMount | undefined {
  let unified: CpusetMount | undefined;
  for (const line of text.split('\n')) {
    const [before = '', after = ''] = line.split(' - ');
    const [, , , root = '', directory = ''] = before.split(' ');
    const [kind, , options = ''] = after.split(' ');
    if (kind === 'cgroup' && options.split(',').includes('cpuset')) return { version: 1, root, directory };
    if (kind === 'cgroup2') unified ??= { version: 2, root, directory };
  }
  return unified;
}

/** Of proc_pid_cgroup(5). A thread of the launcher may be in the subgroup already; the container's is meant. */
function cpusetPath(text: string, version: 1 | 2): string | undefined {
  for (const line of text.split('\n')) {
    const [id, controllers = '', ...rest] = line.split(':');
    const isMeant = version === 1 ? controllers.split(',').includes('cpuset') : id === '0' && controllers === '';
    const found = rest.join(':');
    if (isMeant) return path.basename(found) === childName ? path.dirname(found) : found;
  }
  return undefined;
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
  const child = path.join(cgroup.directory, childName);
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

function read(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch (cause) {
    const isGone = errorCode(cause) === 'ENOENT' || errorCode(cause) === 'ESRCH';
    throw new CgroupError(isGone ? 'CGROUP_GONE' : 'CGROUP_UNREACHABLE', `${file} cannot be read`, { cause });
  }
}
