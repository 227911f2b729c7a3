import { type Key, resources } from '../api/index.ts';
import { type Component, errorMessage, type Logger, systemClock } from '../base/index.ts';
import {
  type AgentConfig,
  agentConfigReader,
  KeptFile,
  type KubeVirt,
  KubeVirtSettings,
} from '../cluster-config/index.ts';
import { DomainCache, type LauncherEvent } from '../domain-cache/index.ts';
import { EventRecorder, Informer, type KubeClient } from '../kube/index.ts';
import { LauncherClients } from '../launcher-client/index.ts';
import {
  KubeOwnNode,
  KubeVmis,
  kubeVmiLookup,
  kubeVmiWriter,
  launcherPort,
  type NodeFacts,
  noRelays,
} from './adapters/index.ts';
import { type Consoles, makeConsoles } from './consoles/index.ts';
import { deviceOwnership, hostDiskImages, unsupportedHostWork } from './host/index.ts';
import type { AgentOptions } from './options.ts';
import type { AgentPorts } from './ports.ts';
import type { InformerState } from './why/index.ts';

/** The real things that the agent is made of. */
export interface Parts {
  readonly client: KubeClient;
  readonly eventClient: KubeClient;
  readonly beatClient: KubeClient;
  readonly vmis: KubeVmis;
  readonly kubevirts: Informer<KubeVirt>;
  readonly settings: KubeVirtSettings<AgentConfig>;
  readonly ownNode: KubeOwnNode;
  readonly recorder: EventRecorder;
  readonly clients: LauncherClients;
  readonly domains: DomainCache;
  readonly consoles: Consoles;
}

interface PartsDeps {
  readonly client: KubeClient;
  readonly eventClient: KubeClient;
  readonly beatClient: KubeClient;
  /** The VMI loop has nothing to do: events may be written. */
  readonly whenQuiet: () => Promise<void>;
  readonly onStreams: (areOpen: boolean) => void;
}

/** Nothing is started and nothing is asked yet. */
export function makeParts(options: AgentOptions, log: Logger, deps: PartsDeps): Parts {
  const { client, eventClient, beatClient, whenQuiet, onStreams } = deps;
  const vmis = new KubeVmis(options.nodeName, { client, log });
  // Whoever may make such an object in another namespace does not configure KubeVirt.
  const { namespace } = options.console.caConfigMap;
  const kubevirts = new Informer<KubeVirt>({ type: resources.kubevirts, namespace }, { client, log });
  const kept = new KeptFile({ privateDir: options.privateDir, namespace }, { clock: systemClock, log });
  const reader = agentConfigReader(options.nodeName);
  const settings = new KubeVirtSettings({ reader, kubevirts, kept, clock: systemClock, log });
  const ownNode = new KubeOwnNode(options, { client, log });
  const recorder = new EventRecorder(
    { component: 'virt-handler', host: options.nodeName },
    { client: eventClient, log, whenQuiet },
  );
  const record = (key: Key, uid: string, { type, reason, message }: LauncherEvent) => {
    const vmi = vmis.get(key);
    if (vmi?.metadata.uid === uid) recorder.record(vmi, type, reason, message);
  };
  const { clients, domains } = launcherSide(options, log, record);
  const events = eventPort(recorder);
  const consoles = makeConsoles(options, { client, vmis, settings, clients, events, onStreams, log });
  const clientsOfApi = { client, eventClient, beatClient };
  return { ...clientsOfApi, vmis, kubevirts, settings, ownNode, recorder, clients, domains, consoles };
}

function eventPort(recorder: EventRecorder): AgentPorts['events'] {
  return {
    record: (vmi, { type, reason, message }) => recorder.record(vmi, type, reason, message),
    flush: () => recorder.flush(),
  };
}

interface HostDeps {
  readonly host: NodeFacts;
  readonly hostDevDir: string;
  readonly relays?: AgentPorts['relays'];
}

/** The real parts fitted to what the VMI loop asks for. */
export function portsOf(parts: Parts, { nodeName, podsDir, podIp }: AgentOptions, deps: HostDeps): AgentPorts {
  const { client, vmis, settings, recorder, clients, domains } = parts;
  return {
    vmis,
    lookup: kubeVmiLookup(client),
    writer: kubeVmiWriter(client),
    events: eventPort(recorder),
    domains,
    ghosts: domains.ghostRecords,
    launchers: launcherPort(clients, podsDir),
    config: { current: () => settings.current },
    host: hostFacts(deps.host, nodeName),
    hooks: [unsupportedHostWork(), hostDiskImages(), deviceOwnership({ hostDevDir: deps.hostDevDir })],
    relays: deps.relays ?? noRelays(podIp),
    clock: systemClock,
  };
}

/** What libvirt says about the machine is looked up each time: it may be another thing by then. */
function hostFacts(facts: NodeFacts, nodeName: string): AgentPorts['host'] {
  return {
    ...facts,
    nodeName,
    get topology() {
      return facts.topology;
    },
    get hostModel() {
      return facts.hostModel;
    },
  };
}

/** Their health, for those who look after the agent. */
export function informersOf({ vmis, kubevirts, ownNode, consoles }: Parts): InformerState[] {
  const named = [
    ...vmis.health.map((health) => ({ ...health, name: resources.virtualMachineInstances.resource })),
    { ...kubevirts.health, objects: kubevirts.size, name: resources.kubevirts.resource },
    { ...ownNode.health, name: resources.nodes.resource },
    { ...consoles.bundle.health, name: resources.configMaps.resource },
  ];
  return named.map(({ hasSynced, isConnected, lists: _lists, watches: _watches, ...rest }) => ({
    ...rest,
    synced: hasSynced,
    connected: isConnected,
  }));
}

/** What follows the configuration. Nothing of it waits for the API server for long. */
export function configurationOf({ kubevirts, settings }: Parts, log: Logger): Component[] {
  return [
    {
      name: 'kubevirt informer',
      start: async (signal) => {
        await settings.recall();
        // Whoever knows nothing takes defaults that might be taken back a moment later.
        await startOptional(kubevirts, { signal, timeoutMs: settings.isKnown ? 500 : 3_000 }, log);
      },
      stop: () => kubevirts.stop(),
    },
    { name: 'configuration', start: async () => settings.begin(), stop: () => settings.stop() },
  ];
}

/** In the order in which they start. The last one waits for the API server without limit. */
export function componentsOf(parts: Parts): Component[] {
  const { vmis, recorder, clients, domains, consoles } = parts;
  const nothing = async () => undefined;
  return [
    { name: 'events', start: nothing, stop: () => recorder.stop() },
    { name: 'launchers', start: nothing, stop: async () => clients.stop() },
    { name: 'domains', start: () => domains.start(), stop: () => domains.stop() },
    ...consoles.components,
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
        register: (target, peer) => cache().register(target, peer),
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

/** The KubeVirt object is worth a short wait: without it the last good configuration counts, and it is followed when it comes. */
async function startOptional(
  informer: Informer<KubeVirt>,
  { signal, timeoutMs }: { readonly signal: AbortSignal; readonly timeoutMs: number },
  log: Logger,
): Promise<void> {
  await informer.start();
  const limit = AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)]);
  await informer.waitForSync(limit).catch((error: unknown) => {
    if (signal.aborted) throw error;
    log.warn({ reason: errorMessage(error) }, 'the KubeVirt object cannot be read yet: it is followed when it can');
  });
}
