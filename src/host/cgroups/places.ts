import { readFileSync } from 'node:fs';
import path from 'node:path';
import { errorCode } from '../../base/index.ts';
import { CgroupError } from './errors.ts';

/** Directories of one cgroup that decide about devices. With both kinds mounted, each must allow a device. */
export interface DeviceCgroup {
  /** Of version 1, with `devices.allow` in it. */
  readonly v1?: string;
  /** Of version 2; beside the container's own one that of its runtime, where that one filters, too (crun). */
  readonly v2: readonly string[];
}

export interface CgroupOptions {
  readonly procDir: string;
  /** The machine's root directory, as this process sees it. */
  readonly hostRoot: string;
  /** A process that sees the machine's mounts. */
  readonly hostPid: number;
}

/** The agent's own subgroup for threads of the emulator, by upstream's name (pkg/hypervisor/kvm/runtime.go). */
export const housekeepingName = 'housekeeping';

/**
 * The cgroup of a container's process. A part in which this program is, too, is no container's and is left out: its rules are the
 * machine's, as where launchers are processes without containers. Throws CgroupError CGROUP_GONE, or CGROUP_UNREACHABLE.
 * Upstream asks which kind of file system is at /sys/fs/cgroup (pkg/virt-handler/cgroup); the kernel's own lists also say it where
 * both kinds are mounted.
 */
export function deviceCgroupOf(pid: number, { procDir, hostRoot, hostPid }: CgroupOptions): DeviceCgroup {
  const given = parseCgroups(readOfProcess(`${procDir}/${pid}/cgroup`));
  const own = parseCgroups(readOfProcess(`${procDir}/self/cgroup`));
  if (given.devices === undefined && given.unified === undefined) {
    throw new CgroupError('CGROUP_UNREACHABLE', `process ${pid} is in no cgroup that decides about devices`);
  }
  const mounts = parseCgroupMounts(readOfProcess(`${procDir}/${hostPid}/mountinfo`));
  const directoryOf = (kind: 'devices' | 'unified') => {
    const place = given[kind];
    if (place === undefined || isAround(place, own[kind])) return undefined;
    return below(mounts[kind], place, hostRoot);
  };
  const v1 = directoryOf('devices');
  const unified = directoryOf('unified');
  return { ...(v1 !== undefined && { v1 }), v2: unified === undefined ? [] : [unified, ...scopeOf(unified)] };
}

/** A part in which this program is, too. */
export function isAround(place: string, own: string | undefined): boolean {
  if (place === '/' || place === own) return true;
  return own?.startsWith(`${place}/`) ?? false;
}

/** For a time crun filters in the scope around its `container`, too. */
function scopeOf(directory: string): string[] {
  const scope = path.dirname(directory);
  return path.basename(directory) === 'container' && scope.endsWith('.scope') ? [scope] : [];
}

/** Of proc_pid_cgroup(5): the paths in the hierarchy of devices, and in that of version 2. */
export function parseCgroups(text: string): { readonly devices?: string; readonly unified?: string } {
  const devices = cgroupPathOf(text, 'devices');
  const unified = cgroupPathOf(text, 'unified');
  return { ...(devices !== undefined && { devices }), ...(unified !== undefined && { unified }) };
}

/**
 * Of proc_pid_cgroup(5): the path in the hierarchy of a controller of version 1, or in that of version 2. A thread may be in the agent's
 * subgroup; what is meant is always the container.
 */
export function cgroupPathOf(text: string, hierarchy: string): string | undefined {
  const isMeant = (id: string, controllers: string) =>
    hierarchy === 'unified' ? id === '0' && controllers === '' : controllers.split(',').includes(hierarchy);
  const line = text
    .split('\n')
    .map((each) => each.split(':'))
    .find(([id = '', controllers = '']) => isMeant(id, controllers));
  if (!line || line.length < 3) return undefined;
  const found = line.slice(2).join(':');
  return path.basename(found) === housekeepingName ? path.dirname(found) : found;
}

export interface CgroupMount {
  readonly root: string;
  readonly place: string;
}

/** Of proc_pid_mountinfo(5). */
export function parseCgroupMounts(text: string): { readonly devices?: CgroupMount; readonly unified?: CgroupMount } {
  const devices = cgroupMountOf(text, 'devices');
  const unified = cgroupMountOf(text, 'unified');
  return { ...(devices && { devices }), ...(unified && { unified }) };
}

/** The first mount of a controller of version 1, or of version 2. */
export function cgroupMountOf(text: string, hierarchy: string): CgroupMount | undefined {
  for (const line of text.split('\n')) {
    const [before = '', after = ''] = line.split(' - ');
    const [, , , root = '', place = ''] = before.split(' ');
    const [kind, , options = ''] = after.split(' ');
    const isMeant =
      hierarchy === 'unified' ? kind === 'cgroup2' : kind === 'cgroup' && options.split(',').includes(hierarchy);
    if (isMeant) return { root, place };
  }
  return undefined;
}

/** A part of the hierarchy may be mounted; a path that leads out of what this process sees of it is reached by nobody. */
export function below(mount: CgroupMount | undefined, given: string, hostRoot: string): string {
  if (!mount) {
    const problem =
      "the machine's cgroups cannot be reached: mount the host's /sys/fs/cgroup, and share its process ids";
    throw new CgroupError('CGROUP_UNREACHABLE', problem);
  }
  const relative = path.posix.relative(mount.root, given);
  const isOutside = [given, mount.root, relative].some((each) => each.split('/').includes('..'));
  if (!isOutside) return path.join(hostRoot, mount.place, relative);
  const problem =
    'this agent sees cgroups in a namespace of its own: run it privileged, or with the cgroup namespace of the node';
  throw new CgroupError('CGROUP_UNREACHABLE', problem);
}

export function readOfProcess(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch (cause) {
    const isGone = errorCode(cause) === 'ENOENT' || errorCode(cause) === 'ESRCH';
    throw new CgroupError(isGone ? 'CGROUP_GONE' : 'CGROUP_UNREACHABLE', `${file} cannot be read`, { cause });
  }
}
