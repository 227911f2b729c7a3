import { randomBytes } from 'node:crypto';
import { createServer, type Server } from 'node:net';
import { errorCode, errorMessage } from '../../base/index.ts';
import { openBelow, type SafePath } from '../../host/index.ts';
import { MigrationProxyError } from './errors.ts';
import type { UserIds } from './haproxy-config.ts';
import { type ProxyRole, proxyRoles } from './ports.ts';

/** The user `qemu` in launcher images. */
const qemuId = 107;
const runDir = '/var/run';
const socketsDir = 'migrationproxy';

/** Of a role's socket, in the source's pod as in the target's (upstream: pkg/virt-handler/migration-proxy, SourceUnixFile). */
export function streamSocketName(uid: string, role: ProxyRole): string {
  return role === proxyRoles.libvirt ? `${uid}-source.sock` : `${uid}-${role}-source.sock`;
}

/** What the target's streams lead to, as paths in its pod. */
export function targetSocket(uid: string, role: ProxyRole): string {
  if (role === proxyRoles.libvirt) return `${runDir}/libvirt/virtqemud-sock`;
  return `${runDir}/kubevirt/${socketsDir}/${streamSocketName(uid, role)}`;
}

interface PodSocket {
  readonly name: string;
  draft: string;
  readonly server: Server;
  /** What was made, whatever stands at its name later. */
  readonly made: SafePath;
}

/**
 * Listening sockets in a launcher's pod, made by safe paths for another program to serve. Until `publish` they have names that
 * are no other's, so that no client is accepted before that program is there.
 */
export class PodSockets {
  readonly #directory: SafePath;
  readonly #sockets: PodSocket[] = [];

  private constructor(directory: SafePath) {
    this.#directory = directory;
  }

  /** Rejects with MigrationProxyError SOCKET_BLOCKED; nothing is left then. */
  static async make(launcherPid: number, launcher: UserIds, names: readonly string[]): Promise<PodSockets> {
    let sockets: PodSockets | undefined;
    try {
      const owner = launcher.uid === 0 ? { uid: qemuId, gid: launcher.gid } : launcher;
      sockets = new PodSockets(openSockets(launcherPid, owner));
      for (const name of names) await sockets.#add(name, owner);
      return sockets;
    } catch (cause) {
      await sockets?.close();
      throw blocked(launcherPid, cause);
    }
  }

  get descriptors(): number[] {
    return this.#sockets.map(({ server }) => descriptorOf(server));
  }

  /** The other program serves: the sockets get their names. Rejects with MigrationProxyError SOCKET_BLOCKED. */
  async publish(launcherPid: number): Promise<void> {
    for (const socket of this.#sockets) {
      try {
        // Node.js removes the name that it has bound.
        this.#rename(socket, newName());
        await closed(socket.server);
        this.#clear(socket.name);
        this.#rename(socket, socket.name);
      } catch (cause) {
        throw blocked(launcherPid, cause);
      }
    }
  }

  /** Ends this side's hold; names that were published stay. */
  async close(): Promise<void> {
    for (const { server, made, draft, name } of this.#sockets) {
      await closed(server);
      made.close();
      if (draft !== name) removeSocket(this.#directory, draft);
    }
    this.#directory.close();
  }

  async #add(name: string, owner: UserIds): Promise<void> {
    const draft = newName();
    // What comes in before the other program serves would be answered by no one.
    const server = createServer((client) => client.destroy());
    try {
      await listening(server, this.#directory.newSocketAddress(draft));
      const made = this.#directory.child(draft);
      this.#sockets.push({ name, draft, server, made });
      const { uid, nlink } = made.stat();
      if (!made.stat().isSocket() || uid !== process.geteuid?.() || nlink !== 1) {
        throw new Error(`${made.shown} was replaced`);
      }
      made.setOwner(owner.uid, owner.gid, 0o660);
    } catch (error) {
      await closed(server);
      throw error;
    }
  }

  #rename(socket: PodSocket, to: string): void {
    this.#directory.rename(socket.draft, to);
    socket.draft = to;
    const found = this.#directory.child(to);
    try {
      const [a, b] = [found.identity(), socket.made.identity()];
      if (a.dev !== b.dev || a.ino !== b.ino) throw new Error(`${found.shown} was replaced`);
    } finally {
      found.close();
    }
  }

  /** A name is replaced by renaming, whatever it is; only a directory is in the way. */
  #clear(name: string): void {
    try {
      this.#directory.removeDirectory(name);
    } catch (error) {
      if (errorCode(error) !== 'ENOENT' && errorCode(error) !== 'ENOTDIR') throw error;
    }
  }
}

/** Removes sockets, and nothing else, at these names. Safe when the pod or a name is gone. */
export function removePodSockets(launcherPid: number, names: readonly string[]): void {
  try {
    const directory = openBelow(`/proc/${launcherPid}/root`, runDir, `kubevirt/${socketsDir}`);
    try {
      for (const name of names) removeSocket(directory, name);
    } finally {
      directory.close();
    }
  } catch {
    // The pod has gone, or its tenant has put something else there: nothing of ours.
  }
}

function removeSocket(directory: SafePath, name: string): void {
  try {
    const found = directory.child(name);
    const isSocket = found.stat().isSocket();
    found.close();
    if (isSocket) directory.unlink(name);
  } catch {
    // It is gone, or none.
  }
}

/** Made if absent, as the launcher's own: QEMU of a target makes its sockets there. */
function openSockets(launcherPid: number, owner: UserIds): SafePath {
  const root = `/proc/${launcherPid}/root`;
  const kubevirt = openBelow(root, runDir, 'kubevirt');
  try {
    try {
      return kubevirt.directory(socketsDir);
    } catch (error) {
      if (errorCode(error) !== 'ENOENT') throw error;
    }
    kubevirt.makeDirectory(socketsDir, 0o755);
    const made = kubevirt.directory(socketsDir);
    made.setOwner(owner.uid, owner.gid);
    return made;
  } finally {
    kubevirt.close();
  }
}

/** A TCP listener on all addresses, with a port that is free. */
export async function listenAnywhere(): Promise<{ port: number; descriptor: number; close: () => Promise<void> }> {
  const server = createServer((client) => client.destroy());
  // Without a host: `::`, or `0.0.0.0` where there is no IPv6.
  await listening(server, 0);
  const address = server.address();
  const port = typeof address === 'object' && address !== null ? address.port : 0;
  return { port, descriptor: descriptorOf(server), close: () => closed(server) };
}

function listening(server: Server, at: string | number): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen(at, () => {
      server.off('error', reject);
      resolve();
    });
  });
}

const closed = (server: Server) => new Promise<void>((resolve) => server.close(() => resolve()));

/** Node.js has it, and no type for it. */
function descriptorOf(server: Server): number {
  const fd = (server as unknown as { _handle?: { fd: number } | null })._handle?.fd;
  if (fd === undefined || fd < 0) throw new Error('a listener was closed');
  return fd;
}

const newName = () => `.${randomBytes(8).toString('hex')}`;

function blocked(pid: number, cause: unknown): MigrationProxyError {
  const text = `no migration sockets in the pod of process ${pid}: ${errorMessage(cause)}`;
  return new MigrationProxyError('SOCKET_BLOCKED', text, { cause });
}
