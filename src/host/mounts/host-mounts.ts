import path from 'node:path';
import { getSystemErrorName } from 'node:util';
import { errorCode, errorMessage } from '../../base/index.ts';
import { duplicateOf, openBelow, type SafePath } from '../safe-path.ts';
import type { OpenDescriptor } from '../threads/index.ts';
import { MountError } from './errors.ts';
import type { MountOrder, MountStep } from './thread.ts';
import { MountWorker, type MountWorkerOptions, openMountNamespace } from './worker.ts';

export interface BindOptions {
  readonly readOnly: boolean;
  /** The process below whose `/proc/<pid>/root` the source was opened; the host's own files unless given. */
  readonly sourcePid?: number;
}

/**
 * Mounts in the mount namespace of the machine, whichever namespace this process is in. Targets must have been opened there, by
 * `open`; whether something is mounted on one is told by `SafePath.isMountPoint` of its directory. All reject with MountError.
 */
export interface HostMounts {
  /** `relative` below a `trusted` directory of the machine, as by `openBelow`. */
  open(trusted: string, relative: string): SafePath;
  /** Once per call: what is mounted there already is covered. The source's own mounts do not come with it. */
  bind(source: SafePath, target: SafePath, options: BindOptions): Promise<void>;
  /** Makes what is mounted there read-only. */
  protect(target: SafePath): Promise<void>;
  /** What is in use stays so until it is closed. NOT_MOUNTED when nothing is mounted there. */
  unmount(target: SafePath): Promise<void>;
  /**
   * An entry that the machine has nothing mounted on; a directory with files is left. Where a mount namespace, this process's own for
   * example, still has a copy of what was mounted there, the copy goes, too: unlink(2) refuses that to a process in that namespace.
   */
  remove(directory: SafePath, name: string): Promise<void>;
  /** A later call works, too. */
  stop(): Promise<void>;
}

export interface HostMountsOptions extends MountWorkerOptions {
  /** A process in the machine's mount namespace. */
  readonly pid: number;
}

/** By open_tree(2), mount_setattr(2) and move_mount(2) in a thread of this process: no process is started, no path looked up twice. */
export class KernelMounts implements HostMounts {
  readonly #pid: number;
  readonly #worker: MountWorker;

  constructor(options: HostMountsOptions) {
    this.#pid = options.pid;
    this.#worker = new MountWorker(options);
  }

  open(trusted: string, relative: string): SafePath {
    try {
      return openBelow(`/proc/${this.#pid}/root`, trusted, relative);
    } catch (cause) {
      if (errorCode(cause) !== 'EACCES' && errorCode(cause) !== 'EPERM') throw cause;
      const problem = `${relative} in ${trusted} of the machine cannot be opened (${errorMessage(cause)}): ${rights}`;
      throw new MountError('NO_RIGHTS', problem, { cause });
    }
  }

  async bind(source: SafePath, target: SafePath, { readOnly, sourcePid }: BindOptions): Promise<void> {
    await this.#call(target, (open) => ({
      kind: 'bind',
      sourceNamespace: open(() => openNamespace(sourcePid ?? this.#pid)),
      source: open(() => duplicateOf(source)),
      ...this.#opened(target, open),
      readOnly,
    }));
  }

  async protect(target: SafePath): Promise<void> {
    await this.#call(target, (open) => ({ kind: 'protect', ...this.#opened(target, open) }));
  }

  async unmount(target: SafePath): Promise<void> {
    await this.#call(target, (open) => ({ kind: 'unmount', ...this.#opened(target, open) }));
  }

  async remove(directory: SafePath, name: string): Promise<void> {
    const entry = directory.entry(name);
    try {
      const isDirectory = entry.stat().isDirectory();
      await this.#call(entry, (open) => ({
        kind: 'remove',
        namespace: open(() => openNamespace(this.#pid)),
        directory: open(() => duplicateOf(directory)),
        name,
        isDirectory,
      }));
    } finally {
      entry.close();
    }
  }

  stop(): Promise<void> {
    return this.#worker.stop();
  }

  #opened(target: SafePath, open: OpenDescriptor) {
    return { namespace: open(() => openNamespace(this.#pid)), target: open(() => duplicateOf(target)) };
  }

  async #call(target: SafePath, make: (open: OpenDescriptor) => MountOrder): Promise<void> {
    // A pod's volumes are in one directory: what holds the mounts of one pod costs that pod.
    const { refused, failed } = await this.#worker.call(make, path.dirname(target.shown), target.shown);
    if (refused?.step === 'compare') {
      throw new MountError('OTHER_KIND', `nothing is mounted on ${target.shown}: it or its source is a directory`);
    }
    if (refused) throw refusal(refused.step, refused.errno, target.shown);
    if (failed !== undefined) throw new MountError('THREAD_ENDED', `mounting is not possible here: ${failed}`);
  }
}

function openNamespace(pid: number): number {
  try {
    return openMountNamespace(pid);
  } catch (cause) {
    if (errorCode(cause) === 'ENOENT' || errorCode(cause) === 'ESRCH') {
      throw new MountError('NAMESPACE_GONE', `process ${pid}, whose mount namespace is needed, has ended`, { cause });
    }
    const problem = `the mount namespace of process ${pid} cannot be opened (${errorMessage(cause)}): ${rights}`;
    throw new MountError('NO_RIGHTS', problem, { cause });
  }
}

const rights =
  'run this program as root in the host pid namespace, with CAP_SYS_ADMIN, CAP_SYS_CHROOT and CAP_SYS_PTRACE';

function refusal(step: MountStep, errno: number, shown: string): MountError {
  const name = getSystemErrorName(-errno);
  const told = `${shown}: ${step}: ${name}`;
  switch (name) {
    case 'ENOSYS':
      return new MountError('KERNEL_TOO_OLD', `${told}: mounting needs Linux 5.12 or later`);
    case 'EPERM':
    case 'EACCES':
      return new MountError('NO_RIGHTS', `${told}: ${rights}`);
    case 'EINVAL':
      return invalid(step, told);
    default:
      return new MountError('REFUSED', `${told}: the kernel refuses it`);
  }
}

function invalid(step: MountStep, told: string): MountError {
  if (step === 'detach') return new MountError('NOT_MOUNTED', `${told}: nothing is mounted there`);
  if (step === 'unshare' || step === 'enter')
    return new MountError('REFUSED', `${told}: the namespace cannot be entered`);
  const which = step === 'clone' ? 'the source' : 'the target';
  return new MountError('NOT_IN_NAMESPACE', `${told}: ${which} is not of this mount namespace, or was unmounted`);
}
