import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { createServer, type Server, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach } from 'node:test';
import type { LauncherTarget } from '../../../src/api/index.ts';
import {
  LauncherClientError,
  type LauncherClientErrorCode,
  LauncherClients,
  type LauncherClientsOptions,
} from '../../../src/launcher-client/index.ts';
import { ScriptedLauncher, socketFileOf } from '../../fixtures/scripted-launcher.ts';

export const key = 'default/vm1';
export const uid = 'vmi-uid-1';
export const pod = 'pod-uid-1';

/** A directory of pods, and clients and scripted launchers on it; all of them end with `dispose`. */
export class ClientsBench {
  readonly #root = mkdtempSync(path.join(tmpdir(), 'pods-'));
  /** A test may choose a folder below. */
  podsDir = this.#root;
  readonly published: string[] = [];
  readonly cleanups: (() => void | Promise<void>)[] = [];

  clientsOf(options: Partial<LauncherClientsOptions> = {}): LauncherClients {
    const clients = new LauncherClients({ podsDir: this.podsDir, nodeName: 'node1', ...options });
    clients.subscribe({
      onConnecting: async ({ socketFile }) => void this.published.push(`connecting ${socketFile}`),
      onConnected: async () => void this.published.push('connected'),
      onBroken: () => void this.published.push('broken'),
      onDraining: async (_key, drained) => void this.published.push(`draining ${drained}`),
    });
    this.cleanups.push(() => clients.stop());
    return clients;
  }

  async launcherOf(podUid = pod, versions?: readonly number[] | 'none'): Promise<ScriptedLauncher> {
    const launcher = await ScriptedLauncher.start({
      socketFile: socketFileOf(this.podsDir, podUid),
      ...(versions && { versions }),
    });
    this.cleanups.push(() => launcher.stop());
    return launcher;
  }

  /** Listens and treats connections as told; for launchers that do not speak gRPC. */
  async rawServer(onConnection: (socket: Socket) => void): Promise<Server> {
    const socketFile = socketFileOf(this.podsDir, pod);
    mkdirSync(path.dirname(socketFile), { recursive: true });
    const sockets = new Set<Socket>();
    const server = createServer((socket) => {
      sockets.add(socket);
      socket.on('error', () => undefined);
      onConnection(socket);
    });
    await new Promise<void>((resolve) => server.listen(socketFile, resolve));
    this.cleanups.push(() => {
      for (const socket of sockets) socket.destroy();
      server.close();
    });
    return server;
  }

  async dispose(): Promise<void> {
    for (const cleanup of this.cleanups.reverse()) await cleanup();
    rmSync(this.#root, { recursive: true, force: true });
  }
}

/** Calls `take` with the bench of each test before it runs. */
export function eachTestHasClientsBench(take: (bench: ClientsBench) => void): void {
  let bench: ClientsBench;
  beforeEach(() => {
    bench = new ClientsBench();
    take(bench);
  });
  afterEach(() => bench.dispose());
}

export function targetOf(activePods: Record<string, string> = { [pod]: 'node1' }): LauncherTarget {
  return { key, uid, activePods };
}

export function hasCode(code: LauncherClientErrorCode, message?: string) {
  return (error: unknown) => {
    assert.ok(error instanceof LauncherClientError, String(error));
    assert.equal(error.code, code, error.message);
    if (message !== undefined) assert.equal(error.message, message);
    return true;
  };
}
