import { closeSync, constants, openSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { getSystemErrorName } from 'node:util';

/** flock(2): it belongs to the opened directory, so that the kernel takes it from a process that ends. */
type Lock = (fd: number) => number;

export interface DirectoryLock {
  release(): void;
}

const exclusive = 2;
const atOnce = 4;
/** Numbers of all architectures that Node.js runs on, but MIPS. */
const errors = { interrupted: 4, wouldBlock: 11 } as const;
/** Who holds it has a few calls to make; one that was stopped by a signal meanwhile must not stop this process, too. */
const patienceMs = 2_000;
const [firstPauseMs, longestPauseMs] = [1, 50];

let lock: Promise<Lock> | undefined;

function loadLock(): Promise<Lock> {
  lock ??= import('koffi').then(({ default: koffi }) => {
    const flock = koffi.load(null).func('int flock(int fd, int operation)');
    return (fd) => (flock(fd, exclusive | atOnce) === 0 ? 0 : koffi.errno());
  });
  return lock;
}

/**
 * Waits until no other process holds this directory; what is done before `release` must not wait for anything. Rejects with the system's
 * error, and with EAGAIN when another one held it for two seconds.
 */
export async function lockDirectory(directory: string): Promise<DirectoryLock> {
  const take = await loadLock();
  const fd = openSync(directory, constants.O_RDONLY | constants.O_DIRECTORY);
  try {
    const endMs = performance.now() + patienceMs;
    for (let pauseMs = firstPauseMs; ; pauseMs = Math.min(pauseMs * 2, longestPauseMs)) {
      const errno = take(fd);
      if (errno === 0) return { release: () => closeSync(fd) };
      const isHeld = errno === errors.wouldBlock || errno === errors.interrupted;
      if (!isHeld || performance.now() >= endMs) throw lockError(directory, errno);
      await sleep(pauseMs);
    }
  } catch (error) {
    closeSync(fd);
    throw error;
  }
}

function lockError(directory: string, errno: number): Error {
  const code = getSystemErrorName(-errno);
  const why = errno === errors.wouldBlock ? `another process holds it for longer than ${patienceMs} ms` : code;
  return Object.assign(new Error(`${directory} cannot be locked: ${why}`), { code });
}
