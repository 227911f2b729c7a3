import { type Key, resources } from '../api/index.ts';
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
} from './adapters/index.ts';
import { defaultDispatcherOptions, VmiDispatcher } from './dispatcher.ts';
import { Heartbeat, type NodePatch } from './heartbeat/index.ts';
import { deviceOwnership, hostDiskImages, unsupportedHostWork } from './host/index.ts';
import type { AgentOptions } from './options.ts';
import type { AgentPorts, NumaCell } from './ports.ts';

export interface NodeAgentDeps {
  readonly access: KubeAccess;
  readonly log: Logger;
  readonly topology: readonly NumaCell[];
  /** Devices of the machine, to tell a launcher's own from them. */
  readonly hostDevDir: string;
}

const heartbeatPeriodMs = 60_000;
const stopTimeoutMs = 8_000;

/**
 * The whole agent: real parts fitted to the ports, in the order in which they start. It is ready when its VMIs are listed;
 * every VMI's own launcher is asked before anything is decided about it.
 */
export class NodeAgent {
  readonly dispatcher: VmiDispatcher;
  readonly #client: KubeClient;
  readonly #lifecycle: Lifecycle;

  constructor(options: AgentOptions, deps: NodeAgentDeps) {
    const { log } = deps;
    this.#client = new KubeClient({ userAgent: 'virt-handler' }, { access: deps.access, log });
    const vmis = new KubeVmis(options.nodeName, { client: this.#client, log });
    const kubevirts = new Informer<KubeVirt>({ type: resources.kubevirts }, { client: this.#client, log });
    const recorder = new EventRecorder(
      { component: 'virt-handler', host: options.nodeName },
      { client: this.#client, log },
    );
    const record = (key: Key, uid: string, { type, reason, message }: LauncherEvent) => {
      const vmi = vmis.get(key);
      if (vmi?.metadata.uid === uid) recorder.record(vmi, type, reason, message);
    };
    const { clients, domains } = launcherSide(options, log, record);
    const ports: AgentPorts = {
      vmis,
      lookup: kubeVmiLookup(this.#client),
      writer: kubeVmiWriter(this.#client),
      events: {
        record: (vmi, { type, reason, message }) => recorder.record(vmi, type, reason, message),
        flush: () => recorder.flush(),
      },
      domains,
      ghosts: domains.ghostRecords,
      launchers: launcherPort(clients, options.podsDir),
      config: clusterConfigSource(() => kubevirts.list()),
      host: {
        nodeName: options.nodeName,
        ...(deps.topology.length > 0 && { topology: deps.topology }),
        selinuxContext: () => 'none',
      },
      hooks: [unsupportedHostWork(), hostDiskImages(), deviceOwnership({ hostDevDir: deps.hostDevDir })],
      clock: systemClock,
    };
    this.dispatcher = new VmiDispatcher(defaultDispatcherOptions, { ports, log });
    const heartbeat = this.#createHeartbeat(options, log);
    this.#lifecycle = new Lifecycle(
      [
        component(
          'events',
          async () => undefined,
          () => recorder.stop(),
        ),
        component(
          'kubevirt informer',
          (signal) => startOptional(kubevirts, signal, log),
          () => kubevirts.stop(),
        ),
        component(
          'launchers',
          async () => undefined,
          async () => clients.stop(),
        ),
        component(
          'domains',
          () => domains.start(),
          () => domains.stop(),
        ),
        component(
          vmis.name,
          async (signal) => {
            await vmis.start();
            await vmis.waitForSync(signal);
          },
          () => vmis.stop(),
        ),
        this.dispatcher,
        heartbeat,
      ],
      { stopTimeoutMs },
    );
  }

  /** Rejects when a part does not start; waits without limit for an API server that is away. */
  start(signal: AbortSignal): Promise<void> {
    return this.#lifecycle.start(signal);
  }

  /** The agent leaves: the node is marked, running passes end, events are written. No VM is touched. */
  async stop(): Promise<void> {
    try {
      await this.#lifecycle.stop();
    } finally {
      this.#client.close();
    }
  }

  #createHeartbeat({ nodeName }: AgentOptions, log: Logger): Heartbeat {
    return new Heartbeat(
      { nodeName, periodMs: heartbeatPeriodMs, stopTimeoutMs: stopTimeoutMs / 2 },
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

function component(name: string, start: (signal: AbortSignal) => Promise<void>, stop: () => Promise<void>): Component {
  return { name, start, stop };
}
