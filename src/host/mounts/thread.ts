import type { fstatSync } from 'node:fs';
import type { MessagePort } from 'node:worker_threads';
import type { ThreadData } from '../threads/index.ts';

/** Numbers of descriptors of this process; namespaces as descriptors, too. */
export type MountOrder =
  | {
      readonly kind: 'bind';
      readonly sourceNamespace: number;
      readonly source: number;
      readonly namespace: number;
      readonly target: number;
      readonly readOnly: boolean;
    }
  | { readonly kind: 'protect' | 'unmount'; readonly namespace: number; readonly target: number }
  | {
      readonly kind: 'remove';
      readonly namespace: number;
      readonly directory: number;
      readonly name: string;
      readonly isDirectory: boolean;
    };

export type MountStep = 'compare' | 'unshare' | 'enter' | 'clone' | 'restrict' | 'attach' | 'detach' | 'remove';

export interface MountAnswer {
  /** What the kernel refused, and its error number; `compare`: a directory and a file. */
  readonly refused?: { readonly step: MountStep; readonly errno: number };
  /** No refusal of the kernel: the native library, say. */
  readonly failed?: string;
}

/** Besides what every thread is given. */
export interface MountThreadData {
  /** This process's own list of descriptors, as a directory. */
  readonly ownDescriptors: number;
}

interface NativeLibrary {
  load(name: null): { func(prototype: string): (...values: unknown[]) => number | bigint };
  errno(): number;
}

/**
 * The program of the thread that mounts: it alone has another file-system context than the rest of the process, which unshare(2)
 * cannot take back. Its text is what runs, so it uses nothing from outside of itself. The numbers are those of the kernel
 * headers; system calls from 424 on have one number on all architectures that Node.js runs on.
 */
export function mountThread(
  koffi: NativeLibrary,
  files: { readonly fstatSync: typeof fstatSync },
  port: MessagePort,
  { ownDescriptors, abandoned }: MountThreadData & ThreadData,
): void {
  const library = koffi.load(null);
  const unshare = library.func('int unshare(int flags)');
  const setns = library.func('int setns(int fd, int type)');
  const fchdir = library.func('int fchdir(int fd)');
  const umount2 = library.func('int umount2(const char *path, int flags)');
  const unlinkat = library.func('int unlinkat(int fd, const char *name, int flags)');
  const close = library.func('int close(int fd)');
  const syscall = library.func('long syscall(long number, ...)');
  const [openTree, moveMount, mountSetattr] = [428, 429, 442];
  const [emptyPath, cloneTree, closeOnExec, fromAndToOpened, readOnly] = [0x1000, 1, 0o2000000, 0x44, 1n] as const;
  const [cloneFs, cloneNewNs, detachLazily, removeDirectory] = [0x200, 0x20000, 2, 0x200];
  const [isGone, isNotEmpty] = [2, 39];
  let isOnItsOwn = false;

  const refusal = (step: MountStep, errno: number) => Object.assign(new Error(step), { refused: { step, errno } });
  const tried = (step: MountStep, result: number | bigint): number => {
    if (result < 0) throw refusal(step, koffi.errno());
    return Number(result);
  };
  let current = 0;
  const enter = (namespace: number) => {
    // Its caller was told that it failed, and may be at something else by now.
    if (Atomics.load(abandoned, 0) === current) throw new Error('it was given up meanwhile');
    if (!isOnItsOwn) tried('unshare', unshare(cloneFs));
    isOnItsOwn = true;
    tried('enter', setns(namespace, cloneNewNs));
  };
  const protect = (opened: number) => {
    // struct mount_attr: flags to set and to clear, propagation, user namespace.
    const attributes = Buffer.from(new BigUint64Array([readOnly, 0n, 0n, 0n]).buffer);
    const path = ['int', opened, 'str', '', 'uint', emptyPath];
    tried('restrict', syscall(mountSetattr, ...path, 'void *', attributes, 'size_t', attributes.length));
  };
  const attach = (tree: number, target: number) => {
    const paths = ['int', tree, 'str', '', 'int', target, 'str', ''];
    tried('attach', syscall(moveMount, ...paths, 'uint', fromAndToOpened));
  };
  const isDirectory = (opened: number) => files.fstatSync(opened).isDirectory();
  const bind = (order: MountOrder & { kind: 'bind' }) => {
    // Of a file system that may not answer.
    if (isDirectory(order.source) !== isDirectory(order.target)) throw refusal('compare', 0);
    enter(order.sourceNamespace);
    const flags = emptyPath | cloneTree | closeOnExec;
    const tree = tried('clone', syscall(openTree, 'int', order.source, 'str', '', 'uint', flags));
    try {
      // Before anyone can reach it: a mount that is restricted later was writable for a moment.
      if (order.readOnly) protect(tree);
      enter(order.namespace);
      attach(tree, order.target);
    } finally {
      close(tree);
    }
  };
  const unmount = (order: { readonly namespace: number; readonly target: number }) => {
    enter(order.namespace);
    // By a name in this process's own list of descriptors: the namespace's /proc may be another one, or none.
    tried('detach', fchdir(ownDescriptors));
    tried('detach', umount2(String(order.target), detachLazily));
  };
  const remove = ({ namespace, directory, name, isDirectory }: MountOrder & { kind: 'remove' }) => {
    enter(namespace);
    if (unlinkat(directory, name, isDirectory ? removeDirectory : 0) === 0) return;
    const errno = koffi.errno();
    if (errno !== isGone && errno !== isNotEmpty) throw refusal('remove', errno);
  };
  const obey = (order: MountOrder) => {
    if (order.kind === 'bind') return bind(order);
    if (order.kind === 'unmount') return unmount(order);
    if (order.kind === 'remove') return remove(order);
    enter(order.namespace);
    return protect(order.target);
  };
  port.on('message', ({ id, order }: { id: number; order: MountOrder }) => {
    current = id;
    try {
      obey(order);
      port.postMessage({});
    } catch (error) {
      const refused = (error as { refused?: MountAnswer['refused'] }).refused;
      port.postMessage(refused ? { refused } : { failed: String(error) });
    }
  });
}
