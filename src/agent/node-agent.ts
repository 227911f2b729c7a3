import { type AgentState, type Key, resources } from '../api/index.ts';
import { type Component, errorMessage, Lifecycle, type Logger, systemClock } from '../base/index.ts';
import { DomainCache, type LauncherEvent } from '../domain-cache/index.ts';
import { EventRecorder, Informer, type KubeAccess, KubeClient } from '../kube/index.ts';
import { LauncherClients } from '../launcher-client/index.ts';
import {
  clusterConfigSource,
  type KubeVirt,
  KubeVmis,
  kubeVmiLookup,
  kubeVmiWriter,
  launcherPort,
  type NodeFacts,
  noRelays,
} from './adapters/index.ts';
import { defaultDispatcherOptions, VmiDispatcher } from './dispatcher.ts';
import { ForgottenGuests } from './forgotten-guests.ts';
import { Heartbeat, type NodePatch } from './heartbeat/index.ts';
import { deviceOwnership, hostDiskImages, unsupportedHostWork } from './host/index.ts';
import { drain, notReadyYet } from './leaving.ts';
import type { AgentOptions } from './options.ts';
import type { AgentPorts } from './ports.ts';
import { type InformerState, type LoopDelay, measureLoopDelay, readState, WhyServer, WhyService } from './why/index.ts';

export interface NodeAgentDeps {
  readonly access: KubeAccess;
  readonly log: Logger;
  readonly host: NodeFacts;
  /** Devices of the machine, to tell a launcher's own from them. */
  readonly hostDevDir: string;
}

const heartbeatPeriodMs = 60_000;
const stopTimeoutMs = 8_000;
const markTimeoutMs = 4_000;

/**
 * The whole agent: real parts fitted to the ports, in the order in which they start. It is ready when its VMIs are listed;
 * every VMI's own launcher is asked before anything is decided about it.
 */
export class NodeAgent {
  readonly dispatcher: VmiDispatcher;
  readonly #options: AgentOptions;
  readonly #log: Logger;
  readonly #client: KubeClient;
  /** Events have a rate limit and a connection of their own: after a burst of starts they would keep status writes waiting. */
  readonly #eventClient: KubeClient;
  readonly #relays: AgentPorts['relays'];
  readonly #heartbeat: Heartbeat;
  readonly #loopDelay: LoopDelay;
  readonly #lifecycle: Lifecycle;
  #phase: AgentState['phase'] = 'starting';

  constructor(options: AgentOptions, deps: NodeAgentDeps) {
    const { log } = deps;
    this.#options = options;
    this.#log = log;
    this.#client = new KubeClient({ userAgent: 'virt-handler' }, { access: deps.access, log });
    this.#eventClient = new KubeClient({ userAgent: 'virt-handler', maxSockets: 1 }, { access: deps.access, log });
    const parts = makeParts(options, log, { client: this.#client, eventClient: this.#eventClient });
    const ports = portsOf(parts, options, deps);
    this.#relays = ports.relays;
    this.dispatcher = new VmiDispatcher(defaultDispatcherOptions, { ports, log });
    this.#heartbeat = this.#createHeartbeat(options, log);
    this.#loopDelay = measureLoopDelay();
    const forgotten = new ForgottenGuests(options, { ...ports, ghosts: parts.domains.ghostRecords, log });
    const components = [
      this.#createWhy(parts),
      notReadyYet(this.#heartbeat),
      ...componentsOf(parts, log),
      this.dispatcher,
      forgotten,
      this.#heartbeat,
    ];
    this.#lifecycle = new Lifecycle(components, { stopTimeoutMs });
  }

  /** Rejects when a part does not start; waits without limit for an API server that is away. */
  async start(signal: AbortSignal): Promise<void> {
    await this.#lifecycle.start(signal);
    this.#phase = 'serving';
  }

  /**
   * The agent leaves: the node is marked, running migrations are waited for, running passes end, events are written. No VM is
   * touched. Takes up to `gracefulShutdownMs` and some seconds.
   */
  async stop(): Promise<void> {
    const wasServing = this.#phase === 'serving';
    this.#phase = 'leaving';
    try {
      if (wasServing) await this.#drain();
      await this.#lifecycle.stop();
    } finally {
      this.#loopDelay.stop();
      this.#client.close();
      this.#eventClient.close();
    }
  }

  async #drain(): Promise<void> {
    const deps = { heartbeat: this.#heartbeat, relays: this.#relays, clock: systemClock, log: this.#log };
    await drain({ gracefulMs: this.#options.gracefulShutdownMs }, deps);
  }

  #createWhy(parts: Parts): WhyServer {
    const { nodeName, privateDir } = this.#options;
    const state = () =>
      readState(nodeName, {
        loop: this.dispatcher,
        informers: () => informersOf(parts),
        domains: parts.domains,
        relays: this.#relays,
        heartbeat: this.#heartbeat,
        phase: () => this.#phase,
        clock: systemClock,
        loopDelay: this.#loopDelay,
      });
    const service = new WhyService({ nodeName }, { source: this.dispatcher, state, clock: systemClock });
    return new WhyServer({ privateDir, pid: process.pid }, { service, log: this.#log, clock: systemClock });
  }

  #createHeartbeat({ nodeName }: AgentOptions, log: Logger): Heartbeat {
    return new Heartbeat(
      { nodeName, periodMs: heartbeatPeriodMs, markTimeoutMs },
      {
        patchNode: async (name: string, patch: NodePatch, signal: AbortSignal) => {
          await this.#client.patch(resources.nodes, { name }, patch, 'strategic', { signal });
        },
        clock: systemClock,
        log,
        random: Math.random,
      },
    );
  }
}

interface Parts {
  readonly client: KubeClient;
  readonly vmis: KubeVmis;
  readonly kubevirts: Informer<KubeVirt>;
  readonly recorder: EventRecorder;
  readonly clients: LauncherClients;
  readonly domains: DomainCache;
}

interface Clients {
  readonly client: KubeClient;
  readonly eventClient: KubeClient;
}

function makeParts(options: AgentOptions, log: Logger, { client, eventClient }: Clients): Parts {
  const vmis = new KubeVmis(options.nodeName, { client, log });
  const kubevirts = new Informer<KubeVirt>({ type: resources.kubevirts }, { client, log });
  const recorder = new EventRecorder(
    { component: 'virt-handler', host: options.nodeName },
    { client: eventClient, log },
  );
  const record = (key: Key, uid: string, { type, reason, message }: LauncherEvent) => {
    const vmi = vmis.get(key);
    if (vmi?.metadata.uid === uid) recorder.record(vmi, type, reason, message);
  };
  return { client, vmis, kubevirts, recorder, ...launcherSide(options, log, record) };
}

/** The real parts fitted to what the VMI loop asks for. */
function portsOf(parts: Parts, { nodeName, podsDir, podIp }: AgentOptions, deps: NodeAgentDeps): AgentPorts {
  const { client, vmis, kubevirts, recorder, clients, domains } = parts;
  return {
    vmis,
    lookup: kubeVmiLookup(client),
    writer: kubeVmiWriter(client),
    events: {
      record: (vmi, { type, reason, message }) => recorder.record(vmi, type, reason, message),
      flush: () => recorder.flush(),
    },
    domains,
    ghosts: domains.ghostRecords,
    launchers: launcherPort(clients, podsDir),
    config: clusterConfigSource(() => kubevirts.list()),
    host: { ...deps.host, nodeName },
    hooks: [unsupportedHostWork(), hostDiskImages(), deviceOwnership({ hostDevDir: deps.hostDevDir })],
    relays: noRelays(podIp),
    clock: systemClock,
  };
}

function informersOf({ vmis, kubevirts }: Parts): InformerState[] {
  const named = [
    ...vmis.health.map((health) => ({ ...health, name: resources.virtualMachineInstances.resource })),
    { ...kubevirts.health, objects: kubevirts.size, name: resources.kubevirts.resource },
  ];
  return named.map(({ hasSynced, isConnected, lists: _lists, watches: _watches, ...rest }) => ({
    ...rest,
    synced: hasSynced,
    connected: isConnected,
  }));
}

/** In the order in which they start. */
function componentsOf({ vmis, kubevirts, recorder, clients, domains }: Parts, log: Logger): Component[] {
  const nothing = async () => undefined;
  return [
    { name: 'events', start: nothing, stop: () => recorder.stop() },
    {
      name: 'kubevirt informer',
      start: (signal) => startOptional(kubevirts, signal, log),
      stop: () => kubevirts.stop(),
    },
    { name: 'launchers', start: nothing, stop: async () => clients.stop() },
    { name: 'domains', start: () => domains.start(), stop: () => domains.stop() },
    {
      name: vmis.name,
      start: async (signal) => {
        await vmis.start();
        await vmis.waitForSync(signal);
      },
      stop: () => vmis.stop(),
    },
  ];
}

type OnLauncherEvent = NonNullable<ConstructorParameters<typeof DomainCache>[1]['onLauncherEvent']>;

/** Launcher clients and domain cache know each other through hooks. */
function launcherSide(options: AgentOptions, log: Logger, onLauncherEvent: OnLauncherEvent) {
  const { shareDir, privateDir, podsDir, nodeName, domainResyncPeriodMs, watchdogTimeoutMs } = options;
  let domains: DomainCache | undefined;
  const cache = (): DomainCache => {
    if (!domains) throw new Error('the domain cache is made right after the clients');
    return domains;
  };
  // A socket that is late is this agent's decision (rule launcher-never-ready), not a proof of death.
  const clients = new LauncherClients(
    { podsDir, nodeName, initTimeoutMs: Number.POSITIVE_INFINITY },
    {
      hooks: {
        register: (target) => cache().register(target),
        attached: (connection) => cache().attach(connection),
        released: (key: Key, uid: string) => cache().released(key, uid),
      },
      logger: log,
    },
  );
  const watchdogMs = (Math.floor(watchdogTimeoutMs / 3000) + 1) * 1000;
  domains = new DomainCache(
    { shareDir, privateDir, resyncMs: domainResyncPeriodMs, watchdogMs },
    {
      links: clients,
      onLauncherEvent,
      onProblem: (key, uid, problem) => {
        if (problem) onLauncherEvent(key, uid, { type: 'Warning', reason: 'SyncFailed', message: problem.message });
      },
      logger: log,
    },
  );
  return { clients, domains };
}

/** The KubeVirt object is worth a short wait: without it the defaults count, and it is followed when it comes. */
async function startOptional(informer: Informer<KubeVirt>, signal: AbortSignal, log: Logger): Promise<void> {
  await informer.start();
  const limit = AbortSignal.any([signal, AbortSignal.timeout(3_000)]);
  await informer.waitForSync(limit).catch((error: unknown) => {
    if (signal.aborted) throw error;
    log.warn({ reason: errorMessage(error) }, 'no KubeVirt object could be read: the defaults are used until one can');
  });
}
