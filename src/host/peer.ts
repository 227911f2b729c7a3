import { closeSync, readFileSync, readlinkSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { uptime } from 'node:os';
import { CodedError, errorCode } from '../base/index.ts';
import { hasEnded, parseProcessStat } from './process-stat.ts';

/** Who is at the other end of a Unix socket, from the kernel and not from what it says: unix(7), SO_PEERCRED and SO_PEERPIDFD. */

export type PeerErrorCode =
  /** The kernel shows no pid: this process is not in the host's pid namespace. */
  | 'NO_PID'
  /** The socket was closed, or the process ended, before it could be asked. */
  | 'CLOSED'
  /** The kernel could not say, as without a descriptor to spare. */
  | 'NOT_TOLD'
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

/** As the kernel reports it of a socket. */
export interface ReportedPeer extends Peer {
  /**
   * The kernel itself said that this very process is the peer. Otherwise (before Linux 6.5) it named a pid, and the process that
   * has it by now was looked at: the peer may have ended while others hold its socket, and its pid may be another process's.
   */
  readonly isProven: boolean;
}

const solSocket = 1;
const soPeercred = 17;
const soPeerpidfd = 77;
const ucredBytes = 12;
const pidfdBytes = 4;
/** Error numbers of all architectures that Node.js runs on, but MIPS. */
const errors = { notSupported: 92, noData: 61, noProcess: 3, invalid: 22 } as const;

/** 0, or an error's number below 0. */
export type GetSockOpt = (fd: number, level: number, name: number, value: Buffer, length: Int32Array) => number;
let getSockOpt: Promise<GetSockOpt> | undefined;

/** Loaded at the first use: 11 ms and 4 MiB that only programs with peers pay. */
function loadGetSockOpt(): Promise<GetSockOpt> {
  getSockOpt ??= import('koffi').then(({ default: koffi }) => {
    const call = koffi
      .load(null)
      .func('int getsockopt(int fd, int level, int name, _Out_ uint8_t *value, _Inout_ int *length)') as GetSockOpt;
    return (fd, level, name, value, length) => (call(fd, level, name, value, length) === 0 ? 0 : -koffi.errno());
  });
  return getSockOpt;
}

/**
 * For a program that will have peers: the first burst of them does not wait until the native library is loaded. Never
 * rejects: what is wrong with it is the error of `peerOf`.
 */
export async function preparePeers(): Promise<void> {
  await loadGetSockOpt().catch(() => undefined);
}

/**
 * The process at the other end of a connected Unix socket: for a client the one that called listen(), for a server the
 * one that called connect(). Rejects with PeerError; CLOSED, too, when that process has ended and others hold its end of the
 * socket. `call`: in place of the kernel's.
 */
export async function peerOf(socket: Socket, call?: GetSockOpt): Promise<ReportedPeer> {
  const ask = call ?? (await loadGetSockOpt());
  // Nothing is awaited from here on: the descriptor means this socket until the end.
  const fd = (socket as unknown as { _handle?: { fd: number } | null })._handle?.fd;
  if (fd === undefined || fd < 0) throw new PeerError('CLOSED', 'the socket was closed before its peer was known');
  const { pid, uid, gid } = credentialsOf(fd, ask);
  const pidfd = pidfdOf(fd, ask);
  try {
    const startTime = pidfd === undefined ? processStartTime(pid) : provenStartTime(pid, pidfd);
    if (startTime === undefined) throw ended(pid);
    return { pid, startTime, uid, gid, isProven: pidfd !== undefined };
  } finally {
    if (pidfd !== undefined) closeSync(pidfd);
  }
}

function credentialsOf(fd: number, ask: GetSockOpt): { pid: number; uid: number; gid: number } {
  const ucred = Buffer.alloc(ucredBytes);
  if (ask(fd, solSocket, soPeercred, ucred, new Int32Array([ucredBytes])) !== 0) {
    throw new PeerError('CLOSED', 'the kernel does not know the peer of this socket');
  }
  const pid = ucred.readInt32LE(0);
  if (pid <= 0) {
    throw new PeerError('NO_PID', 'the peer has no process id here: run this program in the host pid namespace');
  }
  return { pid, uid: ucred.readUInt32LE(4), gid: ucred.readUInt32LE(8) };
}

/** A descriptor of the peer's process, which no other one can take over. Undefined where the kernel has no such thing. */
function pidfdOf(fd: number, ask: GetSockOpt): number | undefined {
  const value = Buffer.alloc(pidfdBytes);
  const error = -ask(fd, solSocket, soPeerpidfd, value, new Int32Array([pidfdBytes]));
  if (error === 0) return value.readInt32LE(0);
  if (error === errors.notSupported) return undefined;
  const hasEnded = error === errors.noProcess || error === errors.noData || error === errors.invalid;
  throw new PeerError(hasEnded ? 'CLOSED' : 'NOT_TOLD', `the kernel does not show the peer of this socket (${error})`);
}

/** What is read between two looks at a process that has its pid in both is of that process. */
function provenStartTime(pid: number, pidfd: number): string | undefined {
  if (pidOf(pidfd) !== pid) return undefined;
  const startTime = processStartTime(pid);
  return pidOf(pidfd) === pid ? startTime : undefined;
}

/** As proc_pid_fdinfo(5) shows it: -1 once the process has ended. */
function pidOf(pidfd: number): number {
  const text = readFileSync(`/proc/self/fdinfo/${pidfd}`, 'latin1');
  return Number(/^Pid:\s*(-?\d+)$/m.exec(text)?.[1] ?? -1);
}

function ended(pid: number): PeerError {
  return new PeerError('CLOSED', `peer process ${pid} ended`);
}

/** Connects, asks who listens, and closes. Rejects with PeerError or the system's error (ECONNREFUSED, ENOENT). */
export async function listenerOf(socketPath: string, timeoutMs: number): Promise<ReportedPeer> {
  // Before there is a connection: a listener that closes at once would have closed it by the time the library is loaded.
  await preparePeers();
  return new Promise((resolve, reject) => {
    const socket = connect(socketPath);
    const timer = setTimeout(() => end(new PeerError('TIMEOUT', `no connection within ${timeoutMs} ms`)), timeoutMs);
    const end = (error?: unknown, peer?: ReportedPeer) => {
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
export function processStartTime(pid: number, read = readStat): string | undefined {
  let text: string;
  try {
    text = read(pid);
  } catch (error) {
    const code = errorCode(error);
    if (code === 'ENOENT' || code === 'ESRCH') return undefined;
    throw error;
  }
  const found = parseProcessStat(text);
  return found && !hasEnded(found) ? found.startTicks : undefined;
}

/** Undefined: no such process runs. */
export function processIdOf(pid: number): ProcessId | undefined {
  const startTime = processStartTime(pid);
  return startTime === undefined ? undefined : { pid, startTime };
}

/** False is a proof: this very process has ended. An agent that has no file left to open has not seen that. */
export function isProcessAlive({ pid, startTime }: ProcessId, read = readStat): boolean {
  try {
    return processStartTime(pid, read) === startTime;
  } catch {
    return true;
  }
}

/** Clock ticks of /proc/<pid>/stat per second; the same on every Linux that Node.js runs on. */
const ticksPerSecond = 100;

/** When a process began, in milliseconds since 1970 by this machine's clock as it goes now. */
export function startedMs({ startTime }: ProcessId): number {
  return Date.now() - uptime() * 1000 + (Number(startTime) / ticksPerSecond) * 1000;
}

/**
 * How far the wall clock was set forward since this program began, in milliseconds. What was set before is not known: files that
 * are older still look older than the processes that made them.
 */
export function clockStepMs(): number {
  return Math.max(0, Date.now() - (performance.timeOrigin + performance.now()));
}

/** Clocks of file systems and processes are coarse. */
const slackMs = 2_000;

/** Of the machine's clocks. */
export interface AgeFacts {
  readonly startedMs: (process: ProcessId) => number;
  readonly clockStepMs: () => number;
}

/**
 * The process began after a file was made, at `bornMs` since 1970: it is none of those that can have made it. False when that is
 * unknown, as on a file system without birth times, for which Node.js gives 0.
 */
export function isYoungerThan(
  process: ProcessId,
  bornMs: number,
  facts: AgeFacts = { startedMs, clockStepMs },
): boolean {
  return bornMs > 0 && facts.startedMs(process) > bornMs + slackMs + facts.clockStepMs();
}

/** The text of proc_pid_cgroup(5), of the process that runs or of a pid; undefined when it cannot be read. */
export function cgroupsOf(pid: number | 'self'): string | undefined {
  try {
    return readFileSync(`/proc/${pid}/cgroup`, 'utf8');
  } catch {
    return undefined;
  }
}

/** Distinguishes pid namespaces; undefined when it cannot be read, as of a process that has ended. */
export function pidNamespace(pid: number, procDir = '/proc'): string | undefined {
  try {
    return readlinkSync(`${procDir}/${pid}/ns/pid`);
  } catch {
    return undefined;
  }
}
