import { type Clock, errorMessage, type Logger } from '../../../base/index.ts';
import type { DevicePlugins, PluginDevice, PluginHandle, PluginReport } from '../../../device-plugin/index.ts';
import type { PathWatch } from '../../../host/index.ts';
import { type KeyResult, SingleReconciler } from '../../../reconcile/index.ts';
import type { NodeProblem } from '../ports.ts';
import type { DeviceSource } from './device-source.ts';
import type { PlannedPlugin } from './plan.ts';

export interface RunningPluginDeps {
  readonly plugins: DevicePlugins;
  readonly watch: PathWatch;
  /** It has devices that can be used, or has none any more. */
  readonly onUsable: () => void;
  readonly clock: Clock;
  readonly log: Logger;
}

const scanBackoff = { baseMs: 1_000, maxMs: 60_000, jitter: 0.1 };
const failedMessage = 'devices could not be looked for: the last known ones count';
/** The kernel makes a device's file before the last of its attributes: one more look follows each event. */
const settleMs = 1_000;

/** A plugin with what is found for it. The source may be exchanged: the kubelet sees nothing but another list. */
export class RunningPlugin {
  readonly #deps: RunningPluginDeps;
  readonly #handle: PluginHandle;
  readonly #scans: SingleReconciler;
  readonly #watching = new Map<string, () => void>();
  #planned: PlannedPlugin;
  #source: DeviceSource;
  #removing: Promise<void> | undefined;
  /** Something happened where its devices are since the last scan. */
  #hadEvent = false;
  #unusableSinceMs: number | undefined;
  #unknown: { readonly sinceMs: number; readonly reason: string } | undefined;

  constructor(planned: PlannedPlugin, deps: RunningPluginDeps) {
    this.#planned = planned;
    this.#deps = deps;
    this.#source = planned.source();
    this.#unknown = { sinceMs: deps.clock.monotonicMs(), reason: 'it has not been looked for yet' };
    const { clock, log } = deps;
    this.#scans = new SingleReconciler(
      { name: planned.resource, backoff: scanBackoff, failedMessage },
      { reconcile: () => this.#scan(), clock, log: log.child({ resource: planned.resource }) },
    );
    this.#handle = deps.plugins.add({
      resourceName: planned.resource,
      socketName: planned.socketName,
      allocate: (ids) => this.#source.allocate(ids),
    });
  }

  get planned(): PlannedPlugin {
    return this.#planned;
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
    this.scanSoon();
  }

  /** Something happened where its devices are. */
  scanSoon(): void {
    this.#hadEvent = true;
    this.#scans.wake();
  }

  /** No new scan; the end of the one under way is awaited. */
  stopScans(): Promise<void> {
    return this.#scans.stop();
  }

  async #scan(): Promise<KeyResult> {
    const hadEvent = this.#hadEvent;
    this.#hadEvent = false;
    await this.#lookForDevices();
    const { rescanMs } = this.#source;
    if (rescanMs === undefined) return { kind: 'done' };
    return { kind: 'done', requeueAfterMs: hadEvent ? settleMs : rescanMs };
  }

  async #lookForDevices(): Promise<void> {
    const source = this.#source;
    const devices = await source.scan().catch((error: unknown) => {
      if (this.#unknown) this.#unknown = { ...this.#unknown, reason: errorMessage(error) };
      throw error;
    });
    // Exchanged meanwhile: its own scan is on its way.
    if (source !== this.#source || this.#removing) return;
    this.#handle.setDevices(devices);
    this.#noteUsable(devices);
    if (this.#watchPaths()) this.scanSoon();
  }

  remove(): Promise<void> {
    for (const end of this.#watching.values()) end();
    this.#removing ??= Promise.all([this.#handle.remove(), this.stopScans()]).then(() => undefined);
    return this.#removing;
  }

  #noteUsable(devices: readonly PluginDevice[]): void {
    const isUsable = devices.some(({ isHealthy }) => isHealthy);
    const wasUsable = this.#unknown === undefined && this.#unusableSinceMs === undefined;
    this.#unknown = undefined;
    if (isUsable) this.#unusableSinceMs = undefined;
    else this.#unusableSinceMs ??= this.#deps.clock.monotonicMs();
    if (isUsable !== wasUsable) this.#deps.onUsable();
  }

  /** Whether a path is watched from now on that was not yet: what happened there before must be looked for. */
  #watchPaths(): boolean {
    const { entries = [], directories = [] } = this.#source.watchedPaths();
    const { watch } = this.#deps;
    const onEvent = () => this.scanSoon();
    const wanted = new Map<string, () => () => void>([
      ...entries.map((file) => [`entry ${file}`, () => watch.watch(file, onEvent)] as const),
      ...directories.map((directory) => [`names ${directory}`, () => watch.watchNames(directory, onEvent)] as const),
    ]);
    for (const [key, end] of this.#watching) {
      if (wanted.has(key)) continue;
      end();
      this.#watching.delete(key);
    }
    const added = [...wanted].filter(([key]) => !this.#watching.has(key));
    for (const [key, begin] of added) this.#watching.set(key, begin());
    return added.length > 0;
  }
}

/** Why VMIs of this node would find no device of one kind; undefined: they do, or they do not need it. */
export function problemOf(plugin: RunningPlugin): NodeProblem | undefined {
  const { planned, unknown, unusableSinceMs } = plugin;
  if (planned.essential === undefined) return undefined;
  const { state } = plugin.report();
  const kind = pascal(planned.essential);
  const { resource } = planned;
  if (state.kind === 'waiting' && state.code === 'NOT_LISTENED') {
    const message = `The kubelet does not listen to device plugin ${resource}: ${state.reason}; restart the kubelet of this node.`;
    return { source: 'devices', reason: `${kind}PluginNotListened`, message, sinceMs: state.sinceMs };
  }
  if (state.kind !== 'registered') {
    const why = state.kind === 'waiting' ? `: ${state.reason}` : ' yet';
    const message = `The kubelet does not know device plugin ${resource}${why}; look at the kubelet of this node.`;
    return { source: 'devices', reason: `${kind}PluginNotRegistered`, message, sinceMs: state.sinceMs };
  }
  if (unknown) {
    const message = `Whether the device of ${resource} is there is not known: ${unknown.reason}; the agent must be able to read the host's /dev.`;
    return { source: 'devices', reason: `${kind}DeviceUnknown`, message, sinceMs: unknown.sinceMs };
  }
  if (unusableSinceMs === undefined) return undefined;
  const message = `The device of ${resource} is not there; load its kernel module on this node.`;
  return { source: 'devices', reason: `${kind}DeviceMissing`, message, sinceMs: unusableSinceMs };
}

/** `vhost-net` is `VhostNet`. */
function pascal(name: string): string {
  return name.replaceAll(/(?:^|-)([a-z])/g, (_, letter: string) => letter.toUpperCase());
}
