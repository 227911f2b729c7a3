import { isDeepStrictEqual } from 'node:util';
import { errorMessage, type Logger } from '../../base/index.ts';
import type { ClusterSettings, EffectiveConfig } from '../node-ports.ts';
import { activeKubeVirt, type KubeVirt } from './active-kubevirt.ts';
import { defaultConfig, readEffectiveConfig } from './effective-config.ts';

export interface KubeVirtSettingsDeps {
  /** An informer of KubeVirt objects. */
  readonly kubevirts: {
    readonly hasSynced: boolean;
    list(): KubeVirt[];
    addHandlers(handlers: { added(): void; updated(): void; deleted(): void }): () => void;
  };
  readonly log: Logger;
}

interface Selection {
  look(config: EffectiveConfig): void;
}

/**
 * The configuration as the KubeVirt object has it, read when the object changes. An object that is gone, has no phase yet or
 * cannot be used changes nothing (spec 60 §7.1): the last good configuration counts, at the start the defaults.
 */
export class KubeVirtSettings implements ClusterSettings {
  readonly #nodeName: string;
  readonly #deps: KubeVirtSettingsDeps;
  readonly #selections = new Set<Selection>();
  #seen: KubeVirt | undefined;
  #current: EffectiveConfig;
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
    return this.#seen !== undefined || this.#deps.kubevirts.hasSynced;
  }

  get problem(): string | undefined {
    return this.#problem;
  }

  /** Begins to follow the objects. */
  begin(): void {
    const look = () => this.#look();
    this.#end ??= this.#deps.kubevirts.addHandlers({ added: look, updated: look, deleted: look });
    this.#look();
  }

  stop(): void {
    this.#end?.();
    this.#selections.clear();
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
    const { log } = this.#deps;
    const reading = readEffectiveConfig(active, this.#nodeName);
    const was = this.#problem;
    this.#problem = reading.kind === 'unusable' ? reading.problem : undefined;
    if (reading.kind === 'unusable') {
      if (reading.problem !== was) log.warn({ reason: reading.problem }, 'the last good configuration is kept');
      return;
    }
    if (was !== undefined) log.info('the configuration of the KubeVirt object can be used again');
    this.#current = reading.config;
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
