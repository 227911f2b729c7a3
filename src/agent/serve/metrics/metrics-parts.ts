import type { Component, Logger } from '../../../base/index.ts';
import type { KubeClient } from '../../../kube/index.ts';
import type { LauncherClients } from '../../../launcher-client/index.ts';
import { Health, Scrapes, SecureServer } from '../../../serving/index.ts';
import { firstPairThere } from '../../../tls/index.ts';
import type { ClusterSettings } from '../../node/ports.ts';
import type { AgentOptions } from '../../options.ts';
import type { DomainViews, VmiStore } from '../../vmi/ports.ts';
import type { AgentWorld } from '../../vmi/vmi-parts.ts';
import type { Consoles } from '../server/index.ts';
import { CertificateExpiry, endsOf } from './certificates.ts';
import type { AgentFigures, NotReady } from './figures.ts';
import type { Meters } from './meters.ts';
import { metricsApi } from './metrics-api.ts';
import { OwnMetrics } from './own-metrics.ts';
import type { SampledLaunchers } from './ports.ts';
import { inspectorSession, Profiler, profilerDefaults } from './profiler.ts';
import { ProfilerApi } from './profiler-api.ts';
import { Starts } from './starts.ts';
import { vmExposition } from './vm-exposition.ts';
import { samplerDefaults, VmSampler } from './vm-sampler.ts';
import { VmStatsCollector } from './vm-stats.ts';
import { VmStatsApi } from './vm-stats-api.ts';

export interface MetricsDeps {
  readonly meters: Meters;
  /** What others know; the rest is known here. */
  readonly figures: Omit<AgentFigures, 'certificates' | 'certificateProblems' | 'notReady' | 'starts' | 'sampledVms'>;
  readonly client: Pick<KubeClient, 'raw'>;
  readonly vmis: VmiStore;
  readonly domains: Pick<DomainViews, 'view' | 'onChange'>;
  readonly clients: Pick<LauncherClients, 'peek'>;
  readonly consoles: Pick<Consoles, 'tls' | 'bundle'>;
  readonly settings: Pick<ClusterSettings, 'current' | 'select'>;
  /** `resourceVersion` of the KubeVirt object; empty: none. */
  readonly configVersion: () => string;
  /** Why the agent is not ready; empty: it is. */
  readonly notReady: () => readonly NotReady[];
  readonly deprecatedMachines: () => readonly string[];
  readonly world: Pick<AgentWorld, 'clock' | 'random'>;
  readonly log: Logger;
}

export interface Metrics {
  /** Start before anything waits for the API server. */
  readonly components: readonly Component[];
}

/** KubeVirt's version whose agent this one takes the place of. */
const kubeVersion = 'v1.9.0';
/** Ten seconds are Prometheus' usual patience; a scrape takes a fraction of one. */
const scrapeTimes = { timeoutMs: 30_000, giveWayMs: 5_000 } as const;
const maxConnections = 256;
const monitoringClient = 'kubevirt.io:system:client:monitoring';

/** `/metrics`, health and VM statistics with their two servers. Nothing is started yet. */
export function makeMetrics(options: AgentOptions, deps: MetricsDeps): Metrics {
  const { meters, vmis, domains, consoles, log } = deps;
  const { clock } = deps.world;
  const { address, port } = options.metrics;
  const profiler = makeProfiler(deps);
  const health = makeHealth(deps);
  const certificates = new CertificateExpiry({ pairs: pairsInUse(options) }, { clock });
  const starts = new Starts(options, { log });
  const { sampler, scrapes } = makeScrapes(options, deps, { certificates, starts });
  const api = metricsApi({ scrapes, health, profiler: profiler.api, log });
  const server = new SecureServer(
    { address, port, clients: 'anyone', server: 'metrics', maxConnections },
    { api, endStreams: () => undefined, ...consoles.tls, clock, log },
  );
  const background: Component = {
    name: 'metrics',
    start: async () => {
      profiler.follow();
      meters.vms.follow({ vmis, domains });
      await certificates.refresh();
    },
    stop: async () => {
      meters.vms.stop();
      health.stop();
      await Promise.all([sampler.stop(), profiler.stop()]);
    },
  };
  return { components: [starts, background, server, makeVmStats(options, deps)] };
}

/**
 * The pairs whose ends and faults are reported: those that the agent uses, and no others. A private key that nothing here uses is not
 * read for the date on its certificate.
 */
export function pairsInUse({ console, migration }: Pick<AgentOptions, 'console' | 'migration'>) {
  return {
    server: () => console.keyPair,
    ...(migration && { 'migration-client': () => firstPairThere(migration.migrationClient, migration.client) }),
  };
}

/** A profile ends when it is no longer allowed. */
function makeProfiler({ settings, world: { clock } }: MetricsDeps) {
  const isAllowed = () => settings.current.node.clusterProfiler;
  const profiler = new Profiler(profilerDefaults, { isAllowed, openSession: inspectorSession, clock });
  let end: (() => void) | undefined;
  const follow = () => {
    end = settings.select(isAllowed, (isOn) => {
      if (!isOn) void profiler.close();
    });
  };
  const stop = async () => {
    end?.();
    await profiler.close();
  };
  return { api: new ProfilerApi({ profiler, clock }), follow, stop };
}

function makeHealth({ client, consoles, configVersion, notReady, figures, world }: MetricsDeps): Health {
  return new Health({
    askVersion: (signal) => client.raw({ method: 'GET', path: '/version', signal }),
    watchFailures: () => consoles.bundle.health.failures,
    configVersion,
    notReady: () => notReady().map(({ message }) => message),
    lastSuccesses: () => figures.lastSuccesses(),
    clock: world.clock,
  });
}

function makeScrapes(
  { nodeName, metrics }: AgentOptions,
  { meters, figures, notReady, vmis, clients, consoles, deprecatedMachines, world, log }: MetricsDeps,
  { certificates, starts }: { readonly certificates: CertificateExpiry; readonly starts: Starts },
): { readonly sampler: VmSampler; readonly scrapes: Scrapes } {
  const { clock, random } = world;
  const launchers = sampledLaunchers(clients);
  const sampler = new VmSampler({ nodeName, ...samplerDefaults }, { vmis, launchers, clock, log, random });
  const own = new OwnMetrics(
    { nodeName, kubeVersion },
    {
      registry: meters.registry,
      queues: meters.queues,
      figures: {
        ...figures,
        notReady,
        certificates: () => endsOf(consoles.tls, certificates.current.expiries),
        certificateProblems: () => certificates.current.problems,
        starts: () => starts.count,
        sampledVms: () => sampler.size,
      },
      deprecatedMachines,
      clock,
      log,
    },
  );
  const scrapes = new Scrapes(
    { maxRequests: metrics.maxRequests, ...scrapeTimes },
    {
      want: () => sampler.want(),
      own: () => own.text(),
      vms: () => vmExposition(sampler.read(), meters.vms),
      clock,
      log,
    },
  );
  return { sampler, scrapes };
}

function makeVmStats({ nodeName, metrics, console }: AgentOptions, deps: MetricsDeps): Component {
  const { vmis, clients, settings, consoles, log } = deps;
  const { clock } = deps.world;
  const api = new VmStatsApi(
    { nodeName },
    {
      isAllowed: () => settings.current.node.gates.VMStatsCollector,
      collector: new VmStatsCollector(clients),
      ...{ vmis, clock, log },
    },
  );
  const rule = console.externallyManaged
    ? { commonNames: 'any' as const, allowIntermediates: true }
    : { commonNames: [monitoringClient], allowIntermediates: false };
  return new SecureServer(
    { address: metrics.address, port: metrics.vmStatsPort, clients: rule, server: 'VM statistics', maxConnections },
    { api, endStreams: () => api.stop(), ...consoles.tls, clock, log },
  );
}

/** The connections of the VMI loop: figures never open one, which would be remembered on disk. */
/** Over the connections that the VMI loop has. */
export function sampledLaunchers(clients: Pick<LauncherClients, 'peek'>): SampledLaunchers {
  return {
    find: ({ metadata }) => {
      const connection = clients.peek(metadata.uid ?? '');
      if (!connection?.connected) return undefined;
      return {
        domainStats: async (signal) => (await connection.call('getDomainStats', {}, signal)).domainStats,
        filesystems: async (signal) => (await connection.call('getFilesystems', {}, signal)).guestFilesystemsResponse,
        dirtyRate: async (signal) => (await connection.call('getDomainDirtyRateStats', {}, signal)).dirtyRateMbs,
      };
    },
  };
}
