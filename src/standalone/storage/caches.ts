import {
  type KubeObject,
  type PersistentVolume,
  type PersistentVolumeClaim,
  type Pod,
  type ResourceType,
  resources,
  type StorageClass,
  type VolumeSnapshot,
  type VolumeSnapshotClass,
  type VolumeSnapshotContent,
} from '../../api/index.ts';
import type { Component, Logger } from '../../base/index.ts';
import { Informer, type InformerOptions, type KubeClient } from '../../kube/index.ts';

const backoff = { baseMs: 100, maxMs: 2_000 };

/** What the node's storage knows of the API server. Old is not gone: before something is destroyed the server itself is asked. */
export class StorageCaches implements Component {
  readonly name = 'caches of storage';
  readonly claims: Informer<PersistentVolumeClaim>;
  readonly volumes: Informer<PersistentVolume>;
  readonly classes: Informer<StorageClass>;
  readonly pods: Informer<Pod>;
  readonly snapshots: Informer<VolumeSnapshot>;
  readonly contents: Informer<VolumeSnapshotContent>;
  readonly snapshotClasses: Informer<VolumeSnapshotClass>;

  constructor(deps: { readonly client: Pick<KubeClient, 'list' | 'watch'>; readonly log: Logger }) {
    const follow = <T extends KubeObject>(type: ResourceType, more: Omit<InformerOptions<T>, 'type'> = {}) =>
      new Informer<T>({ type, backoff, ...more }, deps);
    this.claims = follow(resources.persistentVolumeClaims);
    this.volumes = follow(resources.persistentVolumes);
    this.classes = follow(resources.storageClasses);
    this.pods = follow<Pod>(resources.pods, { indexes: { claim: claimsOf } });
    this.snapshots = follow(resources.volumeSnapshots);
    this.contents = follow(resources.volumeSnapshotContents);
    this.snapshotClasses = follow(resources.volumeSnapshotClasses);
  }

  get isSynced(): boolean {
    return this.#all.every(({ hasSynced }) => hasSynced);
  }

  /** Resolves when all first lists are there. */
  async start(signal: AbortSignal): Promise<void> {
    await Promise.all(this.#all.map((informer) => informer.start()));
    await Promise.all(this.#all.map((informer) => informer.waitForSync(signal)));
  }

  async stop(): Promise<void> {
    await Promise.all(this.#all.map((informer) => informer.stop()));
  }

  /** Names of the pods that have, or may get, the claim `namespace/name`, and have not ended. */
  usersOf(claim: string): string[] {
    return this.pods.byIndex('claim', claim).map(({ metadata }) => metadata.name);
  }

  get #all() {
    return [
      ...[this.claims, this.volumes, this.classes, this.pods],
      ...[this.snapshots, this.contents, this.snapshotClasses],
    ];
  }
}

/** Keys of the claims of a pod that has not ended. */
export function claimsOf({ metadata, spec, status }: Pod): string[] {
  if (status?.phase === 'Succeeded' || status?.phase === 'Failed') return [];
  return (spec.volumes ?? []).flatMap(({ persistentVolumeClaim }) =>
    persistentVolumeClaim ? [`${metadata.namespace}/${persistentVolumeClaim.claimName}`] : [],
  );
}
