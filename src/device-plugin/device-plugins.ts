import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import path from 'node:path';
import { type Clock, errorMessage, Listeners, type Logger, withOwnEnding } from '../base/index.ts';
import type { PathWatch } from '../host/index.ts';
import { KeyedQueue, type KeyResult } from '../reconcile/index.ts';
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
  readonly unwatch: () => void;
  /** Fires when the plugin is to go. */
  readonly removal: AbortController;
  readonly gone: Promise<void>;
  readonly tellGone: () => void;
}

/** The kubelet's directory is 32 bytes long, a socket's path at most 107. */
const maxSocketNameBytes = 75;

/**
 * The device plugins of this node. Each is looked after by itself: one that cannot register keeps none from it. All share one
 * watcher of the kubelet's directory.
 */
export class DevicePlugins {
  readonly #options: DevicePluginsOptions;
  readonly #deps: DevicePluginsDeps;
  readonly #queue: KeyedQueue;
  readonly #entries = new Map<string, Entry>();
  readonly #listeners = new Listeners();

  constructor(options: DevicePluginsOptions, deps: DevicePluginsDeps) {
    this.#options = options;
    this.#deps = deps;
    this.#queue = new KeyedQueue(
      { concurrency: Number.POSITIVE_INFINITY, backoff: { baseMs: 100, maxMs: 10_000 } },
      {
        run: (name, signal) => this.#run(name, signal),
        onError: (resource, error) => {
          deps.log.error({ resource, reason: errorMessage(error) }, 'device plugin: unexpected error');
        },
        clock: deps.clock,
      },
    );
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
    this.#queue.add(spec.resourceName);
    return {
      setDevices: (devices) => {
        entry.service.setDevices(devices);
      },
      report: () => reportOf(entry),
      remove: () => this.#remove(entry),
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
    await this.#queue.stop();
    await Promise.all([...this.#entries.values()].map((entry) => this.#end(entry)));
  }

  #createEntry(spec: PluginSpec): Entry {
    const { directory } = this.#options;
    const { resourceName, socketName } = spec;
    const { clock, watch } = this.#deps;
    const log = this.#deps.log.child({ resource: resourceName });
    const look = () => this.#queue.add(resourceName);
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
    const ends = [
      watch.watch(path.join(directory, kubeletSocketName), () => {
        plugin.kubeletChanged();
        look();
      }),
      watch.watch(path.join(directory, socketName), look),
    ];
    const unwatch = () => {
      for (const end of ends) end();
    };
    let tellGone = () => undefined as unknown;
    const gone = new Promise<void>((resolve) => {
      tellGone = () => resolve();
    });
    return { spec, service, plugin, unwatch, removal: new AbortController(), gone, tellGone };
  }

  async #run(name: string, parent: AbortSignal): Promise<KeyResult> {
    const entry = this.#entries.get(name);
    if (!entry) return { kind: 'done' };
    const { signal } = entry.removal;
    const requeueAfterMs = await withOwnEnding(parent, async (ending) => {
      const leave = () => ending.abort(signal.reason);
      signal.addEventListener('abort', leave, { once: true });
      try {
        return signal.aborted ? undefined : await entry.plugin.reconcile(ending.signal);
      } catch (error) {
        if (!ending.signal.aborted) throw error;
        return undefined;
      } finally {
        signal.removeEventListener('abort', leave);
      }
    });
    if (signal.aborted) await this.#end(entry);
    return requeueAfterMs === undefined ? { kind: 'done' } : { kind: 'done', requeueAfterMs };
  }

  /** By the plugin's own turn: one under way would make the socket anew. */
  #remove(entry: Entry): Promise<void> {
    entry.removal.abort(new Error('the device plugin is not wanted any more'));
    this.#queue.add(entry.spec.resourceName);
    return entry.gone;
  }

  async #end(entry: Entry): Promise<void> {
    entry.unwatch();
    try {
      await entry.plugin.stop();
    } finally {
      this.#entries.delete(entry.spec.resourceName);
      entry.tellGone();
    }
  }
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
