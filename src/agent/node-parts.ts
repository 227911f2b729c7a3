import { networkInterfaces } from 'node:os';
import path from 'node:path';
import { type ResourceType, resources } from '../api/index.ts';
import { type Component, errorMessage, type Logger } from '../base/index.ts';
import {
  type AgentConfig,
  agentConfigReader,
  KeptFile,
  type KubeVirt,
  KubeVirtSettings,
} from '../cluster-config/index.ts';
import { hasNetworkLink, KernelMounts, recordDirectory, Storage } from '../host/index.ts';
import { Informer, type KubeClient, orMissing } from '../kube/index.ts';
import {
  AgentProxies,
  HaproxyProxies,
  type MigrationProxies,
  migrationAddress,
  migrationInterface,
  noMigrationAddress,
  noMigrationProxy,
  ProxyCredentials,
  RelayedProxies,
  relayDirectory,
} from './migration-proxy/index.ts';
import type { NodeFacts } from './node/facts/index.ts';
import { KubeOwnNode } from './node/own-node.ts';
import type { AgentOptions } from './options.ts';
import type { InformerState } from './serve/explain/index.ts';
import { sampledLaunchers } from './serve/metrics/index.ts';
import { MigrationFollower } from './serve/migration-progress/index.ts';
import { type Consoles, makeConsoles } from './serve/server/index.ts';
import { hostHooks, launcherFileSizes } from './vmi/host/index.ts';
import type { AgentPorts } from './vmi/ports.ts';
import { type AgentWorld, eventPort, makeVmiParts, type VmiParts, vmiPorts } from './vmi/vmi-parts.ts';

/** The real things that the agent is made of. */
export interface Parts extends VmiParts {
  readonly world: AgentWorld;
  readonly client: KubeClient;
  readonly eventClient: KubeClient;
  readonly beatClient: KubeClient;
  readonly kubevirts: Informer<KubeVirt>;
  readonly settings: KubeVirtSettings<AgentConfig>;
  readonly ownNode: KubeOwnNode;
  readonly consoles: Consoles;
  readonly migration: Migration;
}

/** The streams of live migrations, and what of them starts and stops with the agent. */
interface Migration {
  readonly proxies: MigrationProxies;
  readonly follower?: MigrationFollower;
  /** With `--migration-relay`: why it cannot be reached, in words. */
  readonly relayProblem?: () => string | undefined;
  readonly components: readonly Component[];
}

interface PartsDeps {
  readonly world: AgentWorld;
  readonly client: KubeClient;
  readonly eventClient: KubeClient;
  readonly beatClient: KubeClient;
  /** The VMI loop has nothing to do: events may be written. */
  readonly whenQuiet: () => Promise<void>;
  readonly onStreams: (areOpen: boolean) => void;
  readonly hostDevDir: string;
  readonly hostRoot: string;
  readonly hostPid: number;
}

/** Nothing is started and nothing is asked yet. */
export function makeParts(options: AgentOptions, log: Logger, deps: PartsDeps): Parts {
  const { world, client, eventClient, beatClient, whenQuiet, onStreams } = deps;
  const { clock, random } = world;
  const kube = { client, log, clock, random };
  // A user who may make such an object in another namespace does not configure KubeVirt.
  const { namespace } = options.console.caConfigMap;
  const kubevirts = new Informer<KubeVirt>({ type: resources.kubevirts, namespace }, kube);
  const kept = new KeptFile({ privateDir: options.privateDir, namespace }, { clock, log });
  const reader = agentConfigReader(options.nodeName);
  const settings = new KubeVirtSettings({ reader, kubevirts, kept, clock, log });
  const ownNode = new KubeOwnNode(options, kube);
  const hooks = makeHooks(options, deps, log);
  const loop = makeVmiParts(options, { client, eventClient, whenQuiet, hooks, log }, world);
  const events = eventPort(loop.recorder);
  const consoles = makeConsoles(options, { ...loop, client, settings, events, onStreams, clock, log });
  const migration = makeMigration(options, { ...loop, settings, tls: consoles.tls, clock, log });
  return { ...loop, world, client, eventClient, beatClient, kubevirts, settings, ownNode, consoles, migration };
}

interface MigrationDeps extends Pick<VmiParts, 'vmis' | 'domains' | 'clients'> {
  readonly settings: KubeVirtSettings<AgentConfig>;
  readonly tls: Consoles['tls'];
  readonly clock: AgentWorld['clock'];
  readonly log: Logger;
}

/** The one place where it is decided whether this node takes part in live migrations. */
function makeMigration({ migration, podIp, privateDir }: AgentOptions, deps: MigrationDeps): Migration {
  if (!migration) return { proxies: noMigrationProxy(podIp), components: [] };
  const { settings, tls, vmis, domains, clients, clock, log } = deps;
  const relayed = migration.isRelayed
    ? new RelayedProxies({ directory: relayDirectory(privateDir), address: podIp }, { clock, log })
    : undefined;
  const { stallSeconds } = migration;
  const keeper = relayed ?? ownProxies({ podIp, privateDir, stallSeconds }, { clock, log });
  const objection = () =>
    settings.current.migrations.disableTls
      ? 'migrations.disableTLS of the KubeVirt object is set: this node agent carries no streams without TLS'
      : undefined;
  const credentials = new ProxyCredentials(migration, tls);
  const { resumeMs } = migration;
  const proxies = new AgentProxies({ resumeMs, stallSeconds }, { keeper, credentials, objection, clock });
  const launchers = sampledLaunchers(clients);
  const follower = new MigrationFollower({ proxies, vmis, domains, launchers, clock, log });
  // Before the proxies, which report those that they adopt.
  const components = [follower, proxies];
  return { proxies, follower, components, ...(relayed && { relayProblem: () => relayed.unreachable }) };
}

/** Processes of the agent's own. */
function ownProxies(
  { podIp, privateDir, stallSeconds }: Pick<AgentOptions, 'podIp' | 'privateDir'> & { readonly stallSeconds: number },
  deps: Pick<MigrationDeps, 'clock' | 'log'>,
): HaproxyProxies {
  const address = migrationAddress(networkInterfaces(), hasNetworkLink(migrationInterface), podIp);
  const objection = () => (address === undefined ? noMigrationAddress : undefined);
  const directory = path.join(privateDir, 'migration-proxies');
  return new HaproxyProxies({ directory, address: address ?? podIp, stallSeconds }, { objection, ...deps });
}

/** `/pods` of the usual DaemonSet is the kubelet's directory under a shorter name; any other one is the machine's own. */
function makeHooks(options: AgentOptions, { world, client, hostDevDir, hostRoot, hostPid }: PartsDeps, log: Logger) {
  const { podsDir, kubeletRoot, nodeName, privateDir, podIp } = options;
  const machinePodsDir = podsDir === '/pods' ? `${kubeletRoot}/pods` : podsDir;
  return hostHooks(
    { hostDevDir, hostRoot, hostPid, podsDir, machinePodsDir, nodeName, privateDir, podIp },
    {
      mounts: new KernelMounts({ pid: hostPid }),
      storage: new Storage(),
      records: recordDirectory(path.join(privateDir, 'container-disk-mount-state')),
      plugRecords: recordDirectory(path.join(privateDir, 'hotplug-volume-mount-state')),
      monotonicMs: () => world.clock.monotonicMs(),
      plugins: () => listPlugins(client),
      log,
    },
  );
}

const plugins: ResourceType = {
  ...{ group: 'plugin.kubevirt.io', version: 'v1alpha1' },
  ...{ resource: 'plugins', kind: 'Plugin', namespaced: false },
};
const listTimeoutMs = 10_000;

/** A cluster before KubeVirt 1.9 does not know them. */
async function listPlugins(client: KubeClient): Promise<readonly unknown[]> {
  const listed = await orMissing(client.list(plugins, { signal: AbortSignal.timeout(listTimeoutMs) }));
  return listed?.items ?? [];
}

interface HostDeps {
  readonly host: NodeFacts;
  readonly migrationProxies?: AgentPorts['migrationProxies'];
}

/** The VMI loop on this machine. */
export function portsOf(parts: Parts, { nodeName }: AgentOptions, deps: HostDeps): AgentPorts {
  const { client, settings, world } = parts;
  return vmiPorts(parts, {
    client,
    config: { current: () => settings.current },
    host: hostFacts(deps.host, nodeName),
    migrationProxies: deps.migrationProxies ?? parts.migration.proxies,
    ...(parts.migration.follower && { migrationNotes: parts.migration.follower }),
    clock: world.clock,
  });
}

/** What libvirt says about the machine is looked up each time: it may be another thing by then. */
function hostFacts(facts: NodeFacts, nodeName: string): AgentPorts['host'] {
  return {
    ...facts,
    nodeName,
    fileSizes: launcherFileSizes,
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
        // A part without facts takes defaults that might be taken back a moment later.
        await startOptional(kubevirts, { signal, timeoutMs: settings.isKnown ? 500 : 3_000 }, log);
      },
      stop: () => kubevirts.stop(),
    },
    { name: 'configuration', start: async () => settings.begin(), stop: () => settings.stop() },
  ];
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
