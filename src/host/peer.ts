import { readFileSync, readlinkSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { CodedError, errorCode } from '../base/index.ts';

/** Who is at the other end of a Unix socket, from the kernel and not from what it says (ecosystem: SO_PEERCRED). */

export type PeerErrorCode =
  /** The kernel shows no pid: this process is not in the host's pid namespace. */
  | 'NO_PID'
  /** The socket was closed, or the process ended, before it could be asked. */
  | 'CLOSED'
  | 'TIMEOUT';

export class PeerError extends CodedError<PeerErrorCode> {}

export interface ProcessId {
  readonly pid: number;
  /** Field 22 of /proc/<pid>/stat, in clock ticks since boot: tells a process from a later one with its pid. */
  readonly startTime: string;
}

export interface Peer extends ProcessId {
  readonly uid: number;
  readonly gid: number;
}

const solSocket = 1;
const soPeercred = 17;
const ucredBytes = 12;

type GetSockOpt = (fd: number, level: number, name: number, value: Buffer, length: Int32Array) => number;
let getSockOpt: Promise<GetSockOpt> | undefined;

/** Loaded at the first use: 11 ms and 4 MiB that only programs with peers pay. */
function loadGetSockOpt(): Promise<GetSockOpt> {
  getSockOpt ??= import('koffi').then(
    ({ default: koffi }) =>
      koffi
        .load(null)
        .func('int getsockopt(int fd, int level, int name, _Out_ uint8_t *value, _Inout_ int *length)') as GetSockOpt,
  );
  return getSockOpt;
}

/**
 * For a program that will have peers: the first burst of them does not wait until the native library is loaded. Never
 * rejects: what is wrong with it is told by `peerOf`.
 */
export async function preparePeers(): Promise<void> {
  await loadGetSockOpt().catch(() => undefined);
}

/**
 * The process at the other end of a connected Unix socket: for a client the one that called listen(), for a server the
 * one that called connect(). Rejects with PeerError.
 */
export async function peerOf(socket: Socket): Promise<Peer> {
  const call = await loadGetSockOpt();
  const fd = (socket as unknown as { _handle?: { fd: number } | null })._handle?.fd;
  if (fd === undefined || fd < 0) throw new PeerError('CLOSED', 'the socket was closed before its peer was known');
  const ucred = Buffer.alloc(ucredBytes);
  if (call(fd, solSocket, soPeercred, ucred, new Int32Array([ucredBytes])) !== 0) {
    throw new PeerError('CLOSED', 'the kernel does not know the peer of this socket');
  }
  const pid = ucred.readInt32LE(0);
  if (pid <= 0) {
    throw new PeerError('NO_PID', 'the peer has no process id here: run this program in the host pid namespace');
  }
  const startTime = processStartTime(pid);
  if (startTime === undefined) throw new PeerError('CLOSED', `peer process ${pid} ended`);
  return { pid, startTime, uid: ucred.readUInt32LE(4), gid: ucred.readUInt32LE(8) };
}

/** Connects, asks who listens, and closes. Rejects with PeerError or the system's error (ECONNREFUSED, ENOENT). */
export function listenerOf(socketPath: string, timeoutMs: number): Promise<Peer> {
  return new Promise((resolve, reject) => {
    const socket = connect(socketPath);
    const timer = setTimeout(() => end(new PeerError('TIMEOUT', `no connection within ${timeoutMs} ms`)), timeoutMs);
    const end = (error?: unknown, peer?: Peer) => {
      clearTimeout(timer);
      socket.destroy();
      if (peer) resolve(peer);
      else reject(error);
    };
    socket.on('error', (error) => end(error));
    socket.once('connect', () => {
      peerOf(socket).then((peer) => end(undefined, peer), end);
    });
  });
}

type ReadStat = (pid: number) => string;

const readStat: ReadStat = (pid) => readFileSync(`/proc/${pid}/stat`, 'latin1');

/** Start time of a process that runs; undefined for none, and for one that is dead but not yet reaped. */
function processStartTime(pid: number, read = readStat): string | undefined {
  let stat: string;
  try {
    stat = read(pid);
  } catch (error) {
    const code = errorCode(error);
    if (code === 'ENOENT' || code === 'ESRCH') return undefined;
    throw error;
  }
  // The name in parentheses may hold anything, so fields count from the last one.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  const state = fields[0];
  return state === 'Z' || state === 'X' || state === 'x' ? undefined : fields[19];
}

/** False is a proof: this very process has ended. An agent that has no file left to open has not seen that. */
export function isProcessAlive({ pid, startTime }: ProcessId, read = readStat): boolean {
  try {
    return processStartTime(pid, read) === startTime;
  } catch {
    return true;
  }
}

/** Tells pid namespaces apart; undefined when it cannot be told, as of a process that has ended. */
export function pidNamespace(pid: number, procDir = '/proc'): string | undefined {
  try {
    return readlinkSync(`${procDir}/${pid}/ns/pid`);
  } catch {
    return undefined;
  }
}
