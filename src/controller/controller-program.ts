import { type AdjustableLogger, errorMessage, systemClock } from '../base/index.ts';
import type { RateLimitSettings } from '../cluster-config/index.ts';
import { type KubeAccess, KubeClient, LeaderElector, type LeaderElectorOptions, type LeaseEnd } from '../kube/index.ts';
import { Controller, type ControllerOptions } from './controller.ts';
import { addStatusMetrics, ControllerMeters } from './metrics/index.ts';
import { StatusServer, type StatusServerOptions } from './serve/index.ts';

export interface ControllerProgramOptions {
  readonly controller: ControllerOptions;
  /** Undefined: no election, this is the only controller. */
  readonly lease: LeaderElectorOptions | undefined;
  /** Undefined: nothing is served. */
  readonly server: StatusServerOptions | undefined;
  /** Of the command line, for as long as the configuration names none. */
  readonly verbosity: number;
}

export interface ControllerProgramDeps extends AdjustableLogger {
  readonly access: KubeAccess;
  readonly randomUuid: () => string;
}

/** Until the KubeVirt object is read: upstream's. */
const rateLimit: RateLimitSettings = { qps: 200, burst: 400 };
const userAgent = 'virt-controller';

/**
 * virt-controller as a process: it serves its status, follows its caches, waits for the lease, works while it holds it, and gives it
 * back. Work and lease have clients of their own, so that one never waits for the other, and what the leader writes is refused here as
 * soon as another process may lead.
 */
export class ControllerProgram {
  readonly #options: ControllerProgramOptions;
  readonly #deps: ControllerProgramDeps;
  readonly #clients: { readonly work: KubeClient; readonly events: KubeClient; readonly lease: KubeClient };
  readonly #elector: LeaderElector | undefined;
  readonly #controller: Controller;
  readonly #server: StatusServer | undefined;
  #isReady = false;

  constructor(options: ControllerProgramOptions, deps: ControllerProgramDeps) {
    const { access, log, randomUuid } = deps;
    this.#options = options;
    this.#deps = deps;
    const meters = new ControllerMeters();
    const kube = { access, log, observer: meters.requests.observer(new URL(access.server).host) };
    // A try that fails is followed by the next renewal: it is not repeated.
    const lease = new KubeClient({ userAgent, rateLimit, maxSockets: 2, retry: { attempts: 1 } }, kube);
    this.#elector = options.lease && new LeaderElector(options.lease, { client: lease, log });
    const guard = this.#elector?.guard;
    const work = new KubeClient({ userAgent, rateLimit, maxSockets: 16 }, { ...kube, ...(guard && { guard }) });
    const events = new KubeClient({ userAgent, rateLimit, maxSockets: 8 }, kube);
    this.#clients = { work, events, lease };
    const controllerDeps = { client: work, eventClient: events, meters, log, randomUuid };
    this.#controller = new Controller(options.controller, controllerDeps);
    this.#server = options.server && this.#makeServer(options.server, meters);
    addStatusMetrics(meters.registry, {
      isLeading: () => this.#isLeading,
      isReady: () => this.#isReady,
      controller: () => this.#controller.figures,
      certificateExpires: () => this.#server?.certificateExpires,
    });
  }

  get #isLeading(): boolean {
    return this.#controller.figures.isWorking && (this.#elector?.isLeading ?? true);
  }

  #makeServer(options: StatusServerOptions, { registry }: ControllerMeters): StatusServer {
    return new StatusServer(options, {
      registry,
      askVersion: (signal) => this.#clients.lease.raw({ method: 'GET', path: '/version', signal }),
      isLeading: () => this.#isLeading,
      settings: this.#controller.settings,
      configuration: () => this.#controller.figures,
      clock: systemClock,
      log: this.#deps.log,
    });
  }

  /** Resolves when the signal has ended it, with how the lease ended. Rejects when a part did not start. */
  async run(signal: AbortSignal): Promise<LeaseEnd> {
    try {
      await this.#server?.start();
      await this.#controller.follow(signal);
      this.#followSettings();
      this.#server?.beginTls();
      this.#isReady = true;
      await this.#elector?.acquire(signal);
      return await this.#lead(signal);
    } catch (error) {
      if (!signal.aborted) throw error;
      return { kind: 'released' };
    } finally {
      this.#isReady = false;
      await this.#controller.stop();
      await this.#server?.stop();
      for (const client of Object.values(this.#clients)) client.close();
    }
  }

  /** Works until the signal or the loss of the lease ends it. The lease is given back as soon as nothing is decided any more. */
  async #lead(signal: AbortSignal): Promise<LeaseEnd> {
    const working = new AbortController();
    const lost = new AbortController();
    const held = this.#elector?.hold(working.signal).then((end) => {
      if (end.kind === 'lost') lost.abort(new Error(`the lease was lost: ${end.reason}`));
      return end;
    });
    const ending = AbortSignal.any([signal, lost.signal]);
    try {
      await this.#controller.work(ending);
      await untilAborted(ending);
    } catch (error) {
      if (!ending.aborted) throw error;
    } finally {
      await this.#controller.rest().catch((error: unknown) => {
        this.#deps.log.warn({ reason: errorMessage(error) }, 'not all controllers ended cleanly');
      });
      working.abort();
      await held;
    }
    return (await held) ?? { kind: 'released' };
  }

  /** What the configuration says of this program itself, taken over while it runs. */
  #followSettings(): void {
    const { settings } = this.#controller;
    const { work, events } = this.#clients;
    settings.select(
      (config) => config.rateLimit,
      (limit) => {
        for (const client of [work, events]) client.setRateLimit(limit);
      },
    );
    settings.select(
      ({ logVerbosity }) => logVerbosity,
      (verbosity) => this.#deps.setVerbosity(verbosity ?? this.#options.verbosity),
    );
  }
}

function untilAborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    signal.addEventListener('abort', () => resolve(), { once: true });
  });
}
