import { errorMessage } from '../../../base/index.ts';
import type { DevicePlugins, PluginDevice, PluginHandle, PluginReport } from '../../../device-plugin/index.ts';
import type { PathWatch } from '../../../host/index.ts';
import type { DeviceSource } from './device-source.ts';
import type { PlannedPlugin } from './plan.ts';

export interface RunningPluginDeps {
  readonly plugins: DevicePlugins;
  readonly watch: PathWatch;
  /** Something happened where its devices are: scan. */
  readonly onEvent: () => void;
  /** It has devices that can be used, or has none any more. */
  readonly onUsable: () => void;
  readonly monotonicMs: () => number;
}

/** A plugin with what is found for it. The source may be exchanged: the kubelet sees nothing but another list. */
export class RunningPlugin {
  readonly #deps: RunningPluginDeps;
  readonly #handle: PluginHandle;
  readonly #watching = new Map<string, () => void>();
  #planned: PlannedPlugin;
  #source: DeviceSource;
  #removing: Promise<void> | undefined;
  #unusableSinceMs: number | undefined;
  #unknown: { readonly sinceMs: number; readonly reason: string } | undefined;

  constructor(planned: PlannedPlugin, deps: RunningPluginDeps) {
    this.#planned = planned;
    this.#deps = deps;
    this.#source = planned.source();
    this.#unknown = { sinceMs: deps.monotonicMs(), reason: 'nobody has looked yet' };
    this.#handle = deps.plugins.add({
      resourceName: planned.resource,
      socketName: planned.socketName,
      allocate: (ids) => this.#source.allocate(ids),
    });
  }

  get planned(): PlannedPlugin {
    return this.#planned;
  }

  get rescanMs(): number | undefined {
    return this.#source.rescanMs;
  }

  /** No scan ever succeeded: what there is, is not known. Later failures change nothing of what is known. */
  get unknown(): { readonly sinceMs: number; readonly reason: string } | undefined {
    return this.#unknown;
  }

  /** Since when it was scanned and had not one usable device; monotonic. */
  get unusableSinceMs(): number | undefined {
    return this.#unusableSinceMs;
  }

  get isRemoving(): boolean {
    return this.#removing !== undefined;
  }

  report(): PluginReport {
    return this.#handle.report();
  }

  /** False when the plugin must be removed and made anew. */
  canBecome({ resource, socketName }: PlannedPlugin): boolean {
    return resource === this.#planned.resource && socketName === this.#planned.socketName;
  }

  become(planned: PlannedPlugin): void {
    const isSame = planned.version === this.#planned.version;
    this.#planned = planned;
    if (isSame) return;
    this.#source = planned.source();
    this.#deps.onEvent();
  }

  async scan(): Promise<void> {
    const source = this.#source;
    const devices = await source.scan().catch((error: unknown) => {
      if (this.#unknown) this.#unknown = { ...this.#unknown, reason: errorMessage(error) };
      throw error;
    });
    // Exchanged meanwhile: its own scan is on its way.
    if (source !== this.#source || this.#removing) return;
    this.#handle.setDevices(devices);
    this.#noteUsable(devices);
    if (this.#watchPlaces()) this.#deps.onEvent();
  }

  remove(): Promise<void> {
    for (const end of this.#watching.values()) end();
    this.#removing ??= this.#handle.remove();
    return this.#removing;
  }

  #noteUsable(devices: readonly PluginDevice[]): void {
    const isUsable = devices.some(({ isHealthy }) => isHealthy);
    const wasUsable = this.#unknown === undefined && this.#unusableSinceMs === undefined;
    this.#unknown = undefined;
    if (isUsable) this.#unusableSinceMs = undefined;
    else this.#unusableSinceMs ??= this.#deps.monotonicMs();
    if (isUsable !== wasUsable) this.#deps.onUsable();
  }

  /** Whether a place is watched from now on that was not yet: what happened there before must be looked for. */
  #watchPlaces(): boolean {
    const { entries = [], directories = [] } = this.#source.places();
    const { watch, onEvent } = this.#deps;
    const wanted = new Map<string, () => () => void>([
      ...entries.map((file) => [`entry ${file}`, () => watch.watch(file, onEvent)] as const),
      ...directories.map((directory) => [`names ${directory}`, () => watch.watchNames(directory, onEvent)] as const),
    ]);
    for (const [place, end] of this.#watching) {
      if (wanted.has(place)) continue;
      end();
      this.#watching.delete(place);
    }
    const added = [...wanted].filter(([place]) => !this.#watching.has(place));
    for (const [place, begin] of added) this.#watching.set(place, begin());
    return added.length > 0;
  }
}
