import { isDeepStrictEqual } from 'node:util';
import { type Clock, errorMessage, type Logger } from '../../base/index.ts';
import type { ClusterSettings, ConfigOrigin, EffectiveConfig } from '../node-ports.ts';
import { activeKubeVirt, type KubeVirt } from './active-kubevirt.ts';
import { defaultConfig, readEffectiveConfig } from './effective-config.ts';
import type { KeptConfiguration } from './kept-configuration.ts';

export interface KubeVirtSettingsDeps {
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

interface Selection {
  look(config: EffectiveConfig): void;
}

/**
 * The configuration as the KubeVirt object has it, read when the object changes. An object that is gone, has no phase yet,
 * cannot be used or cannot be read changes nothing (spec 60 §7.1): the last good configuration counts, that of an earlier agent
 * on this node, too; only where there never was one the defaults.
 */
export class KubeVirtSettings implements ClusterSettings {
  readonly #nodeName: string;
  readonly #deps: KubeVirtSettingsDeps;
  readonly #selections = new Set<Selection>();
  #seen: KubeVirt | undefined;
  #current: EffectiveConfig;
  /** What `#current` was read from. */
  #good: KeptConfiguration | undefined;
  #problem: string | undefined;
  #end: (() => void) | undefined;

  constructor({ nodeName }: { readonly nodeName: string }, deps: KubeVirtSettingsDeps) {
    this.#nodeName = nodeName;
    this.#deps = deps;
    this.#current = defaultConfig(nodeName);
  }

  get current(): EffectiveConfig {
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

  /** Before `begin`: takes up what an earlier agent of this node kept. Never rejects. */
  async recall(): Promise<void> {
    const kept = await this.#deps.kept?.read();
    if (!kept || this.#good) return;
    const { log } = this.#deps;
    const reading = readEffectiveConfig(kept.kubevirt, this.#nodeName);
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

  select<T>(read: (config: EffectiveConfig) => T, onChange: (value: T) => void): () => void {
    let value = read(this.#current);
    const selection: Selection = {
      look: (config) => {
        const next = read(config);
        if (isDeepStrictEqual(next, value)) return;
        value = next;
        onChange(next);
      },
    };
    this.#selections.add(selection);
    onChange(value);
    return () => this.#selections.delete(selection);
  }

  #look(): void {
    const active = activeKubeVirt(this.#deps.kubevirts.list());
    if (active === undefined || active === this.#seen) return;
    this.#seen = active;
    const { clock, kept, log } = this.#deps;
    const reading = readEffectiveConfig(active, this.#nodeName);
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

  #become(config: EffectiveConfig, good: KeptConfiguration): void {
    this.#current = config;
    this.#good = good;
    for (const selection of [...this.#selections]) this.#tell(selection);
  }

  /** Whoever cannot live with a new value keeps nobody else from hearing of it. */
  #tell(selection: Selection): void {
    try {
      selection.look(this.#current);
    } catch (error) {
      this.#deps.log.error({ reason: errorMessage(error) }, 'a change of the configuration could not be applied');
    }
  }
}
