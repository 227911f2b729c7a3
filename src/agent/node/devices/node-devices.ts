import { readFileSync } from 'node:fs';
import path from 'node:path';
import { type Clock, type Component, errorMessage, Listeners, type Logger } from '../../../base/index.ts';
import { DevicePlugins, type PluginReport } from '../../../device-plugin/index.ts';
import { PathWatch } from '../../../host/index.ts';
import type { ClusterSettings, NodeProblem, ProblemSource } from '../ports.ts';
import { type DeviceSettings, deviceSettings } from './device-settings.ts';
import { type DevicePlan, type DevicePlanOptions, planPlugins } from './plan.ts';
import { problemOf, RunningPlugin } from './running-plugin.ts';

export interface NodeDevicesOptions extends DevicePlanOptions {
  /** `device-plugins` below the kubelet's root. */
  readonly pluginsDir: string;
}

export interface NodeDevicesDeps {
  readonly settings: Pick<ClusterSettings, 'select'>;
  readonly clock: Clock;
  readonly log: Logger;
}

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
  readonly #running = new Map<string, RunningPlugin>();
  readonly #listeners = new Listeners();
  #plan: DevicePlan | undefined;
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
    await Promise.all([...this.#running.values()].map((running) => running.stopScans()));
    await this.#plugins.stop();
    this.#watch.close();
  }

  /** What the kubelet knows, for `/state` and metrics. */
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

  #add(planned: DevicePlan['plugins'][number]): void {
    const { clock, log } = this.#deps;
    const running = new RunningPlugin(planned, {
      plugins: this.#plugins,
      watch: this.#watch,
      onUsable: () => this.#listeners.notify(),
      clock,
      log,
    });
    this.#running.set(planned.resource, running);
    running.scanSoon();
  }

  #remove(running: RunningPlugin): void {
    const { resource } = running.planned;
    this.#deps.log.info({ resource }, 'a device plugin is not wanted any more');
    const gone = () => {
      this.#running.delete(resource);
      this.#applyPlan();
    };
    running.remove().then(gone, (error: unknown) => {
      this.#deps.log.warn({ resource, reason: errorMessage(error) }, 'a device plugin did not end cleanly');
      gone();
    });
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
