import { KubeVmis, kubeVmiLookup, kubeVmiWriter, launcherPort } from '../../../src/agent/adapters/index.ts';
import { type AgentPorts, VmiDispatcher } from '../../../src/agent/index.ts';
import { drain } from '../../../src/agent/leaving.ts';
import { type Key, keyOf, type VirtualMachineInstance } from '../../../src/api/index.ts';
import { silentLogger } from '../../../src/base/index.ts';
import { DomainCache } from '../../../src/domain-cache/index.ts';
import { EventRecorder } from '../../../src/kube/index.ts';
import { LauncherClients } from '../../../src/launcher-client/index.ts';
import { clusterConfig } from '../../fixtures/agent/builders.ts';
import { type Life, newLife, SimClock, type Wall } from '../engine/scheduler.ts';
import type { CallEnd } from '../judge.ts';
import type { SimApi } from './sim-api.ts';
import { type SimHostDeps, type SimNode, simDoors, simHost } from './sim-host.ts';
import { type ApiTrouble, SimKubeClient } from './sim-kube-client.ts';
import { SimRelays } from './sim-relays.ts';
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
  /** A pass over a key begins. */
  readonly onPass: (agent: SimAgent, key: Key) => void;
  /** False when an invariant is broken: a loop that never waits would never end. */
  readonly mayGoOn: () => boolean;
}

/** How long one that leaves waits for migrations. */
const gracefulMs = 20_000;

/** One process of the agent: the production code, wired as src/agent/node-agent.ts wires it, on this world. */
export class SimAgent {
  readonly life: Life;
  readonly dispatcher: VmiDispatcher;
  readonly domains: DomainCache;
  readonly clients: LauncherClients;
  readonly clock: SimClock;
  readonly node: SimNode;
  readonly relays: SimRelays;
  readonly #vmis: KubeVmis;
  readonly #recorder: EventRecorder;
  readonly #starting = new AbortController();

  constructor(name: string, deps: SimAgentDeps) {
    const { node, scheduler, chance, wall, wire } = deps;
    this.life = newLife(name);
    const { life } = this;
    this.node = node;
    this.relays = new SimRelays({ node, wire, life });
    const clock = new SimClock(scheduler, chance, wall, life);
    this.clock = clock;
    const random = () => chance.next();
    const client = new SimKubeClient({
      ...deps,
      life,
      onPut: (vmi) => deps.onPut(this, vmi),
      onWritten: (vmi) => deps.onWritten(this, vmi),
    });
    this.#vmis = new KubeVmis(node.name, { client, clock, random });
    this.#recorder = new EventRecorder({ component: 'virt-handler', host: node.name }, { client, clock, random });
    const hostDeps: SimHostDeps = {
      ...deps,
      life,
      onCall: (...call) => deps.onCall(this, ...call),
      onDomainSeen: (...seen) => deps.onDomainSeen(this, ...seen),
    };
    let domains: DomainCache | undefined;
    const cache = () => domains ?? unmade();
    this.clients = new LauncherClients(
      { podsDir: '/pods', nodeName: node.name, initTimeoutMs: Number.POSITIVE_INFINITY },
      {
        hooks: {
          register: (target, peer) => cache().register(target, peer),
          attached: (connection) => cache().attach(connection),
          released: (key, uid) => cache().released(key, uid),
        },
        host: simHost(hostDeps),
        clock,
      },
    );
    const recordFiles = node.disk.for(life, wire, (rate) => chance.happens(rate));
    domains = new DomainCache(
      { shareDir: '/share', privateDir: '/private' },
      { links: this.clients, clock, random, doors: simDoors(hostDeps), recordFiles },
    );
    this.domains = domains;
    this.dispatcher = new VmiDispatcher(
      { concurrency: 256, backoff: { baseMs: 20, maxMs: 60_000 } },
      { ports: this.#ports(client, deps), log: silentLogger, random },
    );
  }

  async start(): Promise<void> {
    await this.domains.start();
    await this.#vmis.start();
    await this.#vmis.waitForSync(this.#starting.signal);
    await this.dispatcher.start();
  }

  /** Sockets that this process has open to launchers. */
  connections(node: SimNode): number {
    return node.connectionsOf(this.life).length;
  }

  /** Its own watches show this VMI. */
  lists(vmi: VirtualMachineInstance): boolean {
    return this.#vmis.get(keyOf(vmi))?.metadata.uid === vmi.metadata.uid;
  }

  /** SIGKILL. */
  kill(): void {
    this.life.dead = true;
  }

  /** SIGTERM: in reverse order of the start. */
  async stop(): Promise<void> {
    this.#starting.abort(new Error('stopped'));
    const heartbeat = { leave: async () => undefined };
    await drain({ gracefulMs }, { heartbeat, relays: this.relays, clock: this.clock, log: silentLogger });
    await this.dispatcher.stop();
    this.relays.closeAll();
    await this.#vmis.stop();
    await this.domains.stop();
    this.clients.stop();
    await this.#recorder.stop();
  }

  #ports(client: SimKubeClient, { node, onPass, mayGoOn }: SimAgentDeps): AgentPorts {
    const { ghostRecords } = this.domains;
    const launchers = launcherPort(this.clients, '/');
    return {
      vmis: this.#vmis,
      lookup: kubeVmiLookup(client),
      writer: kubeVmiWriter(client),
      events: {
        record: (vmi, { type, reason, message }) => this.#recorder.record(vmi, type, reason, message),
        flush: () => this.#recorder.flush(),
      },
      domains: this.domains,
      ghosts: {
        // Asked once in each pass.
        get: (key) => {
          onPass(this, key);
          return ghostRecords.get(key);
        },
        byUid: (uid) => ghostRecords.byUid(uid),
        keys: () => ghostRecords.keys(),
      },
      launchers: {
        ...launchers,
        state: (target) => {
          if (mayGoOn()) return launchers.state(target);
          return new Promise(() => undefined);
        },
      },
      config: { current: () => clusterConfig },
      host: { nodeName: node.name, selinuxContext: () => 'none' },
      hooks: [],
      relays: this.relays,
      clock: this.clock,
    };
  }
}

function unmade(): never {
  throw new Error('the domain cache is made right after the clients');
}
