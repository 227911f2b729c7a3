import { readFileSync } from 'node:fs';
import path from 'node:path';
import { type Clock, type Component, errorMessage, Listeners, type Logger } from '../../../base/index.ts';
import { DevicePlugins, type PluginReport } from '../../../device-plugin/index.ts';
import { PathWatch } from '../../../host/index.ts';
import { KeyedQueue, type KeyResult } from '../../../reconcile/index.ts';
import type { ClusterSettings, NodeProblem, ProblemSource } from '../ports.ts';
import { type DeviceSettings, deviceSettings } from './device-settings.ts';
import { type Plan, type PlanOptions, planPlugins } from './plan.ts';
import { problemOf } from './problems.ts';
import { RunningPlugin } from './running-plugin.ts';

export interface NodeDevicesOptions extends PlanOptions {
  /** `device-plugins` below the kubelet's root. */
  readonly pluginsDir: string;
}

export interface NodeDevicesDeps {
  readonly settings: Pick<ClusterSettings, 'select'>;
  readonly clock: Clock;
  readonly log: Logger;
}

const scanBackoff = { baseMs: 1_000, maxMs: 60_000, jitter: 0.1 };
const parallelScans = 4;
/** The kernel makes a device's file before the last of its attributes: one more look follows each event. */
const settleMs = 1_000;

/**
 * Offers this node's devices to the kubelet: which ones follows the configuration, what there is of them is scanned at each event
 * where they are. Without a kubelet on the machine it does nothing, which is said once, and is no problem.
 */
export class NodeDevices implements Component, ProblemSource {
  readonly name = 'device plugins';
  readonly #options: NodeDevicesOptions;
  readonly #deps: NodeDevicesDeps;
  readonly #watch: PathWatch;
  readonly #plugins: DevicePlugins;
  readonly #scans: KeyedQueue;
  readonly #running = new Map<string, RunningPlugin>();
  /** Resources with an event since their last scan. */
  readonly #eventful = new Set<string>();
  readonly #listeners = new Listeners();
  #plan: Plan | undefined;
  #refusals: readonly string[] = [];
  #unwatch: (() => void) | undefined;
  #unselect: (() => void) | undefined;
  #isStopped = false;

  constructor(options: NodeDevicesOptions, deps: NodeDevicesDeps) {
    const { clock, log } = deps;
    this.#options = options;
    this.#deps = deps;
    this.#watch = new PathWatch({}, { clock });
    this.#plugins = new DevicePlugins({ directory: options.pluginsDir }, { watch: this.#watch, clock, log });
    this.#plugins.onChange(() => this.#listeners.notify());
    this.#scans = new KeyedQueue(
      { concurrency: parallelScans, backoff: scanBackoff },
      {
        run: (resource) => this.#scan(resource),
        onError: (resource, error) => {
          log.warn(
            { resource, reason: errorMessage(error) },
            'devices could not be looked for: the last known ones count',
          );
        },
        clock,
      },
    );
  }

  async start(): Promise<void> {
    const { pluginsDir } = this.#options;
    this.#unwatch = this.#watch.watch(pluginsDir, () => this.#begin());
    this.#begin();
    if (this.#unselect) return;
    this.#deps.log.info({ directory: pluginsDir }, 'no kubelet on this machine: no device plugins until there is one');
  }

  /** The kubelet hears that there are no devices any more; containers that have some keep them. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#unwatch?.();
    this.#unselect?.();
    await this.#scans.stop();
    await this.#plugins.stop();
    this.#watch.close();
  }

  /** What the kubelet was told, for those who look after the agent. */
  reports(): PluginReport[] {
    return this.#plugins.reports();
  }

  /** Configured, and not done: in words. */
  get refusals(): readonly string[] {
    return this.#refusals;
  }

  problems(): NodeProblem[] {
    return [...this.#running.values()].map(problemOf).filter((problem) => problem !== undefined);
  }

  onChange(listener: () => void): () => void {
    return this.#listeners.add(listener);
  }

  /** From the first sight of a kubelet's directory on, and whatever becomes of it. */
  #begin(): void {
    if (this.#unselect || this.#isStopped || !this.#plugins.hasKubelet) return;
    this.#unselect = this.#deps.settings.select(deviceSettings, (settings) => this.#follow(settings));
  }

  #follow(settings: DeviceSettings): void {
    for (const reason of settings.refusals.filter((each) => !this.#refusals.includes(each))) {
      this.#deps.log.warn({ reason }, 'configured devices are not offered');
    }
    this.#refusals = settings.refusals;
    const { log } = this.#deps;
    const tdxCapacity = readTdxCapacity(this.#options.roots.sysDir);
    this.#plan = planPlugins(settings, this.#options, { log, tdxCapacity, usbBefore: this.#plan?.usb });
    this.#applyPlan();
  }

  /** Takes no time but for plugins that leave: what takes their place comes when they are gone. */
  #applyPlan(): void {
    if (this.#isStopped || !this.#plan) return;
    const { plugins } = this.#plan;
    for (const running of this.#running.values()) {
      const wanted = plugins.find((each) => running.canBecome(each));
      if (!wanted && !running.isRemoving) this.#remove(running);
    }
    for (const planned of plugins) {
      const running = this.#running.get(planned.resource);
      if (!running) this.#add(planned);
      else if (!running.isRemoving) running.become(planned);
    }
    this.#listeners.notify();
  }

  #add(planned: Plan['plugins'][number]): void {
    const { resource } = planned;
    const onEvent = () => {
      this.#eventful.add(resource);
      this.#scans.add(resource);
    };
    const { clock } = this.#deps;
    const running = new RunningPlugin(planned, {
      plugins: this.#plugins,
      watch: this.#watch,
      onEvent,
      onUsable: () => this.#listeners.notify(),
      monotonicMs: () => clock.monotonicMs(),
    });
    this.#running.set(resource, running);
    onEvent();
  }

  #remove(running: RunningPlugin): void {
    const { resource } = running.planned;
    this.#deps.log.info({ resource }, 'a device plugin is not wanted any more');
    const gone = () => {
      this.#running.delete(resource);
      this.#eventful.delete(resource);
      this.#applyPlan();
    };
    running.remove().then(gone, (error: unknown) => {
      this.#deps.log.warn({ resource, reason: errorMessage(error) }, 'a device plugin did not end cleanly');
      gone();
    });
  }

  async #scan(resource: string): Promise<KeyResult> {
    const running = this.#running.get(resource);
    if (!running || running.isRemoving) return { kind: 'done' };
    const hadEvent = this.#eventful.delete(resource);
    await running.scan();
    const { rescanMs } = running;
    if (rescanMs === undefined) return { kind: 'done' };
    return { kind: 'done', requeueAfterMs: hadEvent ? settleMs : rescanMs };
  }
}

/** Guests with TDX that the machine can hold; 0 when it does not say so. */
function readTdxCapacity(sysDir: string): number {
  try {
    const lines = readFileSync(path.join(sysDir, 'fs/cgroup/misc.capacity'), 'utf8').split('\n');
    const value = Number(lines.find((line) => line.startsWith('tdx '))?.split(' ')[1] ?? 0);
    return Number.isInteger(value) && value > 0 ? value : 0;
  } catch {
    return 0;
  }
}
