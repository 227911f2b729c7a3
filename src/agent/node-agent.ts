import type { AgentState, Key } from '../api/index.ts';
import { type Component, Lifecycle, type Logger } from '../base/index.ts';
import { type KubeAccess, KubeClient } from '../kube/index.ts';
import { agentFigures, notReadyBecause } from './agent-figures.ts';
import { drain, notReadyYet } from './leaving.ts';
import type { MigrationProxies } from './migration-proxy/ports.ts';
import type { NodeFacts } from './node/facts/index.ts';
import { configurationOf, informersOf, makeParts, type Parts, portsOf } from './node-parts.ts';
import { makeNodeServices, type NodeServices } from './node-services.ts';
import type { AgentOptions } from './options.ts';
import { makeDownwardMetrics } from './serve/downward-metrics/index.ts';
import { ExplainServer, ExplainService, type LoopDelay, measureLoopDelay, readState } from './serve/explain/index.ts';
import { FiguresService } from './serve/figures/index.ts';
import { Meters, makeMetrics, sampledLaunchers } from './serve/metrics/index.ts';
import type { AgentPage, AgentPageDeps } from './serve/page/index.ts';
import type { VmiDispatcher } from './vmi/loop/index.ts';
import { OrphanedLaunchers } from './vmi/orphaned-launchers.ts';
import type { AgentPorts } from './vmi/ports.ts';
import { type AgentWorld, makeDispatcher, orphanedHostWork, thisWorld, vmiComponents } from './vmi/vmi-parts.ts';

export interface NodeAgentDeps {
  /** Time, chance and the machine of launchers; the real ones unless given. */
  readonly world?: AgentWorld;
  readonly access: KubeAccess;
  readonly log: Logger;
  readonly host: NodeFacts;
  /** Devices of the machine, to tell a launcher's own from them. */
  readonly hostDevDir: string;
  /** A process in the machine's own mount namespace. */
  readonly hostPid: number;
  /** The streams of live migrations; without them every migration is refused in words. */
  readonly migrationProxies?: MigrationProxies;
  /** The built web page, for `--web-port`. */
  readonly pageDir?: string;
  /** The host's root directory, as this process sees it. */
  readonly hostRoot: string;
  /** Where libvirt's capabilities are left by an init container. */
  readonly labellerDir: string;
  /** Of the log, while the agent runs. */
  readonly setVerbosity: (verbosity: number) => void;
  /** Streams of guests are open from now on, or no longer: bytes may flow. */
  readonly onStreams?: (areOpen: boolean) => void;
}

const stopTimeoutMs = 8_000;

/**
 * The whole agent: real parts fitted to the ports, in the order in which they start. It is ready when its VMIs are listed;
 * every VMI's own launcher is asked before anything is decided about it.
 */
export class NodeAgent {
  readonly dispatcher: VmiDispatcher;
  readonly #options: AgentOptions;
  readonly #log: Logger;
  readonly #world: AgentWorld;
  readonly #client: KubeClient;
  /** Events have a rate limit and a connection of their own: after a burst of starts they would keep status writes waiting. */
  readonly #eventClient: KubeClient;
  /** The heartbeat waits for no VMI: neither for the rate limit, nor for writes that hang on all connections. */
  readonly #beatClient: KubeClient;
  readonly #migrationProxies: AgentPorts['migrationProxies'];
  readonly #nodeServices: NodeServices;
  readonly #loopDelay: LoopDelay;
  readonly #lifecycle: Lifecycle;
  #phase: AgentState['phase'] = 'starting';

  constructor(options: AgentOptions, deps: NodeAgentDeps) {
    const { log } = deps;
    this.#options = options;
    this.#log = log;
    this.#world = deps.world ?? thisWorld;
    const meters = new Meters();
    const { clock } = this.#world;
    const kube = {
      access: deps.access,
      log,
      clock,
      observer: meters.requests.observer(new URL(deps.access.server).host),
    };
    this.#client = new KubeClient({ userAgent: 'virt-handler' }, kube);
    this.#eventClient = new KubeClient({ userAgent: 'virt-handler', maxSockets: 1 }, kube);
    this.#beatClient = new KubeClient({ userAgent: 'virt-handler', maxSockets: 1 }, kube);
    const parts = makeParts(options, log, {
      world: this.#world,
      client: this.#client,
      eventClient: this.#eventClient,
      beatClient: this.#beatClient,
      whenQuiet: () => this.dispatcher.reconciler.whenIdle(),
      onStreams: deps.onStreams ?? (() => undefined),
      hostDevDir: deps.hostDevDir,
      hostRoot: deps.hostRoot,
      hostPid: deps.hostPid,
    });
    const ports = portsOf(parts, options, deps);
    this.#migrationProxies = ports.migrationProxies;
    this.#loopDelay = measureLoopDelay();
    this.dispatcher = makeDispatcher(ports, { log, observer: this.#observerOf(meters) }, this.#world);
    this.#nodeServices = makeNodeServices(options, parts, { ...deps, architecture: deps.host.architecture }, log);
    const forgotten = new OrphanedLaunchers(options, { ...ports, ghosts: parts.domains.ghostRecords, log });
    const why = this.#createExplainService(parts);
    const components = [
      this.#createExplainServer(why, parts),
      ...this.#createMetrics(parts, meters),
      ...this.#createPage(parts, why, deps),
      ...configurationOf(parts, log),
      // Whatever the API server does: a kubelet forgets devices that no plugin offers, and pods of this node are refused then.
      this.#nodeServices.devices,
      notReadyYet(this.#nodeServices.heartbeat),
      ...vmiComponents(parts, parts.consoles.components),
      ...parts.migration.components,
      this.dispatcher,
      makeDownwardMetrics(options, { ...parts, clock, log }),
      forgotten,
      orphanedHostWork(options, parts, ports, { log, world: this.#world }),
      ...this.#nodeServices.components,
      this.#nodeServices.heartbeat,
    ];
    this.#lifecycle = new Lifecycle(components, { stopTimeoutMs, clock });
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
      this.#beatClient.close();
    }
  }

  /** A key that comes in also has the event loop looked at. */
  #observerOf({ loop }: Meters): Meters['loop'] {
    return {
      ...loop,
      added: () => {
        this.#loopDelay.workCame();
        loop.added();
      },
    };
  }

  async #drain(): Promise<void> {
    const deps = {
      heartbeat: this.#nodeServices.heartbeat,
      migrationProxies: this.#migrationProxies,
      clock: this.#world.clock,
      log: this.#log,
    };
    await drain({ gracefulMs: this.#options.gracefulShutdownMs }, deps);
  }

  #createExplainService(parts: Parts): ExplainService {
    const { nodeName } = this.#options;
    const state = () =>
      readState(nodeName, {
        loop: this.dispatcher.reconciler,
        memories: this.dispatcher,
        informers: () => informersOf(parts),
        domains: parts.domains,
        migrationProxies: this.#migrationProxies,
        heartbeat: this.#nodeServices.heartbeat,
        settings: parts.settings,
        consoles: () => parts.consoles.state(),
        phase: () => this.#phase,
        clock: this.#world.clock,
        loopDelay: this.#loopDelay,
      });
    const labels = () => this.#nodeServices.labels?.explain();
    const migration = (key: Key) => parts.migration.follower?.explain(key);
    return new ExplainService(
      { nodeName },
      { source: this.dispatcher.reconciler, state, labels, migration, clock: this.#world.clock },
    );
  }

  /** Explanations, and the figures of a guest that somebody looks at. */
  #createExplainServer(why: ExplainService, { clients, vmis }: Parts): ExplainServer {
    const { nodeName, privateDir } = this.#options;
    const { clock } = this.#world;
    const figures = new FiguresService({ nodeName }, { vmis, launchers: sampledLaunchers(clients), clock });
    const service = {
      answer: (method: string, target: string) => figures.answer(method, target) ?? why.answer(method, target),
    };
    return new ExplainServer({ privateDir, pid: process.pid }, { service, log: this.#log, clock });
  }

  /** Started first: health is asked for while the API server is still waited for. */
  #createMetrics(parts: Parts, meters: Meters): readonly Component[] {
    const sources = { parts, loop: this.dispatcher.reconciler, loopDelay: this.#loopDelay };
    const figures = agentFigures({
      ...sources,
      nodeHealth: () => this.#nodeServices.heartbeat.health,
      phase: () => this.#phase,
      migrationProxies: () => this.#migrationProxies.figures(),
    });
    return makeMetrics(this.#options, {
      ...{ ...parts, meters, figures, log: this.#log },
      configVersion: () => {
        const { origin } = parts.settings;
        return origin.from === 'defaults' ? '' : origin.resourceVersion;
      },
      notReady: () => notReadyBecause(parts, this.#phase),
      deprecatedMachines: () => this.#nodeServices.deprecatedMachines(),
    }).components;
  }

  /** Started before the streams' server, so that it stops after streams have been asked to end. */
  #createPage({ vmis, consoles }: Parts, service: ExplainService, { pageDir, log }: NodeAgentDeps): Component[] {
    const { nodeName, privateDir, webPort: port } = this.#options;
    if (port === 0 || pageDir === undefined) return [];
    const why: AgentPageDeps['why'] = (target) => service.answer('GET', target);
    const deps = { vmis, api: consoles.api, why, log, clock: this.#world.clock };
    let page: AgentPage | undefined;
    const start = async () => {
      // Loaded on request only: it costs memory.
      const { AgentPage } = await import('./serve/page/index.ts');
      page = new AgentPage({ nodeName, port, pageDir, privateDir }, deps);
      await page.start();
    };
    return [{ name: 'web page', start, stop: async () => page?.stop() }];
  }
}
