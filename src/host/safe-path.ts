import {
  chmodSync,
  chownSync,
  closeSync,
  constants,
  fstatSync,
  linkSync,
  mkdirSync,
  opendirSync,
  openSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  renameSync,
  rmdirSync,
  type Stats,
  statfsSync,
  unlinkSync,
  watch,
  writeSync,
} from 'node:fs';
import { type FileHandle, open } from 'node:fs/promises';
import { CodedError, errorCode } from '../base/index.ts';
import { NewFile } from './new-file.ts';
import { lastBytes, readOpenedText } from './plain-file.ts';

/**
 * Paths below a pod belong to its tenant: every element is opened on its own, without following links, and what was
 * opened is used through its descriptor. No caller gets a path to it: a path is looked up again at each use, and means
 * what the tenant has put there by then. `test/unit/architecture` reads that no one makes one up.
 */

export type SafePathErrorCode =
  /** An element is a symbolic link. */
  | 'SYMLINK'
  /** Empty, `.` or `..` elements where none may be, a name with a slash, or a NUL byte. */
  | 'NOT_CLEAN'
  | 'TOO_MANY_ELEMENTS'
  /** A directory, a pipe, a device. */
  | 'NO_FILE';

export class SafePathError extends CodedError<SafePathErrorCode> {}

/** Linux' O_PATH: names a file without opening it. Node.js has no constant for it. */
const pathOnly = 0o10000000;
const maxElements = 256;
const createFlags =
  constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW | constants.O_NONBLOCK | constants.O_WRONLY;

let openedPath: (opened: SafePath) => string;
let entryPath: (directory: SafePath, name: string) => string;
let openedMount: (opened: SafePath) => string | undefined;

/** An opened file or directory. Who gets one closes it. */
export class SafePath {
  /** For messages only: never open it. */
  readonly shown: string;
  #fd: number | undefined;

  static {
    openedPath = (opened) => opened.#path;
    entryPath = (directory, name) => directory.#entryPath(name);
    openedMount = (opened) => mountIdOf(opened.#opened);
  }

  constructor(fd: number, shown: string) {
    this.#fd = fd;
    this.shown = shown;
  }

  get #opened(): number {
    if (this.#fd === undefined) throw new Error(`${this.shown} was closed`);
    return this.#fd;
  }

  /** A path for system calls without a form for descriptors; it names exactly what was opened. */
  get #path(): string {
    return `/proc/self/fd/${this.#opened}`;
  }

  /** An entry of this directory, as it is at that moment: only for calls that do not follow a link there. */
  #entryPath(name: string): string {
    return `${this.#path}/${checkedName(name)}`;
  }

  stat(): Stats {
    return fstatSync(this.#opened);
  }

  /** Distinguishes files; inode numbers may have more digits than a number. */
  identity(): { readonly dev: bigint; readonly ino: bigint } {
    return fstatSync(this.#opened, { bigint: true });
  }

  /** Opens one entry of this directory; a link is refused with SYMLINK. What it is is not touched: no pipe waits for its other end. */
  child(name: string): SafePath {
    const entry = this.entry(name);
    if (entry.stat().isSymbolicLink()) {
      entry.close();
      throw new SafePathError('SYMLINK', `${entry.shown} is a symbolic link`);
    }
    return entry;
  }

  /** Opens a directory in this one. As `child`, but the kernel itself refuses what is none: half the calls. */
  directory(name: string): SafePath {
    const flags = pathOnly | constants.O_NOFOLLOW | constants.O_DIRECTORY;
    try {
      return new SafePath(openSync(this.#entryPath(name), flags), `${this.shown}/${name}`);
    } catch (error) {
      // A link is no directory either; `child` says which it is.
      if (errorCode(error) === 'ENOTDIR') this.child(name).close();
      throw error;
    }
  }

  /** Like `child`, but a link is opened itself. */
  entry(name: string): SafePath {
    const fd = openSync(this.#entryPath(name), pathOnly | constants.O_NOFOLLOW);
    return new SafePath(fd, `${this.shown}/${name}`);
  }

  /** Something is mounted on this entry, in the mount namespace that this directory was opened in. False when there is none. */
  isMountPoint(name: string): boolean {
    let found: SafePath;
    try {
      found = this.entry(name);
    } catch (error) {
      if (errorCode(error) === 'ENOENT') return false;
      throw error;
    }
    try {
      return openedMount(found) !== openedMount(this);
    } finally {
      found.close();
    }
  }

  /** Both are of one mount, not only of one file system. */
  isOnMountOf(other: SafePath): boolean {
    return openedMount(this) === openedMount(other);
  }

  /** Names in this directory. */
  names(): string[] {
    return readdirSync(this.#path);
  }

  /** As `names`, but no more than `max`: a tenant makes millions of them. */
  someNames(max: number): string[] {
    const directory = opendirSync(this.#path);
    try {
      const names: string[] = [];
      while (names.length < max) {
        const entry = directory.readSync();
        if (!entry) break;
        names.push(entry.name);
      }
      return names;
    } finally {
      directory.closeSync();
    }
  }

  /** What a link in this directory says; undefined when it is none (any more). */
  linkText(name: string): string | undefined {
    try {
      return readlinkSync(this.#entryPath(name));
    } catch (error) {
      if (errorCode(error) === 'EINVAL' || errorCode(error) === 'ENOENT') return undefined;
      throw error;
    }
  }

  /** What a plain file holds, in pieces that are read one after the other. Keep it open until then. */
  async *content(chunkBytes: number): AsyncGenerator<Buffer> {
    if (!this.stat().isFile()) throw new SafePathError('NO_FILE', `${this.shown} is no plain file`);
    const file = await open(this.#path, constants.O_RDONLY | constants.O_NONBLOCK);
    try {
      const buffer = Buffer.alloc(chunkBytes);
      for (;;) {
        const { bytesRead } = await file.read(buffer, 0, chunkBytes);
        if (bytesRead === 0) return;
        yield buffer.subarray(0, bytesRead);
      }
    } finally {
      await file.close();
    }
  }

  /** A plain file, for who reads parts of it. Rejects with SafePathError NO_FILE, or the system's error. Who gets it closes it; this may be closed before. */
  async openForReading(): Promise<FileHandle> {
    if (!this.stat().isFile()) throw new SafePathError('NO_FILE', `${this.shown} is no plain file`);
    return open(this.#path, constants.O_RDONLY | constants.O_NONBLOCK);
  }

  /** The end of a plain file, at most `maxBytes`, and how long the file is. Throws SafePathError NO_FILE, or the system's error. Keep it open until then. */
  async lastBytes(maxBytes: number): Promise<{ readonly size: number; readonly bytes: Buffer }> {
    if (!this.stat().isFile()) throw new SafePathError('NO_FILE', `${this.shown} is no plain file`);
    const file = await open(this.#path, constants.O_RDONLY | constants.O_NONBLOCK);
    try {
      return await lastBytes(file, maxBytes);
    } finally {
      await file.close();
    }
  }

  /**
   * Writes into a plain file as it is, one piece after the other; nothing is made longer or shorter. A file with a second name is
   * refused, as one of another size: it is not the one that was meant. Throws SafePathError, or the system's error.
   */
  overwrite(sizeBytes: number, pieces: readonly { readonly at: number; readonly bytes: Uint8Array }[]): void {
    const stats = this.stat();
    if (!stats.isFile() || stats.size !== sizeBytes || stats.nlink !== 1) {
      throw new SafePathError('NO_FILE', `${this.shown} is no plain file of ${sizeBytes} bytes with one name`);
    }
    const fd = openSync(this.#path, constants.O_WRONLY | constants.O_NONBLOCK);
    try {
      for (const { at, bytes } of pieces) writeWhole(fd, bytes, at);
    } finally {
      closeSync(fd);
    }
  }

  /** Removes an entry; a link is removed, not what it points to. */
  unlink(name: string): void {
    unlinkSync(this.#entryPath(name));
  }

  /** Removes an empty directory; ENOTDIR for a link. */
  removeDirectory(name: string): void {
    rmdirSync(this.#entryPath(name));
  }

  /** Creates a directory; EEXIST when anything of that name is there. */
  makeDirectory(name: string, mode: number): void {
    mkdirSync(this.#entryPath(name), { mode });
  }

  /** Creates a file; EEXIST when anything of that name is there, a link that leads nowhere, too. */
  create(name: string, mode: number): NewFile {
    return new NewFile(openSync(this.#entryPath(name), createFlags, mode));
  }

  /** As `create`, for an empty file. */
  touch(name: string, mode: number): void {
    this.create(name, mode).close();
  }

  /**
   * Gives an entry of this directory a second name in it; EEXIST when anything of that name is there. Whatever `from` is by
   * then gets it: ask `NewFile.isAt` afterwards.
   */
  link(from: string, to: string): void {
    linkSync(this.#entryPath(from), this.#entryPath(to));
  }

  /** Puts an entry of this directory in the place of another one; of a link there, not of what it points to. */
  rename(from: string, to: string): void {
    renameSync(this.#entryPath(from), this.#entryPath(to));
  }

  /** The text of a plain file in this directory. Throws SafePathError SYMLINK, PlainFileError, or the system's error. */
  readText(name: string, maxBytes: number): string {
    const file = this.child(name);
    try {
      return readOpenedText(file.stat(), file.#path, maxBytes);
    } finally {
      file.close();
    }
  }

  /** What users without rights of root can still write to this file system. */
  freeBytes(): number {
    const { bavail, bsize } = statfsSync(this.#path);
    return bavail * bsize;
  }

  /** Owner first, then mode: a chown clears set-id bits. */
  setOwner(uid: number, gid: number, mode?: number): void {
    chownSync(this.#path, uid, gid);
    if (mode !== undefined) chmodSync(this.#path, mode);
  }

  /** Reports names that come to or go from this directory, also after `close`. It ends by itself when it cannot go on. */
  watchNames(listener: () => void): { close(): void } {
    // inotify holds the directory itself: what is put at its path later is not watched.
    const watcher = watch(`${this.#path}/.`, { persistent: false }, listener);
    watcher.on('error', () => watcher.close());
    return watcher;
  }

  /** Of a socket: what connect() takes. Of anything else nothing may be done with it. */
  get socketAddress(): string {
    return this.#path;
  }

  /** What bind() takes to make a socket in this directory: bind() follows no link. */
  newSocketAddress(name: string): string {
    return this.#entryPath(name);
  }

  /** Where it is now, for programs that take nothing but names. Only for a tenant's own process: to all others it proves nothing. */
  currentName(): string {
    return readlinkSync(this.#path);
  }

  /** Safe to call twice. */
  close(): void {
    if (this.#fd !== undefined) closeSync(this.#fd);
    this.#fd = undefined;
  }
}

function writeWhole(fd: number, bytes: Uint8Array, at: number): void {
  for (let written = 0; written < bytes.length; ) {
    written += writeSync(fd, bytes, written, bytes.length - written, at + written);
  }
}

/** For calls of the C library in this folder, which follow what is at a path: this one leads to what was opened. */
export function pathOfOpened(opened: SafePath): string {
  return openedPath(opened);
}

/** The same for an entry of an opened directory: only for calls that do not follow a link there. */
export function pathOfEntry(directory: SafePath, name: string): string {
  return entryPath(directory, name);
}

/** Another descriptor of what was opened, for calls of this folder that outlive it. Its owner closes it. */
export function duplicateOf(opened: SafePath): number {
  return openSync(openedPath(opened), pathOnly);
}

/** Of proc_pid_fdinfo(5): unlike a device number it differs where a directory is mounted into its own file system. */
function mountIdOf(fd: number): string | undefined {
  return /^mnt_id:\s*(\d+)$/m.exec(readFileSync(`/proc/self/fdinfo/${fd}`, 'latin1'))?.[1];
}

/** Opens a trusted directory; links in its path are followed (`/proc/<pid>/root` is one). */
export function openTrusted(directory: string): SafePath {
  return new SafePath(openSync(directory, pathOnly), directory);
}

/**
 * Opens `relative` below a trusted `base`, element by element; a link anywhere is refused.
 * Throws SafePathError, or the system's error (ENOENT).
 */
export function openNoFollow(base: string, relative: string): SafePath {
  return descend(() => openTrusted(base), relative);
}

/**
 * As a process with root directory `root` would see it: `trusted` as by `openInRoot`, because its links are of the image, and
 * `relative` below it as by `openNoFollow`, because there others write.
 */
export function openBelow(root: string, trusted: string, relative: string): SafePath {
  return descend(() => openInRoot(root, trusted), relative);
}

function descend(open: () => SafePath, relative: string): SafePath {
  const elements = relative.split('/');
  elements.forEach(checkedName);
  if (elements.length > maxElements) throw new SafePathError('TOO_MANY_ELEMENTS', `${relative} is too long`);
  let current = open();
  for (const [index, element] of elements.entries()) {
    const parent = current;
    try {
      current = index < elements.length - 1 ? parent.directory(element) : parent.child(element);
    } finally {
      parent.close();
    }
  }
  return current;
}

/**
 * Opens `relative` as a process with root directory `root` would see it: links are followed, but relative to the root,
 * and neither a link nor `..` leaves it. At most 256 elements, links included.
 */
export function openInRoot(root: string, relative: string): SafePath {
  const stack = [openTrusted(root)];
  const pending = relative.split('/').reverse();
  try {
    for (let taken = 0; pending.length > 0; taken++) {
      if (taken > maxElements)
        throw new SafePathError('TOO_MANY_ELEMENTS', `${relative} in ${root}: too many elements`);
      step(stack, pending);
    }
    const found = stack.pop();
    if (!found) throw new Error('the root is always there');
    return found;
  } finally {
    for (const opened of stack) opened.close();
  }
}

/** Takes one element from `pending`; `stack` holds the way from the root to here. */
function step(stack: SafePath[], pending: string[]): void {
  const element = pending.pop();
  const here = stack.at(-1);
  if (element === undefined || here === undefined || element === '' || element === '.') return;
  if (element === '..') {
    if (stack.length > 1) stack.pop()?.close();
    return;
  }
  const next = here.entry(element);
  if (!next.stat().isSymbolicLink()) {
    stack.push(next);
    return;
  }
  next.close();
  const link = here.linkText(element);
  if (link === undefined) {
    // It was a link a moment ago: what it is now is looked at.
    pending.push(element);
    return;
  }
  if (link.startsWith('/')) for (const opened of stack.splice(1)) opened.close();
  pending.push(...link.split('/').reverse());
}

/** Throws SafePathError NOT_CLEAN. */
export function checkedName(name: string): string {
  if (name === '' || name === '.' || name === '..' || name.includes('/') || name.includes('\0')) {
    throw new SafePathError('NOT_CLEAN', `${JSON.stringify(name)} is not the name of one path element`);
  }
  return name;
}
