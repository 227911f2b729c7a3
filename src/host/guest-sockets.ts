import type { Stats } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { CodedError, errorCode, errorMessage } from '../base/index.ts';
import {
  isProcessAlive,
  isYoungerThan,
  PeerError,
  type ProcessId,
  peerOf,
  pidNamespace,
  type ReportedPeer,
} from './peer.ts';
import { openNoFollow, type SafePath } from './safe-path.ts';

/** User and group of QEMU in KubeVirt's launcher image. */
export const qemuId = 107;

export type GuestSocketErrorCode =
  /** No such file, no socket, a link on the way: the guest has no such device, or a tenant plays tricks. */
  | 'NOT_FOUND'
  /** It is there and no process takes the connection. */
  | 'NOT_LISTENING'
  /** It belongs to another than this guest. */
  | 'NOT_TRUSTED'
  /** The launcher ended meanwhile. */
  | 'ENDED';

export class GuestSocketError extends CodedError<GuestSocketErrorCode> {}

export interface GuestSocketAddress {
  /** The launcher, and the user that it runs as. */
  readonly launcher: ProcessId & { readonly uid: number };
  /** In the launcher's private directory: named after the UID of the VMI, or after a channel. */
  readonly directory: string;
  /** `virt-serial0`, `virt-vnc`, `virt-usbredir-<slot>`, or the channel's socket */
  readonly name: string;
  /** The guest's end leaves the other half open, as `net.connect` has it. */
  readonly allowHalfOpen?: boolean;
}

/**
 * Connects to a socket of a guest in its launcher's file system, which belongs to a tenant: the way there is walked without
 * following links (so it begins with `run`, not with `var/run`), the socket must be root's, QEMU's or the launcher's own, and who
 * listens must live in the launcher's pid namespace. The launcher's start time is compared once its root is held: a process that
 * got its pid meanwhile is not looked into. Rejects with GuestSocketError, or with the reason of the signal.
 */
export async function connectGuestSocket(
  address: GuestSocketAddress,
  signal: AbortSignal,
  procDir: string,
): Promise<Socket> {
  const file = openGuestSocket(address, procDir);
  let socket: Socket;
  try {
    socket = await connected(file, address, signal);
  } finally {
    file.path.close();
  }
  try {
    await checkPeer(socket, address, file.stats, procDir);
    return socket;
  } catch (error) {
    socket.destroy();
    throw error;
  }
}

interface OpenedSocket {
  readonly path: SafePath;
  readonly stats: Stats;
}

function openGuestSocket({ launcher, directory, name }: GuestSocketAddress, procDir: string): OpenedSocket {
  let path: SafePath;
  try {
    path = openNoFollow(
      `${procDir}/${launcher.pid}/root`,
      ['run', 'kubevirt-private', oneElement(directory), name].join('/'),
    );
  } catch (cause) {
    if (!isProcessAlive(launcher)) throw ended(launcher, cause);
    const isMissing = errorCode(cause) === 'ENOENT' || errorCode(cause) === 'ENOTDIR';
    const why = isMissing ? 'there is no such socket' : errorMessage(cause);
    throw new GuestSocketError('NOT_FOUND', `${name} of the guest cannot be opened: ${why}`, { cause });
  }
  try {
    if (!isProcessAlive(launcher)) throw ended(launcher);
    const stats = path.stat();
    if (!stats.isSocket()) throw new GuestSocketError('NOT_FOUND', `${name} of the guest is not a socket`);
    if (![0, qemuId, launcher.uid].includes(stats.uid)) {
      throw new GuestSocketError('NOT_TRUSTED', `${name} of the guest belongs to user ${stats.uid}, not to QEMU`);
    }
    return { path, stats };
  } catch (error) {
    path.close();
    throw error;
  }
}

/** The UID comes from an object that anybody with rights on VMIs may have written. */
export function oneElement(directory: string): string {
  if (/^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/.test(directory)) return directory;
  throw new GuestSocketError('NOT_FOUND', 'the UID of the VirtualMachineInstance is no UID');
}

function connected(
  { path }: OpenedSocket,
  { name, allowHalfOpen = false }: GuestSocketAddress,
  signal: AbortSignal,
): Promise<Socket> {
  return new Promise((resolve, reject) => {
    signal.throwIfAborted();
    const socket = connect({ path: path.socketAddress, allowHalfOpen });
    // Its user learns of it by `close`; an error without a listener would end the process.
    socket.on('error', () => undefined);
    const onAbort = () => {
      socket.destroy();
      reject(signal.reason);
    };
    signal.addEventListener('abort', onAbort, { once: true });
    const leave = () => signal.removeEventListener('abort', onAbort);
    socket.once('connect', () => {
      leave();
      resolve(socket);
    });
    socket.once('error', (cause) => {
      leave();
      reject(
        new GuestSocketError('NOT_LISTENING', `${name} of the guest does not answer: ${cause.message}`, { cause }),
      );
    });
  });
}

async function checkPeer(
  socket: Socket,
  { launcher, name }: GuestSocketAddress,
  { birthtimeMs }: Stats,
  procDir: string,
): Promise<void> {
  let peer: ReportedPeer;
  try {
    peer = await peerOf(socket);
  } catch (error) {
    // libvirt's daemon listens for QEMU and may have ended since: the socket itself was found in the guest's own place.
    if (error instanceof PeerError && error.code === 'CLOSED' && !socket.destroyed) return;
    throw new GuestSocketError('NOT_TRUSTED', `who listens on ${name} cannot be told: ${errorMessage(error)}`, {
      cause: error,
    });
  }
  if (!isProcessAlive(launcher)) throw ended(launcher);
  // The same, and the pid is another's by now: only where the kernel did not show the process itself.
  if (!peer.isProven && isYoungerThan(peer, birthtimeMs)) return;
  const [own, theirs] = [launcher.pid, peer.pid].map((pid) => pidNamespace(pid, procDir));
  if (own !== undefined && own === theirs) return;
  if (!isProcessAlive(peer) && isProcessAlive(launcher)) return;
  throw new GuestSocketError(
    'NOT_TRUSTED',
    `${name} is served by process ${peer.pid}, which is not of this guest's pod`,
  );
}

function ended({ pid }: ProcessId, cause?: unknown): GuestSocketError {
  return new GuestSocketError('ENDED', `the launcher (process ${pid}) has ended`, { cause });
}
