import type { AgentPorts, VmiDispatcher } from '../../../src/agent/index.ts';
import { drain } from '../../../src/agent/leaving.ts';
import {
  type AgentWorld,
  makeDispatcher,
  makeVmiParts,
  orphanedHostWork,
  type VmiParts,
  vmiComponents,
  vmiPorts,
} from '../../../src/agent/vmi/vmi-parts.ts';
import { type Key, keyOf, type VirtualMachineInstance } from '../../../src/api/index.ts';
import { Lifecycle, silentLogger } from '../../../src/base/index.ts';
import { clusterConfig } from '../../fixtures/agent/builders.ts';
import { type Life, newLife, SimClock, type Wall } from '../engine/scheduler.ts';
import type { CallEnd } from '../judge.ts';
import type { SimApi } from './sim-api.ts';
import { type Mount, simHook } from './sim-hook.ts';
import { type SimHostDeps, type SimNode, simHost, simListeners } from './sim-host.ts';
import { type ApiTrouble, SimKubeClient } from './sim-kube-client.ts';
import { SimProxies } from './sim-migration-proxies.ts';
import type { WatchStream } from './watch-stream.ts';

export interface SimAgentDeps extends Pick<SimHostDeps, 'node' | 'wire' | 'scheduler' | 'chance' | 'moveOf'> {
  readonly api: SimApi;
  readonly trouble: ApiTrouble;
  readonly streams: Set<WatchStream>;
  readonly wall: Wall;
  readonly note: (text: string) => void;
  readonly onNews: () => void;
  readonly onPut: (agent: SimAgent, vmi: VirtualMachineInstance) => void;
  readonly onWritten: (agent: SimAgent, vmi: VirtualMachineInstance) => void;
  readonly onCall: (agent: SimAgent, ...call: Parameters<SimHostDeps['onCall']>) => CallEnd;
  readonly onDomainSeen: (agent: SimAgent, ...seen: Parameters<SimHostDeps['onDomainSeen']>) => void;
  /** Hooks do something on the node. */
  readonly hasHostWork: boolean;
  readonly onUnmount: (agent: SimAgent, mount: Mount) => void;
  /** A pass over a key begins. */
  readonly onPass: (agent: SimAgent, key: Key) => void;
  /** False when an invariant is broken: a loop that never waits would never end. */
  readonly mayGoOn: () => boolean;
}

/** How long one that leaves waits for migrations. */
const gracefulMs = 20_000;
/** As the agent has it. */
const stopTimeoutMs = 8_000;

/** As the flags of the agent have them, on directories that exist nowhere. */
const options = {
  podsDir: '/pods',
  shareDir: '/share',
  privateDir: '/private',
  domainResyncPeriodMs: 300_000,
  watchdogTimeoutMs: 30_000,
};

/** One process of the agent: the production code in its own composition, on this world. */
export class SimAgent {
  readonly life: Life;
  readonly dispatcher: VmiDispatcher;
  readonly clock: SimClock;
  readonly node: SimNode;
  readonly migrationProxies: SimProxies;
  readonly #parts: VmiParts;
  readonly #lifecycle: Lifecycle;
  readonly #starting = new AbortController();

  constructor(name: string, deps: SimAgentDeps) {
    const { node, scheduler, chance, wall, wire } = deps;
    this.life = newLife(name);
    const { life } = this;
    this.node = node;
    this.migrationProxies = new SimProxies({ node, wire, life });
    const clock = new SimClock(scheduler, chance, wall, life);
    this.clock = clock;
    const client = new SimKubeClient({
      ...deps,
      life,
      onPut: (vmi) => deps.onPut(this, vmi),
      onWritten: (vmi) => deps.onWritten(this, vmi),
    });
    const hostDeps: SimHostDeps = {
      ...deps,
      life,
      onCall: (...call) => deps.onCall(this, ...call),
      onDomainSeen: (...seen) => deps.onDomainSeen(this, ...seen),
    };
    const world: AgentWorld = {
      clock,
      random: () => chance.next(),
      launchers: simHost(hostDeps),
      notifyListeners: simListeners(hostDeps),
      recordFiles: node.disk.for(life, wire, (rate) => chance.happens(rate)),
      checkpointFiles: node.checkpoints.for(life, wire, (rate) => chance.happens(rate)),
    };
    const whenQuiet = () => this.dispatcher.reconciler.whenIdle();
    const onUnmount = (mount: Mount) => deps.onUnmount(this, mount);
    const hooks = deps.hasHostWork ? [simHook({ ...deps, life, onUnmount })] : [];
    const kube = { client, eventClient: client, whenQuiet, hooks, log: silentLogger };
    this.#parts = makeVmiParts({ ...options, nodeName: node.name }, kube, world);
    const ports = this.#ports(client, deps);
    this.dispatcher = makeDispatcher(ports, { log: silentLogger }, world);
    const orphaned = orphanedHostWork({ nodeName: node.name }, this.#parts, ports, { log: silentLogger, world });
    const migrationProxies = {
      name: 'migrationProxies',
      start: async () => undefined,
      stop: async () => this.migrationProxies.closeAll(),
    };
    this.#lifecycle = new Lifecycle([...vmiComponents(this.#parts), migrationProxies, this.dispatcher, orphaned], {
      stopTimeoutMs,
      clock,
    });
  }

  get domains(): VmiParts['domains'] {
    return this.#parts.domains;
  }

  get clients(): VmiParts['clients'] {
    return this.#parts.clients;
  }

  async start(): Promise<void> {
    await this.#lifecycle.start(this.#starting.signal);
  }

  /** Sockets that this process has open to launchers. */
  connections(node: SimNode): number {
    return node.connectionsOf(this.life).length;
  }

  /** Its own watches show this VMI. */
  lists(vmi: VirtualMachineInstance): boolean {
    return this.#parts.vmis.get(keyOf(vmi))?.metadata.uid === vmi.metadata.uid;
  }

  /** SIGKILL. */
  kill(): void {
    this.life.dead = true;
  }

  /** SIGTERM: in reverse order of the start. */
  async stop(): Promise<void> {
    this.#starting.abort(new Error('stopped'));
    const heartbeat = { leave: async () => undefined };
    await drain(
      { gracefulMs },
      { heartbeat, migrationProxies: this.migrationProxies, clock: this.clock, log: silentLogger },
    );
    await this.#lifecycle.stop();
  }

  #ports(client: SimKubeClient, { node, onPass, mayGoOn }: SimAgentDeps): AgentPorts {
    const ports = vmiPorts(this.#parts, {
      client,
      config: { current: () => clusterConfig },
      host: { nodeName: node.name, selinuxContext: () => 'none' },
      migrationProxies: this.migrationProxies,
      clock: this.clock,
    });
    return {
      ...ports,
      ghosts: counted(ports.ghosts, (key) => onPass(this, key)),
      launchers: ending(ports.launchers, mayGoOn),
    };
  }
}

/** The record of a key is asked for once in each pass. */
function counted(ghosts: AgentPorts['ghosts'], onPass: (key: Key) => void): AgentPorts['ghosts'] {
  return {
    get: (key) => {
      onPass(key);
      return ghosts.get(key);
    },
    byUid: (uid) => ghosts.byUid(uid),
    keys: () => ghosts.keys(),
  };
}

/** A world that has ended answers nothing more. */
function ending(launchers: AgentPorts['launchers'], mayGoOn: () => boolean): AgentPorts['launchers'] {
  return { ...launchers, state: (target) => (mayGoOn() ? launchers.state(target) : new Promise(() => undefined)) };
}
