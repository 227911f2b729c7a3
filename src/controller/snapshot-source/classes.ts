import { type KubeObject, resources, type StorageClass, type VolumeSnapshotClass } from '../../api/index.ts';
import { memberAt } from '../../base/index.ts';
import { getIfThere, type Informer, type KubeClient } from '../../kube/index.ts';

export type FoundClass =
  | { readonly kind: 'snapshot'; readonly snapshotClass: string }
  | { readonly kind: 'none'; readonly why: string }
  | { readonly kind: 'waits'; readonly why: string };

export interface SnapshotClassesDeps {
  readonly client: Pick<KubeClient, 'get' | 'list'>;
  readonly storageClasses: Pick<Informer<StorageClass>, 'get' | 'hasSynced' | 'health'>;
  readonly snapshotClasses: Pick<Informer<VolumeSnapshotClass>, 'list' | 'hasSynced' | 'health'>;
}

const isDefault = ({ metadata }: KubeObject) =>
  metadata.annotations?.['snapshot.storage.kubernetes.io/is-default-class'] === 'true';

/** Of which class VolumeSnapshots of a storage class are made. */
export class SnapshotClasses {
  readonly #deps: SnapshotClassesDeps;

  constructor(deps: SnapshotClassesDeps) {
    this.#deps = deps;
  }

  /** Rejects with KubeError where the API server does not answer. */
  async of(storageClass: string, signal: AbortSignal): Promise<FoundClass> {
    const { storageClasses, snapshotClasses } = this.#deps;
    for (const [what, { hasSynced, health }] of [
      ['StorageClasses', storageClasses],
      ['VolumeSnapshotClasses', snapshotClasses],
    ] as const) {
      if (!hasSynced) return { kind: 'waits', why: `${what} cannot be read: ${health.lastError ?? 'no answer yet'}` };
    }
    const provisioner = storageClasses.get(storageClass)?.provisioner;
    const cached = snapshotClasses.list().filter(({ driver }) => driver === provisioner);
    // A volume without one stays out of the snapshot for good, and a cache may be behind.
    const matching = cached.length > 0 ? cached : await this.#newest(storageClass, signal);
    const [only, second] = matching;
    if (!only) return { kind: 'none', why: '' };
    if (!second) return { kind: 'snapshot', snapshotClass: only.metadata.name };
    // None of them is a guess that anybody would want for a disk, and without one the disk would be left out: upstream waits, too.
    const chosen = (await this.#profiled(storageClass, matching, signal)) ?? matching.find(isDefault)?.metadata.name;
    if (chosen !== undefined) return { kind: 'snapshot', snapshotClass: chosen };
    const names = matching.map(({ metadata }) => metadata.name).join(', ');
    const why = `${matching.length} matching VolumeSnapshotClasses for ${storageClass}: ${names}: mark one as the default class`;
    return { kind: 'waits', why };
  }

  /** What CDI's profile of the storage class says; it matters where there are several. */
  async #profiled(
    name: string,
    matching: readonly VolumeSnapshotClass[],
    signal: AbortSignal,
  ): Promise<string | undefined> {
    const profile = await getIfThere<KubeObject>(this.#deps.client, resources.storageProfiles, { name }, { signal });
    const wanted = memberAt(profile, 'status', 'snapshotClass');
    return matching.find(({ metadata }) => metadata.name === wanted)?.metadata.name;
  }

  async #newest(name: string, signal: AbortSignal): Promise<VolumeSnapshotClass[]> {
    const { client } = this.#deps;
    const storageClass = await getIfThere<StorageClass>(client, resources.storageClasses, { name }, { signal });
    if (!storageClass) return [];
    const { items } = await client.list<VolumeSnapshotClass>(resources.volumeSnapshotClasses, { signal });
    return items.filter(({ driver }) => driver === storageClass.provisioner);
  }
}
