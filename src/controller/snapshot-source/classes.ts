import { type KubeObject, resources, type StorageClass, type VolumeSnapshotClass } from '../../api/index.ts';
import { backoffDelayMs, type Clock, memberAt } from '../../base/index.ts';
import { getIfThere, type Informer, isKubeError, type KubeClient } from '../../kube/index.ts';

export type FoundClass =
  | { readonly kind: 'snapshot'; readonly snapshotClass: string }
  | { readonly kind: 'none'; readonly why: string }
  | { readonly kind: 'waits'; readonly why: string };

type Followed<T extends KubeObject> = Pick<
  Informer<T>,
  'get' | 'list' | 'hasSynced' | 'health' | 'firstAnswer' | 'waitForSync' | 'addHandlers'
>;

export interface SnapshotClassesDeps {
  readonly client: Pick<KubeClient, 'get' | 'list'>;
  readonly storageClasses: Followed<StorageClass>;
  readonly snapshotClasses: Followed<VolumeSnapshotClass>;
  readonly clock: Clock;
}

/** What a profile said, or why it did not answer. */
interface Profiled {
  readonly answer: { readonly name: unknown } | { readonly error: unknown; readonly failures: number };
  readonly untilMs: number;
}

const isDefault = ({ metadata }: KubeObject) =>
  metadata.annotations?.['snapshot.storage.kubernetes.io/is-default-class'] === 'true';

/** Storage profiles are not followed: they are read where there are several classes, and what they say is told again for so long. */
const profileMs = 60_000;
/** One that could not be read is asked again after these pauses. */
const profileBackoff = { baseMs: 1_000, maxMs: profileMs };

/** Of which class VolumeSnapshots of a storage class are made. */
export class SnapshotClasses {
  readonly #deps: SnapshotClassesDeps;
  readonly #profiles = new Map<string, Profiled>();
  readonly #listeners = new Set<() => void>();
  /** Ends tries to read profiles again, by storage class. */
  readonly #retries = new Map<string, () => void>();

  constructor(deps: SnapshotClassesDeps) {
    this.#deps = deps;
  }

  /** For who makes one: the API server itself is asked before it is said that there is none. Rejects with KubeError where it does not answer. */
  async of(storageClass: string, signal: AbortSignal): Promise<FoundClass> {
    const { snapshotClasses } = this.#deps;
    for (const [what, { hasSynced, health }] of this.#followed) {
      if (!hasSynced) return { kind: 'waits', why: `${what} cannot be read: ${health.lastError ?? 'no answer yet'}` };
    }
    const cached = this.#matching(storageClass, snapshotClasses.list());
    // A volume without one stays out of the snapshot for good, and a cache may be behind.
    const matching = cached.length > 0 ? cached : await this.#newest(storageClass, signal);
    return this.#choose(storageClass, matching, () => this.#readProfile(storageClass, signal));
  }

  /** For who only tells of it, and is told by `onChange` when that may have changed. Undefined: it has not been read yet. */
  async known(storageClass: string, signal: AbortSignal): Promise<FoundClass | undefined> {
    for (const [what, { hasSynced, health }] of this.#followed) {
      // The cluster has no such kind.
      if (hasSynced || health.lastCode === 'NOT_FOUND') continue;
      return health.lastError === undefined ? undefined : { kind: 'waits', why: `${what} cannot be read` };
    }
    const matching = this.#matching(storageClass, this.#deps.snapshotClasses.list());
    try {
      return await this.#choose(storageClass, matching, () => this.#keptProfile(storageClass, signal));
    } catch (error) {
      if (signal.aborted || !isKubeError(error)) throw error;
      return { kind: 'waits', why: `StorageProfile ${storageClass} cannot be read` };
    }
  }

  /**
   * Calls back when classes come, go or change, when it is known for the first time which there are, and when a storage profile can be read that could
   * not.
   */
  onChange(listener: () => void): () => void {
    const ending = new AbortController();
    this.#listeners.add(listener);
    const ends = this.#followed.map(([, informer]) => {
      let isHeard = false;
      const changed = () => {
        this.#profiles.clear();
        this.#endRetries();
        if (isHeard) listener();
      };
      const end = informer.addHandlers({ added: changed, updated: changed, deleted: changed });
      isHeard = true;
      const told = () => {
        if (!ending.signal.aborted) listener();
      };
      if (!informer.hasSynced) {
        if (informer.health.lastError === undefined) void informer.firstAnswer.then(told);
        informer.waitForSync(ending.signal).then(told, () => undefined);
      }
      return end;
    });
    return () => {
      ending.abort();
      this.#listeners.delete(listener);
      if (this.#listeners.size === 0) this.#endRetries();
      for (const end of ends) end();
    };
  }

  get #followed(): readonly (readonly [
    what: string,
    informer: Followed<StorageClass> | Followed<VolumeSnapshotClass>,
  ])[] {
    const { storageClasses, snapshotClasses } = this.#deps;
    return [
      ['StorageClasses', storageClasses],
      ['VolumeSnapshotClasses', snapshotClasses],
    ];
  }

  #matching(storageClass: string, classes: readonly VolumeSnapshotClass[]): readonly VolumeSnapshotClass[] {
    const provisioner = this.#deps.storageClasses.get(storageClass)?.provisioner;
    return provisioner === undefined ? [] : classes.filter(({ driver }) => driver === provisioner);
  }

  /** None of several is a guess that anybody would want for a disk, and without one the disk would be left out: upstream waits, too. */
  async #choose(
    storageClass: string,
    matching: readonly VolumeSnapshotClass[],
    profiled: () => Promise<unknown>,
  ): Promise<FoundClass> {
    const [only, second] = matching;
    if (!only) return { kind: 'none', why: '' };
    if (!second) return { kind: 'snapshot', snapshotClass: only.metadata.name };
    const wanted = await profiled();
    const found = matching.find(({ metadata }) => metadata.name === wanted) ?? matching.find(isDefault);
    if (found) return { kind: 'snapshot', snapshotClass: found.metadata.name };
    const names = matching.map(({ metadata }) => metadata.name).join(', ');
    const why = `${matching.length} matching VolumeSnapshotClasses for ${storageClass}: ${names}: mark one as the default class`;
    return { kind: 'waits', why };
  }

  /** What CDI's profile of the storage class says; it matters where there are several. */
  async #readProfile(name: string, signal: AbortSignal): Promise<unknown> {
    const profile = await getIfThere<KubeObject>(this.#deps.client, resources.storageProfiles, { name }, { signal });
    return memberAt(profile, 'status', 'snapshotClass');
  }

  async #keptProfile(storageClass: string, signal: AbortSignal): Promise<unknown> {
    const kept = this.#profiles.get(storageClass);
    const isKept = kept !== undefined && kept.untilMs > this.#deps.clock.monotonicMs();
    const answer = isKept ? kept.answer : await this.#askProfile(storageClass, kept, signal);
    if ('error' in answer) throw answer.error;
    return answer.name;
  }

  /** An answer of either kind is kept. Rejects when it is aborted, or by a fault of this program. */
  async #askProfile(
    storageClass: string,
    earlier: Profiled | undefined,
    signal: AbortSignal,
  ): Promise<Profiled['answer']> {
    const keep = (answer: Profiled['answer'], forMs: number) => {
      this.#profiles.set(storageClass, { answer, untilMs: this.#deps.clock.monotonicMs() + forMs });
      return answer;
    };
    try {
      return keep({ name: await this.#readProfile(storageClass, signal) }, profileMs);
    } catch (error) {
      if (signal.aborted || !isKubeError(error)) throw error;
      const failures = (earlier && 'error' in earlier.answer ? earlier.answer.failures : 0) + 1;
      const pauseMs = backoffDelayMs(failures, profileBackoff);
      this.#retryLater(storageClass, pauseMs);
      return keep({ error, failures }, pauseMs);
    }
  }

  /** On behalf of those who follow: they are woken by an answer, and by nothing before. */
  #retryLater(storageClass: string, pauseMs: number): void {
    this.#retries.get(storageClass)?.();
    if (this.#listeners.size === 0) return;
    const ending = new AbortController();
    const again = async () => {
      const answer = await this.#askProfile(storageClass, this.#profiles.get(storageClass), ending.signal);
      if ('error' in answer) return;
      this.#retries.delete(storageClass);
      for (const listener of this.#listeners) listener();
    };
    // Only what nobody wants to know any more rejects.
    const cancel = this.#deps.clock.schedule(pauseMs, () => void again().catch(() => undefined));
    this.#retries.set(storageClass, () => {
      cancel();
      ending.abort();
    });
  }

  #endRetries(): void {
    for (const end of this.#retries.values()) end();
    this.#retries.clear();
  }

  async #newest(name: string, signal: AbortSignal): Promise<VolumeSnapshotClass[]> {
    const { client } = this.#deps;
    const storageClass = await getIfThere<StorageClass>(client, resources.storageClasses, { name }, { signal });
    if (!storageClass) return [];
    const { items } = await client.list<VolumeSnapshotClass>(resources.volumeSnapshotClasses, { signal });
    return items.filter(({ driver }) => driver === storageClass.provisioner);
  }
}
