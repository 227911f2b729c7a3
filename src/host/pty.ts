import { closeSync, constants, openSync } from 'node:fs';
import { CodedError, errorMessage } from '../base/index.ts';
import { closeOnExec } from './inherited-descriptors.ts';
import { openNoFollow, pathOfOpened } from './safe-path.ts';

/** A pair of terminals: what a program has, and the other end of it. Who gets it closes both. */
export interface Pty {
  /** Descriptor of this program's end. */
  readonly master: number;
  /** Descriptor for the program. */
  readonly slave: number;
  /** Tells the program how much room there is, in characters. */
  resize(columns: number, rows: number): void;
}

/** The C library cannot be reached, or the kernel refuses. */
export class PtyError extends CodedError<'NO_PTY'> {}

/** asm-generic/ioctls.h */
const unlock = 0x4004_5431;
const openSlave = 0x5441;
const setSize = 0x5414;
const maxSize = 0xffff;

/** A new pair in the devpts of a process with this root directory, which may be another's: no link in it is followed. Rejects with PtyError. */
export async function openPty(root: string): Promise<Pty> {
  const ioctl = await loadIoctl();
  const ptmx = openNoFollow(root, 'dev/pts/ptmx');
  let master: number;
  try {
    if (!ptmx.stat().isCharacterDevice()) throw new PtyError('NO_PTY', `${ptmx.shown} makes no terminals`);
    master = openSync(pathOfOpened(ptmx), constants.O_RDWR | constants.O_NOCTTY);
  } finally {
    ptmx.close();
  }
  try {
    ioctl.withBytes(master, unlock, Buffer.alloc(4));
    const slave = ioctl.withNumber(master, openSlave, constants.O_RDWR | constants.O_NOCTTY | closeOnExec);
    return {
      master,
      slave,
      resize: (columns, rows) => {
        const size = Uint16Array.from([rows, columns, 0, 0].map((each) => Math.min(each, maxSize)));
        ioctl.withBytes(master, setSize, Buffer.from(size.buffer));
      },
    };
  } catch (error) {
    closeSync(master);
    throw error;
  }
}

interface Ioctl {
  /** Both throw PtyError. */
  withBytes(fd: number, request: number, bytes: Buffer): number;
  withNumber(fd: number, request: number, value: number): number;
}

let loaded: Promise<Ioctl> | undefined;

function loadIoctl(): Promise<Ioctl> {
  loaded ??= load();
  return loaded;
}

async function load(): Promise<Ioctl> {
  try {
    const { default: koffi } = await import('koffi');
    const library = koffi.load(null);
    const withBytes = library.func('int ioctl(int fd, unsigned long request, uint8_t *argument)');
    const withNumber = library.func('int ioctl(int fd, unsigned long request, long argument)');
    const checked = (result: number) => {
      if (result < 0) throw new PtyError('NO_PTY', `a terminal cannot be made: error ${koffi.errno()} of the kernel`);
      return result;
    };
    return {
      withBytes: (...given) => checked(withBytes(...given)),
      withNumber: (...given) => checked(withNumber(...given)),
    };
  } catch (cause) {
    throw new PtyError('NO_PTY', `the C library cannot be reached: ${errorMessage(cause)}`, { cause });
  }
}
