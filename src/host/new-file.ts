import { closeSync, fchmodSync, fchownSync, fstatSync, ftruncateSync, writeFileSync } from 'node:fs';
import { errorCode } from '../base/index.ts';

/** As `SafePath` is one. */
interface Directory {
  entry(name: string): { identity(): { readonly dev: bigint; readonly ino: bigint }; close(): void };
}

/** A file made where others may write, used through the one descriptor that it was made with. Who gets one closes it. */
export class NewFile {
  readonly #fd: number;
  #isClosed = false;

  constructor(fd: number) {
    this.#fd = fd;
  }

  /** Whole bytes; what is added takes no room until it is written. */
  setSize(bytes: number): void {
    ftruncateSync(this.#fd, bytes);
  }

  write(text: string): void {
    writeFileSync(this.#fd, text);
  }

  /** Owner first, then mode: a chown clears set-id bits. The mode is no longer that of the umask. */
  setOwner(uid: number, gid: number, mode?: number): void {
    fchownSync(this.#fd, uid, gid);
    if (mode !== undefined) fchmodSync(this.#fd, mode);
  }

  /** Whether the entry of the directory is this very file, and not what was put in its place. */
  isAt(directory: Directory, name: string): boolean {
    let entry: ReturnType<Directory['entry']>;
    try {
      entry = directory.entry(name);
    } catch (error) {
      if (errorCode(error) === 'ENOENT') return false;
      throw error;
    }
    try {
      const [own, found] = [fstatSync(this.#fd, { bigint: true }), entry.identity()];
      return own.dev === found.dev && own.ino === found.ino;
    } finally {
      entry.close();
    }
  }

  /** Safe to call twice. */
  close(): void {
    if (!this.#isClosed) closeSync(this.#fd);
    this.#isClosed = true;
  }
}
