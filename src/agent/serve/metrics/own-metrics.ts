import { Counter, Gauge, type Registry } from 'prom-client';
import type { Clock, Logger } from '../../../base/index.ts';
import { addProcessMetrics, type QueueMetrics, registryText } from '../../../serving/index.ts';
import type { ProxyFigures } from '../../migration-proxy/ports.ts';
import type { AgentFigures } from './figures.ts';
import { queueName } from './meters.ts';

export interface OwnMetricsOptions {
  readonly nodeName: string;
  /** Of KubeVirt, whose agent this one takes the place of. */
  readonly kubeVersion: string;
}

export interface OwnMetricsDeps {
  /** Where the counters are, too. */
  readonly registry: Registry;
  readonly queues: Pick<QueueMetrics, 'read'>;
  readonly figures: AgentFigures;
  /** Machine types of this node's QEMU that are on their way out. */
  readonly deprecatedMachines: () => readonly string[];
  readonly clock: Clock;
  readonly log: Logger;
}

type Labels = Readonly<Record<string, string>>;
const sides = ['source', 'target'] as const;

type Value = readonly [labels: Labels, value: number];

/**
 * The metrics of the agent itself (pkg/monitoring/metrics/virt-handler), and ours beside them, which are called
 * kubevirt_virt_handler_….
 */
export class OwnMetrics {
  readonly #registry: Registry;
  readonly #options: OwnMetricsOptions;
  readonly #deps: OwnMetricsDeps;
  /** The text; each family once. One that cannot be read is left out, and costs the others nothing. Never rejects. */
  readonly text: () => Promise<string>;

  constructor(options: OwnMetricsOptions, deps: OwnMetricsDeps) {
    this.#options = options;
    this.#deps = deps;
    this.#registry = deps.registry;
    this.text = registryText(this.#registry, deps.log);
    addProcessMetrics(this.#registry, 'virt_handler');
    deps.queues.read(queueName, deps.figures.queue);
    this.#addUpstreams();
    this.#addHealth();
    this.#addLoop();
    this.#addLateness();
    this.#addMigrations();
  }

  #gauge(name: string, help: string, labelNames: readonly string[], read: () => Iterable<Value>): void {
    new Gauge({
      ...{ name, help, labelNames: [...labelNames], registers: [this.#registry] },
      collect() {
        this.reset();
        for (const [labels, value] of read()) this.set(labels, value);
      },
    });
  }

  #addUpstreams(): void {
    const { nodeName, kubeVersion } = this.#options;
    const { figures, deprecatedMachines } = this.#deps;
    const goversion = `nodejs ${process.version}`;
    this.#gauge(
      'kubevirt_virt_handler_ready_status',
      '1: the console server listens and the agent does not leave, as upstream reports it.',
      [],
      () => [[{}, Number(figures.isReady())]],
    );
    this.#gauge('kubevirt_info', 'Version of KubeVirt that this agent speaks.', ['goversion', 'kubeversion'], () => [
      [{ goversion, kubeversion: kubeVersion }, 1],
    ]);
    const help = 'Machine types of this node that will be removed from QEMU.';
    this.#gauge('kubevirt_node_deprecated_machine_types', help, ['machine_type', 'node'], () =>
      [...new Set(deprecatedMachines())].map((machine): Value => [{ machine_type: machine, node: nodeName }, 1]),
    );
  }

  #addHealth(): void {
    const { figures, clock } = this.#deps;
    const gauge = (name: string, help: string, labels: readonly string[], read: () => Iterable<Value>) =>
      this.#gauge(`kubevirt_virt_handler_${name}`, help, labels, read);
    gauge('ready', '1: the agent serves its node, as /readyz answers.', [], () => [
      [{}, Number(figures.notReady().length === 0)],
    ]);
    gauge('not_ready', 'Why the agent does not serve its node.', ['reason'], () =>
      figures.notReady().map(({ why }): Value => [{ reason: why }, 1]),
    );
    gauge('node_schedulable', '1: the node was last marked as taking VMs.', [], () => {
      const { schedulable } = figures.nodeHealth();
      return schedulable === undefined ? [] : [[{}, Number(schedulable)]];
    });
    const configuration =
      'Where the configuration in use is from; kept: of an object that can no longer be read or used.';
    gauge('configuration', configuration, ['from'], () => [[{ from: figures.configuration().from }, 1]]);
    gauge('node_problem', 'Why the node takes no VMs, or soon will not.', ['source', 'reason'], () =>
      figures.nodeHealth().problems.map(({ source, reason }): Value => [{ source, reason }, 1]),
    );
    // A heartbeat that was never taken must grow old, too: an alert looks at its age.
    const beganMs = clock.monotonicMs();
    const success = 'Since the heartbeat or a watch last succeeded, or since the start when it never did.';
    gauge('last_success_age_seconds', success, ['what'], () =>
      figures
        .lastSuccesses()
        .map(
          ({ what, lastSuccessMs = beganMs }): Value => [
            { what },
            Math.round(clock.monotonicMs() - lastSuccessMs) / 1000,
          ],
        ),
    );
    gauge(
      'certificate_expiration_timestamp_seconds',
      'When a key pair of the agent, or its last authority, expires.',
      ['pair'],
      () => figures.certificates().map(({ pair, expiresAt }): Value => [{ pair }, expiresAt.getTime() / 1000]),
    );
    const unusable = 'Why a key pair on disk cannot be used: torn, swapped, or only one half of it is there.';
    gauge('certificate_problem', unusable, ['pair', 'reason'], () =>
      figures.certificateProblems().map(({ pair, why }): Value => [{ pair, reason: why }, 1]),
    );
    gauge('starts', 'Starts of agents on this node, this one included, as its private directory counts.', [], () => {
      const starts = figures.starts();
      return starts === undefined ? [] : [[{}, starts]];
    });
  }

  #addLoop(): void {
    const { figures } = this.#deps;
    const one = (name: string, help: string, read: () => number) =>
      this.#gauge(`kubevirt_virt_handler_${name}`, help, [], () => [[{}, read()]]);
    this.#gauge('kubevirt_virt_handler_queue_keys', 'VMIs in the queue by state.', ['state'], () =>
      Object.entries(figures.queue.counts).map(([state, count]): Value => [{ state }, count]),
    );
    one('quarantined_vmis', 'VMIs that fail over and over and are tried once a minute.', () => figures.quarantined());
    one('unknown_domains', 'Domains of which nothing is known: launchers that hang.', () => figures.unknownDomains());
    one('console_sessions', 'Open consoles.', () => figures.consoleSessions());
    one('sampled_vms', 'VMs whose figures are kept; 0 while no client scrapes.', () => figures.sampledVms());
  }

  /** Of all VMIs together: their number has no limit. */
  #addMigrations(): void {
    const { figures } = this.#deps;
    const gauge = (name: string, help: string, of: (proxies: readonly ProxyFigures[]) => number) =>
      this.#gauge(`kubevirt_virt_handler_migration_proxy_${name}`, help, ['side'], () =>
        sides.map((side): Value => [{ side }, of(figures.migrationProxies().filter((proxy) => proxy.side === side))]),
      );
    const sum = (count: (proxy: ProxyFigures) => number) => (proxies: readonly ProxyFigures[]) =>
      proxies.reduce((all, proxy) => all + count(proxy), 0);
    gauge(
      'vmis',
      'VMIs whose streams of a live migration are open.',
      sum(() => 1),
    );
    gauge(
      'streams',
      'Open streams of live migrations.',
      sum(({ streams }) => streams),
    );
    gauge(
      'bytes',
      'What the migrations that are open now have carried.',
      sum(({ bytes }) => bytes),
    );
    gauge(
      'bytes_per_second',
      'What live migrations carry now.',
      sum(({ bytesPerSecond }) => bytesPerSecond),
    );
    gauge(
      'refused',
      'Connections without a certificate that is accepted, while the streams are open.',
      sum(({ refused }) => refused),
    );
  }

  /** How late timers are: the percentiles are of all the time since the start, the counters make an average of any time. */
  #addLateness(): void {
    const { loopDelay } = this.#deps.figures;
    const seconds = (ms: number) => Math.round(ms * 100) / 1e5;
    const name = 'kubevirt_virt_handler_event_loop_delay_seconds';
    this.#gauge(name, 'How late the event loop comes to its work, since the start.', ['percentile'], () => {
      const { p50, p95, p99, max } = loopDelay.read();
      return Object.entries({ '0.5': p50, '0.95': p95, '0.99': p99, '1': max }).map(
        ([percentile, ms]): Value => [{ percentile }, seconds(ms)],
      );
    });
    this.#counter(
      'event_loop_late_seconds_total',
      'Lateness of all looks together.',
      () => loopDelay.totals().lateMs / 1e3,
    );
    this.#counter(
      'event_loop_looks_total',
      'Looks at how late the event loop is: every 50 ms while it works, every 5 s while it does not.',
      () => loopDelay.totals().count,
    );
  }

  #counter(name: string, help: string, read: () => number): void {
    new Counter({
      ...{ name: `kubevirt_virt_handler_${name}`, help, registers: [this.#registry] },
      collect() {
        this.reset();
        this.inc(read());
      },
    });
  }
}
