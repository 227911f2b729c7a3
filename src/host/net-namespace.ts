import { closeSync, constants, fstatSync, openSync, statSync } from 'node:fs';
import { stat } from 'node:fs/promises';
import util from 'node:util';
import { CodedError, errorCode, errorMessage } from '../base/index.ts';
import { type ProcessId, processStartTime } from './peer.ts';

type NetNamespaceErrorCode =
  /** The path leads to something else. */
  | 'NO_NAMESPACE'
  /** The process whose namespace was asked for has ended; its pid may be another one's by now. */
  | 'ENDED'
  | 'NOT_ALLOWED'
  /** Work that goes on after it has returned: it would do so in another namespace. */
  | 'NOT_SYNCHRONOUS';

class NetNamespaceError extends CodedError<NetNamespaceErrorCode> {}

/** CLONE_NEWNET, see setns(2). */
const newNet = 0x40000000;

/** Of the calling thread: another thread may be elsewhere. */
const ownFile = '/proc/thread-self/ns/net';

type SetNs = (fd: number, kind: number) => number;

export interface NetNamespaceOptions {
  readonly procDir?: string;
}

/** A process; with its start time, that one and no later one with its pid. */
export type NamespaceOwner = Pick<ProcessId, 'pid'> & Partial<ProcessId>;

/**
 * A network namespace, held open: it lasts as long as this object, whatever becomes of the processes in it. The thread of
 * JavaScript is moved into it for synchronous work alone, so nothing else of this program ever runs there; sockets, devices and
 * files of /proc/sys/net that are opened meanwhile belong to it, and so do programs that are started. Who gets one closes it.
 */
export class NetNamespace {
  readonly #setNs: SetNs;
  #fd: number | undefined;

  private constructor(fd: number, setNs: SetNs) {
    this.#fd = fd;
    this.#setNs = setNs;
  }

  /** Rejects with NetNamespaceError, or with the system's error. */
  static async ofProcess(
    owner: NamespaceOwner,
    { procDir = '/proc' }: NetNamespaceOptions = {},
  ): Promise<NetNamespace> {
    const namespace = await NetNamespace.at(`${procDir}/${owner.pid}/ns/net`);
    // It ran after the namespace was opened, so it had its pid before, too.
    if (owner.startTime === undefined || processStartTime(owner.pid) === owner.startTime) return namespace;
    namespace.close();
    throw new NetNamespaceError('ENDED', `process ${owner.pid} has ended, and its pid is another one's by now`);
  }

  /** By a trusted path, as of `ip netns`. Rejects as `ofProcess`. */
  static async at(file: string): Promise<NetNamespace> {
    const setNs = await loadSetNs();
    const fd = openNamespace(file);
    try {
      if (fstatSync(fd).dev === statSync(ownFile).dev) return new NetNamespace(fd, setNs);
    } catch (error) {
      closeSync(fd);
      throw error;
    }
    closeSync(fd);
    throw new NetNamespaceError('NO_NAMESPACE', `${file} is no namespace`);
  }

  /** Tells namespaces apart while they exist; the kernel gives a number again to a later one. */
  get id(): string {
    const { dev, ino } = fstatSync(this.#opened, { bigint: true });
    return `${dev}:${ino}`;
  }

  /** This program's own, or the machine's: that of process 1, which may be guarded, and of the kernel's threads. */
  get isOfMachine(): boolean {
    return [ownFile, '/proc/self/ns/net', '/proc/1/ns/net', '/proc/2/ns/net'].some((file) => idOf(file) === this.id);
  }

  /**
   * Runs `work` in the namespace. The process is aborted should the way back fail: everything after it would be done to the wrong
   * network. Throws what `work` throws, or NetNamespaceError.
   */
  run<T>(work: () => T): T {
    const back = openSync(ownFile, constants.O_RDONLY);
    try {
      this.#enter();
      let result: T;
      try {
        result = work();
      } finally {
        if (this.#setNs(back, newNet) !== 0) process.abort();
      }
      if (util.types.isPromise(result)) {
        result.catch(() => undefined);
        throw new NetNamespaceError('NOT_SYNCHRONOUS', 'what is asynchronous would go on outside of the namespace');
      }
      return result;
    } finally {
      closeSync(back);
    }
  }

  /** Safe to call twice. */
  close(): void {
    if (this.#fd !== undefined) closeSync(this.#fd);
    this.#fd = undefined;
  }

  get #opened(): number {
    if (this.#fd === undefined) throw new Error('the namespace was closed');
    return this.#fd;
  }

  #enter(): void {
    const failure = this.#setNs(this.#opened, newNet);
    if (failure === 0) return;
    const name = util.getSystemErrorName(failure);
    if (name === 'EINVAL') throw new NetNamespaceError('NO_NAMESPACE', 'it is a namespace of another kind');
    const advice = 'it takes root with CAP_SYS_ADMIN';
    throw new NetNamespaceError('NOT_ALLOWED', `the network namespace cannot be entered (${name}): ${advice}`);
  }
}

function idOf(file: string): string | undefined {
  try {
    const { dev, ino } = statSync(file, { bigint: true });
    return `${dev}:${ino}`;
  } catch (error) {
    if (['EACCES', 'EPERM', 'ENOENT'].includes(errorCode(error) ?? '')) return undefined;
    throw error;
  }
}

function openNamespace(file: string): number {
  try {
    // A pipe in its place is not waited for.
    return openSync(file, constants.O_RDONLY | constants.O_NONBLOCK);
  } catch (cause) {
    const code = errorCode(cause);
    if (code === 'ENOENT' || code === 'ESRCH') throw new NetNamespaceError('ENDED', `there is no ${file}`, { cause });
    if (code !== 'EACCES' && code !== 'EPERM') throw cause;
    throw new NetNamespaceError('NOT_ALLOWED', `${file} cannot be opened: ${errorMessage(cause)}`, { cause });
  }
}

let setNs: Promise<SetNs> | undefined;

function loadSetNs(): Promise<SetNs> {
  setNs ??= import('koffi').then(async ({ default: koffi }) => {
    // Threads of Node.js' pool begin at the first such call, in the namespace of the caller, and would stay there.
    await stat('/');
    const call = koffi.load(null).func('int setns(int fd, int kind)') as SetNs;
    return (fd, kind) => (call(fd, kind) === 0 ? 0 : -koffi.errno());
  });
  return setNs;
}
