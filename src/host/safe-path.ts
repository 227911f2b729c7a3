import {
  chmodSync,
  chownSync,
  closeSync,
  constants,
  fstatSync,
  openSync,
  readlinkSync,
  type Stats,
  unlinkSync,
} from 'node:fs';
import { CodedError, errorCode } from '../base/index.ts';

/**
 * Paths below a pod belong to its tenant: every element is opened on its own, without following links, and what was
 * opened is used through its descriptor (spec 41 §4).
 */

export type SafePathErrorCode =
  /** An element is a symbolic link. */
  | 'SYMLINK'
  /** Empty, `.` or `..` elements where none may be, a name with a slash, or a NUL byte. */
  | 'NOT_CLEAN'
  | 'TOO_MANY_ELEMENTS';

export class SafePathError extends CodedError<SafePathErrorCode> {}

/** Linux' O_PATH: names a file without opening it. Node.js has no constant for it. */
const pathOnly = 0o10000000;
const maxElements = 256;

/** An opened place in the file system. Who gets one closes it. */
export class SafePath {
  /** For messages only: never open it. */
  readonly shown: string;
  #fd: number | undefined;

  constructor(fd: number, shown: string) {
    this.#fd = fd;
    this.shown = shown;
  }

  /** A path for any system call, valid until `close`; it names exactly what was opened. */
  get path(): string {
    if (this.#fd === undefined) throw new Error(`${this.shown} was closed`);
    return `/proc/self/fd/${this.#fd}`;
  }

  stat(): Stats {
    if (this.#fd === undefined) throw new Error(`${this.shown} was closed`);
    return fstatSync(this.#fd);
  }

  /** Opens one entry of this directory; a link is refused with SYMLINK. */
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
      return new SafePath(openSync(`${this.path}/${checkedName(name)}`, flags), `${this.shown}/${name}`);
    } catch (error) {
      // A link is no directory either; `child` says which it is.
      if (errorCode(error) === 'ENOTDIR') this.child(name).close();
      throw error;
    }
  }

  /** Like `child`, but a link is opened itself. */
  entry(name: string): SafePath {
    const fd = openSync(`${this.path}/${checkedName(name)}`, pathOnly | constants.O_NOFOLLOW);
    return new SafePath(fd, `${this.shown}/${name}`);
  }

  /** Removes an entry; a link is removed, not what it points to. */
  unlink(name: string): void {
    unlinkSync(`${this.path}/${checkedName(name)}`);
  }

  /** Creates an empty file; EEXIST when anything of that name is there. */
  touch(name: string, mode: number): void {
    const flags = constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW | constants.O_WRONLY;
    closeSync(openSync(`${this.path}/${checkedName(name)}`, flags, mode));
  }

  /** Owner first, then mode: a chown clears set-id bits. */
  setOwner(uid: number, gid: number, mode?: number): void {
    chownSync(this.path, uid, gid);
    if (mode !== undefined) chmodSync(this.path, mode);
  }

  /** Safe to call twice. */
  close(): void {
    if (this.#fd !== undefined) closeSync(this.#fd);
    this.#fd = undefined;
  }
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
  const elements = relative.split('/');
  elements.forEach(checkedName);
  if (elements.length > maxElements) throw new SafePathError('TOO_MANY_ELEMENTS', `${relative} is too long`);
  let current = openTrusted(base);
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
  const link = readlinkSync(`${here.path}/${element}`);
  if (link.startsWith('/')) for (const opened of stack.splice(1)) opened.close();
  pending.push(...link.split('/').reverse());
}

function checkedName(name: string): string {
  if (name === '' || name === '.' || name === '..' || name.includes('/') || name.includes('\0')) {
    throw new SafePathError('NOT_CLEAN', `${JSON.stringify(name)} is not the name of one path element`);
  }
  return name;
}
