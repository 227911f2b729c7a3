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

/** The agent's own subgroup for threads of the emulator: what is meant is always the container. */
const housekeeping = 'housekeeping';

/**
 * The cgroup of a container's process. Throws CgroupError CGROUP_GONE, or CGROUP_UNREACHABLE.
 * Upstream asks which kind of file system is at /sys/fs/cgroup (pkg/virt-handler/cgroup); the kernel's own lists also say it where
 * both kinds are mounted.
 */
export function deviceCgroupOf(pid: number, { procDir, hostRoot, hostPid }: CgroupOptions): DeviceCgroup {
  const own = parseCgroups(read(`${procDir}/${pid}/cgroup`));
  const mounts = parseCgroupMounts(read(`${procDir}/${hostPid}/mountinfo`));
  const v1 = own.devices === undefined ? undefined : below(mounts.devices, own.devices, hostRoot);
  const unified = own.unified === undefined ? undefined : below(mounts.unified, own.unified, hostRoot);
  if (v1 === undefined && unified === undefined) {
    const problem = `process ${pid} has no cgroup that this agent can reach: mount the host's /sys/fs/cgroup`;
    throw new CgroupError('CGROUP_UNREACHABLE', problem);
  }
  return { ...(v1 !== undefined && { v1 }), v2: unified === undefined ? [] : [unified, ...scopeOf(unified)] };
}

/** For a time crun filters in the scope around its `container`, too. */
function scopeOf(directory: string): string[] {
  const scope = path.dirname(directory);
  return path.basename(directory) === 'container' && scope.endsWith('.scope') ? [scope] : [];
}

/** Of proc_pid_cgroup(5): the paths in the hierarchy of devices, and in that of version 2. */
export function parseCgroups(text: string): { readonly devices?: string; readonly unified?: string } {
  const lines = text.split('\n').map((line) => line.split(':'));
  const pathOf = (isMeant: (id: string, controllers: readonly string[]) => boolean) => {
    const line = lines.find(([id = '', controllers = '']) => isMeant(id, controllers.split(',')));
    return line && line.length >= 3 ? containerPath(line.slice(2).join(':')) : undefined;
  };
  const devices = pathOf((_id, controllers) => controllers.includes('devices'));
  const unified = pathOf((id, controllers) => id === '0' && controllers.join('') === '');
  return { ...(devices !== undefined && { devices }), ...(unified !== undefined && { unified }) };
}

function containerPath(given: string): string {
  return path.basename(given) === housekeeping ? path.dirname(given) : given;
}

interface CgroupMount {
  readonly root: string;
  readonly place: string;
}

/** Of proc_pid_mountinfo(5). */
export function parseCgroupMounts(text: string): { readonly devices?: CgroupMount; readonly unified?: CgroupMount } {
  const found: { devices?: CgroupMount; unified?: CgroupMount } = {};
  for (const line of text.split('\n')) {
    const [before = '', after = ''] = line.split(' - ');
    const [, , , root = '', place = ''] = before.split(' ');
    const [kind, , options = ''] = after.split(' ');
    if (kind === 'cgroup2') found.unified ??= { root, place };
    if (kind === 'cgroup' && options.split(',').includes('devices')) found.devices ??= { root, place };
  }
  return found;
}

/** A part of the hierarchy may be mounted; a path that leads out of what this process sees of it is reached by nobody. */
function below(mount: CgroupMount | undefined, given: string, hostRoot: string): string | undefined {
  if (!mount) return undefined;
  const relative = path.posix.relative(mount.root, given);
  const isOutside = [given, mount.root, relative].some((each) => each.split('/').includes('..'));
  if (!isOutside) return path.join(hostRoot, mount.place, relative);
  const problem =
    'this agent sees cgroups in a namespace of its own: run it privileged, or with the cgroup namespace of the node';
  throw new CgroupError('CGROUP_UNREACHABLE', problem);
}

function read(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch (cause) {
    const isGone = errorCode(cause) === 'ENOENT' || errorCode(cause) === 'ESRCH';
    throw new CgroupError(isGone ? 'CGROUP_GONE' : 'CGROUP_UNREACHABLE', `${file} cannot be read`, { cause });
  }
}
