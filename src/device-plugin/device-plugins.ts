import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import path from 'node:path';
import { type Clock, Listeners, type Logger } from '../base/index.ts';
import type { PathWatch } from '../host/index.ts';
import { type KeyResult, SingleReconciler } from '../reconcile/index.ts';
import type { Allocate, PluginDevice } from './device.ts';
import { DevicePlugin, kubeletSocketName, type PluginState } from './device-plugin.ts';
import { PluginService } from './plugin-service.ts';

export interface DevicePluginsOptions {
  /** `device-plugins` below the kubelet's root. */
  readonly directory: string;
}

export interface DevicePluginsDeps {
  readonly watch: PathWatch;
  readonly clock: Clock;
  readonly log: Logger;
}

export interface PluginSpec {
  /** As a pod asks for it: `devices.kubevirt.io/kvm`. Each at most once. */
  readonly resourceName: string;
  /** One that is too long for the kubelet to dial is shortened. */
  readonly socketName: string;
  readonly allocate: Allocate;
}

export interface PluginReport {
  readonly resourceName: string;
  readonly state: PluginState;
  readonly devices: number;
  readonly healthy: number;
  /** Kubelets that listen: 1. */
  readonly listeners: number;
}

/** A plugin as its owner holds it. */
export interface PluginHandle {
  setDevices(devices: readonly PluginDevice[]): void;
  report(): PluginReport;
  /** The kubelet hears of an empty list; resolves when the socket is gone. Only then may the resource be added again. */
  remove(): Promise<void>;
}

interface Entry {
  readonly spec: PluginSpec;
  readonly service: PluginService;
  readonly plugin: DevicePlugin;
  readonly reconciler: SingleReconciler;
  /** It is going. Resolves when its socket is gone. */
  ending: Promise<void> | undefined;
}

const backoff = { baseMs: 100, maxMs: 10_000 };

/** The kubelet's directory is 32 bytes long, a socket's path at most 107. */
const maxSocketNameBytes = 75;

/**
 * The device plugins of this node. Each is looked after by itself: one that cannot register keeps none from it. All share one
 * watcher of the kubelet's directory.
 */
export class DevicePlugins {
  readonly #options: DevicePluginsOptions;
  readonly #deps: DevicePluginsDeps;
  readonly #entries = new Map<string, Entry>();
  readonly #listeners = new Listeners();

  constructor(options: DevicePluginsOptions, deps: DevicePluginsDeps) {
    this.#options = options;
    this.#deps = deps;
  }

  /** There is a kubelet on this machine, or was. */
  get hasKubelet(): boolean {
    return existsSync(this.#options.directory);
  }

  /** It is registered as soon as the kubelet can be reached, and stays so. Throws when the resource is there already. */
  add(spec: PluginSpec): PluginHandle {
    const socketName = shortSocketName(spec.socketName);
    if (this.#entries.has(spec.resourceName)) throw new Error(`device plugin ${spec.resourceName} is there already`);
    const entry = this.#createEntry({ ...spec, socketName });
    this.#entries.set(spec.resourceName, entry);
    entry.reconciler.wake();
    return {
      setDevices: (devices) => {
        entry.service.setDevices(devices);
      },
      report: () => reportOf(entry),
      remove: () => this.#end(entry),
    };
  }

  reports(): PluginReport[] {
    return [...this.#entries.values()].map(reportOf);
  }

  /** After a plugin was registered, or is not any more. */
  onChange(listener: () => void): () => void {
    return this.#listeners.add(listener);
  }

  /** Removes all. */
  async stop(): Promise<void> {
    await Promise.all([...this.#entries.values()].map((entry) => this.#end(entry)));
  }

  #createEntry(spec: PluginSpec): Entry {
    const { directory } = this.#options;
    const { resourceName, socketName } = spec;
    const { clock, watch } = this.#deps;
    const log = this.#deps.log.child({ resource: resourceName });
    const look = () => reconciler.wake();
    const onStreams = () => {
      plugin.onStreams();
      look();
    };
    const service = new PluginService({ allocate: spec.allocate, onStreams, log });
    const onChange = () => this.#listeners.notify();
    const plugin = new DevicePlugin(
      { directory, resourceName, socketName },
      { service, clock, log: this.#deps.log, onChange },
    );
    const reconciler = new SingleReconciler(
      { name: resourceName, backoff, failedMessage: 'device plugin: unexpected error' },
      { reconcile: (signal) => reconcile(plugin, signal), clock, log },
    );
    reconciler.follow(
      watch.watch(path.join(directory, kubeletSocketName), () => {
        plugin.kubeletChanged();
        look();
      }),
      watch.watch(path.join(directory, socketName), look),
    );
    return { spec, service, plugin, reconciler, ending: undefined };
  }

  #end(entry: Entry): Promise<void> {
    entry.ending ??= this.#remove(entry);
    return entry.ending;
  }

  /** After the reconcile under way, which would make the socket anew. */
  async #remove({ spec, plugin, reconciler }: Entry): Promise<void> {
    await reconciler.stop();
    try {
      await plugin.stop();
    } finally {
      this.#entries.delete(spec.resourceName);
    }
  }
}

async function reconcile(plugin: DevicePlugin, signal: AbortSignal): Promise<KeyResult> {
  const requeueAfterMs = await plugin.reconcile(signal);
  return requeueAfterMs === undefined ? { kind: 'done' } : { kind: 'done', requeueAfterMs };
}

function reportOf({ spec, plugin, service }: Entry): PluginReport {
  const { devices, listeners } = service;
  const healthy = devices.filter(({ isHealthy }) => isHealthy).length;
  return { resourceName: spec.resourceName, state: plugin.state, devices: devices.length, healthy, listeners };
}

/** The kubelet dials the whole path: a name that leaves no room for its directory gets a short one that is as unique. */
function shortSocketName(name: string): string {
  if (Buffer.byteLength(name) <= maxSocketNameBytes) return name;
  return `kubevirt-${createHash('sha256').update(name).digest('hex').slice(0, 32)}.sock`;
}
