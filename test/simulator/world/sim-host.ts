import type { LauncherAddress, LauncherTarget } from '../../../src/api/index.ts';
import type { NotifyIntake, NotifyListener, NotifyListeners } from '../../../src/domain-cache/index.ts';
import {
  type ConnectionDeps,
  LauncherClientError,
  type LauncherHost,
  type Probe,
  type ProbedSocket,
} from '../../../src/launcher-client/index.ts';
import type { Chance } from '../engine/chance.ts';
import type { Life, Scheduler } from '../engine/scheduler.ts';
import type { Wire } from '../engine/wire.ts';
import type { CallEnd } from '../judge.ts';
import type { Move } from './migration-move.ts';
import { SimConnection } from './sim-connection.ts';
import { SimDisk } from './sim-disk.ts';
import type { HookTrouble, Mount } from './sim-hook.ts';
import type { SimLauncher } from './sim-launcher.ts';

/** The machine that launchers run on; it outlives agents and launchers. */
export class SimNode {
  readonly name: string;
  /** Under which other nodes reach its listeners. */
  readonly address: string;
  readonly disk = new SimDisk();
  /** On the same disk. */
  readonly checkpoints = new SimDisk(this.disk.trouble);
  /** What hooks made here, by its name. */
  readonly mounts = new Map<string, Mount>();
  readonly hookTrouble: HookTrouble = { failRate: 0, hangsUntilMs: 0 };
  /** UIDs whose checkpoint was torn: nobody can undo what stood in it. */
  readonly tornCheckpoints = new Set<string>();
  /** By pod UID; a pod whose directory is gone has none. */
  readonly launchers = new Map<string, SimLauncher>();
  readonly connections = new Set<SimConnection>();
  readonly #watchers = new Set<{
    readonly podUids: readonly string[];
    readonly life: Life;
    readonly publish: () => void;
  }>();
  /** Pipes cannot be made. */
  pipesFail = false;
  /** Streams of migrations cannot be opened. */
  proxyFail = false;
  #nextPort = 40_000;
  #nextMount = 1;

  constructor(name: string, address: string) {
    this.name = name;
    this.address = address;
  }

  freePort(): number {
    return this.#nextPort++;
  }

  nextMount(): number {
    return this.#nextMount++;
  }

  byUid(uid: string): SimLauncher[] {
    return [...this.launchers.values()].filter(({ options }) => options.uid === uid);
  }

  bySocket(socketFile: string): SimLauncher | undefined {
    return [...this.launchers.values()].find((launcher) => launcher.socketFile === socketFile);
  }

  watch(podUids: readonly string[], life: Life, publish: () => void): () => void {
    const watcher = { podUids, life, publish };
    this.#watchers.add(watcher);
    return () => this.#watchers.delete(watcher);
  }

  /** A socket appeared, or a process ended. */
  changed(launcher: SimLauncher): void {
    for (const { podUids, life, publish } of this.#watchers) {
      if (!life.dead && podUids.includes(launcher.options.podUid)) publish();
    }
    if (!launcher.alive) for (const connection of this.connections) connection.onLauncherEnded(launcher);
  }

  /** Sockets that this process holds open. */
  connectionsOf(life: Life): SimConnection[] {
    return [...this.connections].filter((connection) => connection.life === life && !connection.closed);
  }
}

export interface SimHostDeps {
  readonly node: SimNode;
  readonly wire: Wire;
  readonly scheduler: Scheduler;
  readonly chance: Chance;
  readonly life: Life;
  /** Before a call leaves the agent. */
  readonly onCall: (launcher: SimLauncher, rpc: string, body: string) => CallEnd;
  readonly moveOf: (migrationUid: string) => Move | undefined;
  /** An answer about the domain reached the agent. */
  readonly onDomainSeen: (launcher: SimLauncher, json: string) => void;
}

const dialTimeoutMs = 2_000;
const probeTimeoutMs = 5_000;

/** The node's launchers as one agent finds them. */
export function simHost(deps: SimHostDeps): LauncherHost {
  const { node, wire, scheduler, chance, life } = deps;
  const podsOf = (target: LauncherTarget) =>
    Object.entries(target.activePods).flatMap(([podUid, name]) => (name === node.name ? [podUid] : []));
  const hasDirectory = (target: LauncherTarget) => podsOf(target).some((podUid) => node.launchers.has(podUid));
  const probeAndPin = (socketFile: string): Promise<Probe> =>
    wire.request({ life, label: 'probe' }, async () => {
      const launcher = node.bySocket(socketFile);
      if (!launcher?.socketExists) return { listening: 'missing' };
      if (!launcher.alive) return { listening: 'refused' };
      if (!launcher.isHung || chance.happens(0.7)) {
        const socket = { socketAddress: socketFile, close: () => undefined };
        return { listening: 'listening', found: { socketFile, peer: launcher.process, socket } };
      }
      return await new Promise((resolve) => {
        scheduler.after(probeTimeoutMs, 'probe gives up', life, () => resolve({ listening: 'hung' }));
      });
    });
  return {
    findSockets: (target) => {
      const found = podsOf(target).flatMap((podUid) => node.launchers.get(podUid) ?? []);
      const sockets = found.filter(({ socketExists }) => socketExists).map(({ socketFile }) => socketFile);
      if (sockets.length > 0 || target.socketFile === undefined || hasDirectory(target)) return sockets;
      return [target.socketFile];
    },
    hasPodDirectory: hasDirectory,
    hasAnyPod: () => true,
    markUnresponsive: () => undefined,
    watch: (target, onAppeared) => {
      const close = node.watch(podsOf(target), life, () => {
        scheduler.after(chance.latencyMs(), 'inotify', life, onAppeared);
      });
      return { close };
    },
    probe: async (socketFile) => (await probeAndPin(socketFile)).listening,
    probeAndPin,
    isProcessAlive: ({ pid }) =>
      [...node.launchers.values()].some(({ options, alive }) => alive && options.pid === pid),
    open: (address, connectionDeps, probed) => open(address, connectionDeps, probed, deps),
  };
}

async function open(
  address: LauncherAddress,
  hooks: ConnectionDeps,
  probed: ProbedSocket | undefined,
  deps: SimHostDeps,
): Promise<SimConnection> {
  const { node, wire, scheduler, life } = deps;
  return wire.request({ life, label: `dial ${address.uid}` }, async () => {
    const launcher = node.bySocket(address.socketFile);
    if (!launcher?.socketExists) throw new LauncherClientError('NO_PEER', `${address.socketFile}: no such file`);
    // What a probe found is pinned: another launcher in its place is not reached by it.
    const isSeen = probed === undefined || probed.peer.pid === launcher.process.pid;
    if (!launcher.alive || !isSeen)
      throw new LauncherClientError('NOT_LISTENING', `${address.socketFile}: nobody listens`);
    if (launcher.isHung) {
      await new Promise<void>((resolve) => scheduler.after(dialTimeoutMs, 'dial gives up', life, resolve));
      throw new LauncherClientError('TIMEOUT', `${address.socketFile} did not answer`);
    }
    return new SimConnection(address, launcher, hooks, deps);
  });
}

/** The listeners for launchers' events, as one agent makes them. */
export function simListeners({ node, wire, life }: SimHostDeps): NotifyListeners {
  const nothing = async () => undefined;
  return {
    start: nothing,
    ensure: nothing,
    stop: nothing,
    open: async ({ address }, intake: NotifyIntake): Promise<NotifyListener> => {
      const pipe = { intake, agent: life, open: true };
      await wire.request({ life, label: `pipe for ${address.uid}` }, () => {
        if (node.pipesFail) throw new Error('no notify pipe');
        node.bySocket(address.socketFile)?.notifier.usePipe(pipe);
      });
      return {
        close: async () => {
          pipe.open = false;
        },
      };
    },
    isAlive: ({ pid }) => [...node.launchers.values()].some(({ options, alive }) => alive && options.pid === pid),
  };
}
