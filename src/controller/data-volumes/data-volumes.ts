import {
  type DataVolume,
  findCondition,
  type Key,
  keyOf,
  type PersistentVolumeClaim,
  resources,
} from '../../api/index.ts';
import { type Clock, type Component, Listeners, type Logger } from '../../base/index.ts';
import { Informer, type KubeClient } from '../../kube/index.ts';

/** `unread`: the API server has not answered yet. */
export type FillingState = 'filled' | 'filling' | 'awaits-consumer' | 'failed' | 'missing' | 'unread';

/** `unread`: the API server has not answered yet, with what it said instead. */
export type KnownDataVolume =
  | { readonly kind: 'found'; readonly object: DataVolume }
  | { readonly kind: 'absent' }
  | { readonly kind: 'unread'; readonly error: string | undefined };

/** How far a claim is filled that a DataVolume fills. */
export interface ClaimFilling {
  readonly claim: string;
  readonly state: FillingState;
  /** In words for its user. */
  readonly detail: string;
}

export interface DataVolumesDeps {
  readonly client: Pick<KubeClient, 'list' | 'watch'>;
  readonly clock: Clock;
  readonly log: Logger;
  readonly random: () => number;
}

/**
 * What is known of DataVolumes (containerized-data-importer). Most clusters of a laptop have no such kind, so they are listed and watched
 * from the first claim on that one fills, or the first VM that has templates of them, and not before.
 */
export class DataVolumes implements Component {
  readonly name = 'data volumes';
  readonly #deps: DataVolumesDeps;
  readonly #informer: Informer<DataVolume>;
  readonly #listeners: Listeners<[Key]>;
  readonly #stopping = new AbortController();
  /** Claims that wait for the first list. */
  readonly #waiting = new Set<Key>();
  #isFollowing = false;

  constructor(deps: DataVolumesDeps) {
    this.#deps = deps;
    this.#informer = new Informer<DataVolume>({ type: resources.dataVolumes }, deps);
    this.#listeners = new Listeners({
      onError: (error) => deps.log.error({ err: error }, 'a listener of DataVolumes failed'),
    });
  }

  async start(): Promise<void> {
    const changed = (dataVolume: DataVolume) => this.#listeners.notify(keyOf(dataVolume));
    this.#informer.addHandlers({ added: changed, updated: (_, newer) => changed(newer), deleted: changed });
  }

  async stop(): Promise<void> {
    this.#stopping.abort();
    if (this.#isFollowing) await this.#informer.stop();
  }

  /** Hears the keys of DataVolumes, which are those of their claims, when something new is known of them. */
  onChange(listener: (claim: Key) => void): () => void {
    return this.#listeners.add(listener);
  }

  /** Undefined: no DataVolume fills it. */
  fillingOf(claim: PersistentVolumeClaim): ClaimFilling | undefined {
    const filler = fillerOf(claim);
    if (!filler) return undefined;
    this.#follow(keyOf(claim));
    const name = claim.metadata.name;
    if (!this.#informer.hasSynced) {
      const { lastError } = this.#informer.health;
      const why = lastError === undefined ? 'not read yet' : `cannot be read: ${lastError}`;
      return {
        claim: name,
        state: 'unread',
        detail: `DataVolume ${filler.name}, which fills claim ${name}, is ${why}`,
      };
    }
    const found = this.#informer.get(`${claim.metadata.namespace}/${filler.name}`);
    if (found?.metadata.uid !== filler.uid || !found) {
      const advice = 'nobody knows whether its data is whole; remove the claim’s owner reference if you do';
      return {
        claim: name,
        state: 'missing',
        detail: `claim ${name}: its DataVolume ${filler.name} is gone: ${advice}`,
      };
    }
    return { claim: name, state: stateOf(found), detail: detailOf(found) };
  }

  /** Who asks is told by `onChange` when the first list is there. */
  lookUp(key: Key): KnownDataVolume {
    this.#follow(key);
    if (!this.#informer.hasSynced) return { kind: 'unread', error: this.#informer.health.lastError };
    const object = this.#informer.get(key);
    return object ? { kind: 'found', object } : { kind: 'absent' };
  }

  /** What is known already; nothing is followed for it. */
  peek(key: Key): DataVolume | undefined {
    return this.#isFollowing ? this.#informer.get(key) : undefined;
  }

  #follow(claim: Key): void {
    if (!this.#informer.hasSynced) this.#waiting.add(claim);
    if (this.#isFollowing || this.#stopping.signal.aborted) return;
    this.#isFollowing = true;
    this.#read().catch((error) => {
      if (!this.#stopping.signal.aborted) this.#deps.log.error({ err: error }, 'DataVolumes are not followed');
    });
  }

  /** Also who waits for a DataVolume that is not there has to hear that it was looked for. */
  async #read(): Promise<void> {
    await this.#informer.start();
    await this.#informer.waitForSync(this.#stopping.signal);
    const waiting = [...this.#waiting];
    this.#waiting.clear();
    for (const claim of waiting) this.#listeners.notify(claim);
  }
}

function fillerOf({ metadata }: PersistentVolumeClaim): { name: string; uid: string } | undefined {
  return metadata.ownerReferences?.find(({ controller, kind }) => controller && kind === resources.dataVolumes.kind);
}

/** A claim of phase `PendingPopulation` is bound when it is filled, and a pod waits for that by itself. */
const states: Readonly<Record<string, FillingState>> = {
  Succeeded: 'filled',
  PendingPopulation: 'filled',
  WaitForFirstConsumer: 'awaits-consumer',
  Failed: 'failed',
};

export function stateOf({ status }: DataVolume): FillingState {
  return states[status?.phase ?? ''] ?? 'filling';
}

export function detailOf({ metadata, status }: DataVolume): string {
  const { phase = 'no phase yet', progress } = status ?? {};
  const running = findCondition(status?.conditions, 'Running');
  const why = running?.status === 'False' && running.message ? `: ${running.message}` : '';
  const share = progress && progress !== 'N/A' ? `, ${progress}` : '';
  return `DataVolume ${metadata.name}: ${phase}${share}${why}`;
}
