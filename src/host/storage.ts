import fs, { constants } from 'node:fs';
import type { MessagePort } from 'node:worker_threads';
import { CodedError } from '../base/index.ts';
import { checkedName, duplicateOf, SafePath, SafePathError } from './safe-path.ts';
import { ThreadError, ThreadPool, type ThreadPoolOptions } from './threads/index.ts';

/** What a file is; inode numbers may have more digits than a number. */
export interface StoredFile {
  readonly dev: bigint;
  readonly ino: bigint;
  readonly mode: bigint;
}

/** On whose behalf storage is asked: a VMI whose volumes do not answer costs no other. */
export interface StorageUser {
  readonly owner: string;
  /** For words: `volume data of VMI 1234`. */
  readonly what: string;
}

/** STORAGE_SILENT: the file system does not answer, as when its server is gone. It may the next time. */
export class StorageError extends CodedError<'STORAGE_SILENT'> {}

type Order =
  | { readonly kind: 'child'; readonly opened: number; readonly name: string }
  | { readonly kind: 'stat'; readonly opened: number }
  | { readonly kind: 'answers'; readonly opened: number }
  | { readonly kind: 'own'; readonly opened: number; readonly uid: number; readonly gid: number };

type Answer =
  | { readonly kind: 'done'; readonly file?: StoredFile; readonly descriptor?: number }
  | { readonly kind: 'failed'; readonly code: string; readonly message: string };

/** Linux' O_PATH, as in `SafePath`. */
const pathOnly = 0o10000000;

/** Its text is what runs, so it uses nothing from outside of itself. What is opened is asked for all: late, it is closed again. */
function storageThread(files: typeof fs, port: MessagePort, flags: number): void {
  const factsOf = (opened: number) => {
    const { dev, ino, mode } = files.fstatSync(opened, { bigint: true });
    return { dev, ino, mode };
  };
  const open = (at: string) => {
    const descriptor = files.openSync(at, flags);
    try {
      return { descriptor, file: factsOf(descriptor) };
    } catch (error) {
      files.closeSync(descriptor);
      throw error;
    }
  };
  const obey = (order: Order) => {
    const at = `/proc/self/fd/${order.opened}`;
    if (order.kind === 'child') return open(`${at}/${order.name}`);
    if (order.kind === 'stat') return { file: factsOf(order.opened) };
    if (order.kind === 'answers') files.statfsSync(at);
    else {
      const { uid, gid } = files.fstatSync(order.opened);
      if (uid !== order.uid || gid !== order.gid) files.chownSync(at, order.uid, order.gid);
    }
    return {};
  };
  port.on('message', ({ order }: { order: Order }) => {
    try {
      port.postMessage({ kind: 'done', ...obey(order) });
    } catch (error) {
      const { code, message } = error as NodeJS.ErrnoException;
      port.postMessage({ kind: 'failed', code, message });
    }
  });
}

const program = `const { parentPort } = require('node:worker_threads');
(${storageThread.toString()})(require('node:fs'), parentPort, ${pathOnly | constants.O_NOFOLLOW});`;

/**
 * Files on storage that may not answer: a claim's server is gone, and a call of the kernel for it never comes back. Such calls are
 * made by threads of their own, for a few seconds each. To open a mounted directory or file by its name (`SafePath.directory`)
 * asks no server; its type, its entries and its owner do. All reject with StorageError, or the system's error.
 */
export class Storage {
  readonly #threads: ThreadPool<Order, Answer>;

  constructor(options: Partial<ThreadPoolOptions> = {}) {
    this.#threads = new ThreadPool({ deadlineMs: 3_000, ...options, does: 'looks at volumes', program });
  }

  /** Of what looks are held by now. */
  get held(): readonly string[] {
    return this.#threads.held;
  }

  /** As `SafePath.child`. */
  async child(directory: SafePath, name: string, user: StorageUser): Promise<SafePath> {
    const clean = checkedName(name);
    const { descriptor, file } = await this.#call(directory, user, (opened) => ({
      kind: 'child',
      opened,
      name: clean,
    }));
    if (descriptor === undefined || !file) throw new Error('a thread has opened nothing');
    const found = new SafePath(descriptor, `${directory.shown}/${name}`);
    if (!isSymbolicLink(file)) return found;
    found.close();
    throw new SafePathError('SYMLINK', `${found.shown} is a symbolic link`);
  }

  async stat(opened: SafePath, user: StorageUser): Promise<StoredFile> {
    const { file } = await this.#call(opened, user, (descriptor) => ({ kind: 'stat', opened: descriptor }));
    if (!file) throw new Error('a thread has looked at nothing');
    return file;
  }

  /** Unless it is its owner already. */
  async setOwner(opened: SafePath, owner: { uid: number; gid: number }, user: StorageUser): Promise<void> {
    await this.#call(opened, user, (descriptor) => ({ kind: 'own', opened: descriptor, ...owner }));
  }

  /** Resolves when the file system answers at all, which is asked of its server and not of a cache. */
  async answers(opened: SafePath, user: StorageUser): Promise<void> {
    await this.#call(opened, user, (descriptor) => ({ kind: 'answers', opened: descriptor }));
  }

  stop(): Promise<void> {
    return this.#threads.stop();
  }

  async #call(opened: SafePath, { owner, what }: StorageUser, make: (opened: number) => Order) {
    // Opened again at once: its owner may close it before a thread is free.
    let own: number | undefined = duplicateOf(opened);
    try {
      const answer = await this.#threads.call({
        owner,
        about: what,
        make: (open) => {
          const descriptor = open(() => own ?? -1);
          own = undefined;
          return make(descriptor);
        },
        discard: closeOf,
      });
      if (answer.kind === 'done') return answer;
      throw Object.assign(new Error(answer.message), { code: answer.code });
    } catch (cause) {
      throw this.#silent(what, cause);
    } finally {
      if (own !== undefined) fs.closeSync(own);
    }
  }

  /** Always in the same words, so that it is one event and one line of the log. */
  #silent(what: string, cause: unknown): unknown {
    if (!(cause instanceof ThreadError) || cause.code === 'THREAD_ENDED') return cause;
    const isItself = cause.code === 'THREAD_LATE' || this.#threads.held.includes(what);
    const problem = isItself ? `the storage of ${what} does not answer` : `${what} is not looked at: ${cause.message}`;
    const advice = 'check the server that its claim is on; it goes on without a restart when that answers';
    return new StorageError('STORAGE_SILENT', `${problem}: ${advice}`, { cause });
  }
}

function closeOf(answer: Answer): void {
  if (answer.kind === 'done' && answer.descriptor !== undefined) fs.closeSync(answer.descriptor);
}

const typeBits = BigInt(constants.S_IFMT);

function isSymbolicLink({ mode }: StoredFile): boolean {
  return (mode & typeBits) === BigInt(constants.S_IFLNK);
}

export function isPlainFile({ mode }: StoredFile): boolean {
  return (mode & typeBits) === BigInt(constants.S_IFREG);
}

export function isSameFile(one: StoredFile, other: StoredFile): boolean {
  return one.dev === other.dev && one.ino === other.ino;
}
