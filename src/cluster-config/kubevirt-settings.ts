import { isDeepStrictEqual } from 'node:util';
import { type Clock, errorMessage, Listeners, type Logger } from '../base/index.ts';
import { activeKubeVirt, type KubeVirt } from './active-kubevirt.ts';
import type { ConfigReader } from './config-reader.ts';
import type { KeptConfiguration } from './kept-configuration.ts';

export interface KubeVirtSettingsDeps<T> {
  readonly reader: ConfigReader<T>;
  /** An informer of KubeVirt objects. */
  readonly kubevirts: {
    readonly hasSynced: boolean;
    list(): KubeVirt[];
    addHandlers(handlers: { added(): void; updated(): void; deleted(): void }): () => void;
  };
  /** Where the last good configuration outlives this process; without it, it does not. */
  readonly kept?: {
    read(): Promise<KeptConfiguration | undefined>;
    keep(configuration: KeptConfiguration): void;
    stop(): Promise<void>;
  };
  readonly clock: Pick<Clock, 'now'>;
  readonly log: Logger;
}

/**
 * Where the configuration in use is from. `kept`: there is no newer object that can be read and used. `asOf`: when it was read
 * from the API server, perhaps by an earlier process.
 */
export type ConfigOrigin =
  | { readonly from: 'defaults' }
  | { readonly from: 'object' | 'kept'; readonly asOf: Date; readonly resourceVersion: string };

/**
 * The configuration as the KubeVirt object has it, read when the object changes. An object that is gone, has no phase yet,
 * cannot be used or cannot be read changes nothing: the last good configuration counts, that of an earlier process
 * on this node, too; only where there never was one the defaults.
 */
export class KubeVirtSettings<T> {
  readonly #deps: KubeVirtSettingsDeps<T>;
  readonly #selections: Listeners<[config: T]>;
  #seen: KubeVirt | undefined;
  #current: T;
  /** What `#current` was read from. */
  #good: KeptConfiguration | undefined;
  #problem: string | undefined;
  #end: (() => void) | undefined;

  constructor(deps: KubeVirtSettingsDeps<T>) {
    this.#deps = deps;
    this.#current = deps.reader.defaults;
    // A listener that cannot live with a new value keeps no other from hearing of it.
    this.#selections = new Listeners({
      onError: (error) =>
        deps.log.error({ reason: errorMessage(error) }, 'a change of the configuration could not be applied'),
    });
  }

  get current(): T {
    return this.#current;
  }

  get isKnown(): boolean {
    if (this.#good) return true;
    return this.#deps.kubevirts.hasSynced && this.#problem === undefined;
  }

  get origin(): ConfigOrigin {
    if (!this.#good) return { from: 'defaults' };
    const { kubevirt, asOf } = this.#good;
    const isNewest = activeKubeVirt(this.#deps.kubevirts.list()) === kubevirt;
    return { from: isNewest ? 'object' : 'kept', asOf, resourceVersion: kubevirt.metadata.resourceVersion ?? '' };
  }

  get problem(): string | undefined {
    return this.#problem;
  }

  /** Before `begin`: takes up what an earlier process of this node kept. Never rejects. */
  async recall(): Promise<void> {
    const kept = await this.#deps.kept?.read();
    if (!kept || this.#good) return;
    const { log, reader } = this.#deps;
    const reading = reader.read(kept.kubevirt);
    if (reading.kind === 'unusable') {
      log.warn({ reason: reading.problem }, 'the kept configuration cannot be used: it counts as none');
      return;
    }
    const { resourceVersion } = kept.kubevirt.metadata;
    log.info(
      { asOf: kept.asOf.toISOString(), resourceVersion },
      'the kept configuration counts until there is a newer one',
    );
    this.#become(reading.config, kept);
  }

  /** Begins to follow the objects. */
  begin(): void {
    const look = () => this.#look();
    this.#end ??= this.#deps.kubevirts.addHandlers({ added: look, updated: look, deleted: look });
    this.#look();
  }

  async stop(): Promise<void> {
    this.#end?.();
    this.#selections.clear();
    await this.#deps.kept?.stop();
  }

  select<V>(read: (config: T) => V, onChange: (value: V) => void): () => void {
    let value = read(this.#current);
    const end = this.#selections.add((config) => {
      const next = read(config);
      if (isDeepStrictEqual(next, value)) return;
      value = next;
      onChange(next);
    });
    onChange(value);
    return end;
  }

  #look(): void {
    const active = activeKubeVirt(this.#deps.kubevirts.list());
    if (active === undefined || active === this.#seen) return;
    this.#seen = active;
    const { clock, kept, log, reader } = this.#deps;
    const reading = reader.read(active);
    const was = this.#problem;
    this.#problem = reading.kind === 'unusable' ? reading.problem : undefined;
    if (reading.kind === 'unusable') {
      if (reading.problem !== was) log.warn({ reason: reading.problem }, 'the last good configuration is kept');
      return;
    }
    if (was !== undefined) log.info('the configuration of the KubeVirt object can be used again');
    const good = { kubevirt: active, asOf: clock.now() };
    kept?.keep(good);
    this.#become(reading.config, good);
  }

  #become(config: T, good: KeptConfiguration): void {
    this.#current = config;
    this.#good = good;
    this.#selections.notify(config);
  }
}
