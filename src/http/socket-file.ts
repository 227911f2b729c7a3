import { chmod, chown, lstat, mkdir, rename, rm, unlink } from 'node:fs/promises';
import { createConnection } from 'node:net';
import path from 'node:path';
import { errorCode } from '../base/index.ts';
import { ListenError } from './errors.ts';

/** A Unix socket. Its directory is made when missing. */
export interface UnixAddress {
  readonly kind: 'unix';
  readonly path: string;
  readonly mode: number;
  /** The program's own user and group unless given. */
  readonly owner?: { readonly uid: number; readonly gid: number };
  /** Own one: names the directory of the draft beside `path`, so that two programs never share one. */
  readonly pid: number;
  /** Which program may serve there before or after this one, in messages: "another agent". */
  readonly other: string;
}

/** `sun_path` has 108 bytes, the last one is NUL; Node.js 20 truncates what is longer without a word. */
const maxPathBytes = 107;
const probeTimeoutMs = 1_000;

/**
 * Bound in a directory of its own, which other users cannot enter, then moved over the public one: a client meets the old server
 * or the new, never none, and finds neither before it has its owner and mode. A socket left behind by a program that has ended is
 * replaced. Resolves with what removes the file, unless it is another program's by then. Rejects with ListenError or the
 * system's error, and leaves no file.
 */
export async function listenOnSocketFile(
  listen: (path: string) => Promise<unknown>,
  { path: file, mode, owner, pid, other }: UnixAddress,
): Promise<() => Promise<void>> {
  const draftDir = path.join(path.dirname(file), `.${path.basename(file)}.${pid}`);
  const draft = path.join(draftDir, 's');
  if (Buffer.byteLength(draft) > maxPathBytes) {
    throw new ListenError('PATH_TOO_LONG', `${file} is too long for a Unix socket: choose a shorter directory`);
  }
  await mkdir(path.dirname(file), { recursive: true });
  await assertFree(file, other);
  await rm(draftDir, { recursive: true, force: true });
  await mkdir(draftDir, { mode: 0o700 });
  try {
    await listen(draft);
    if (owner) await chown(draft, owner.uid, owner.gid);
    await chmod(draft, mode);
    const { ino } = await lstat(draft);
    await rename(draft, file);
    return () => removeOwn(file, ino);
  } finally {
    await rm(draftDir, { recursive: true, force: true });
  }
}

async function removeOwn(file: string, ino: number): Promise<void> {
  const found = await lstat(file).catch(() => undefined);
  if (found?.ino === ino) await unlink(file).catch(() => undefined);
}

/** Throws when something that is not ours to replace is in the way. */
async function assertFree(file: string, other: string): Promise<void> {
  const found = await lstat(file).catch(() => undefined);
  if (!found) return;
  if (!found.isSocket()) throw new ListenError('NO_SOCKET', `${file} is in the way and no socket: remove it`);
  if (await isAnswered(file)) {
    const text = `${other} answers on ${file}: it is replaced when that one has left`;
    throw new ListenError('SOCKET_IN_USE', text);
  }
}

/** Only a refused connection proves that no program listens. */
function isAnswered(file: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = createConnection(file);
    const end = (isAlive: boolean) => {
      socket.destroy();
      resolve(isAlive);
    };
    socket.setTimeout(probeTimeoutMs, () => end(true));
    socket.once('connect', () => end(true));
    socket.once('error', (error) => end(!['ECONNREFUSED', 'ENOENT'].includes(errorCode(error) ?? '')));
  });
}
