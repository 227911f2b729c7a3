import {
  type KubeObject,
  keyOf,
  type PersistentVolume,
  type PersistentVolumeClaim,
  type Pod,
} from '../../api/index.ts';
import { type Component, errorMessage } from '../../base/index.ts';
import { claimsOf } from './caches.ts';
import type { ClaimFacts } from './claim-facts.ts';
import type { ClaimStepArgs } from './claim-rules.ts';
import { claimKind } from './claims.ts';
import { type ContentFacts, type ContentStepArgs, contentKind } from './contents.ts';
import { ownHandle } from './driver.ts';
import { type StorageDeps, type StorageLoop, storageLoop } from './loop.ts';
import { type SnapshotFacts, type SnapshotStepArgs, snapshotKind } from './snapshots.ts';
import { type VolumeFacts, type VolumeStepArgs, volumeKind } from './volumes.ts';

/**
 * What a cluster has a provisioner, a snapshotter and the controllers of volumes for: claims get volumes on this machine's disk, volumes go
 * with their claims, snapshots are copies. Nothing is remembered: after a restart it goes on from the objects and from what is on disk.
 */
export class StorageController implements Component {
  readonly name = 'storage';
  readonly #deps: StorageDeps;
  readonly #subscriptions: (() => void)[] = [];
  readonly #claims: StorageLoop<ClaimFacts, ClaimStepArgs>;
  readonly #volumes: StorageLoop<VolumeFacts, VolumeStepArgs>;
  readonly #snapshots: StorageLoop<SnapshotFacts, SnapshotStepArgs>;
  readonly #contents: StorageLoop<ContentFacts, ContentStepArgs>;

  constructor(deps: StorageDeps) {
    this.#deps = deps;
    this.#claims = storageLoop(claimKind, deps);
    this.#volumes = storageLoop(volumeKind, deps);
    this.#snapshots = storageLoop(snapshotKind, deps);
    this.#contents = storageLoop(contentKind, deps);
  }

  /** The caches have to be synced. */
  async start(): Promise<void> {
    await this.#deps.files.sweep();
    const { claims, volumes, classes, pods, snapshots, contents, snapshotClasses } = this.#deps.caches;
    const onAny = <T extends KubeObject>(heard: (object: T) => void) => ({
      added: heard,
      updated: (older: T, newer: T) => {
        heard(older);
        heard(newer);
      },
      deleted: heard,
    });
    this.#subscriptions.push(
      claims.addHandlers(onAny((claim) => this.#onClaim(claim))),
      volumes.addHandlers(onAny((volume) => this.#onVolume(volume))),
      pods.addHandlers({
        added: (pod) => this.#onPod(pod),
        // Its volumes never change, and its status does all the time.
        updated: (older, pod) => claimsOf(older).length !== claimsOf(pod).length && this.#onPod(older),
        deleted: (pod) => this.#onPod(pod),
      }),
      classes.addHandlers(onAny(() => this.#wakeUnfinished())),
      snapshotClasses.addHandlers(onAny(() => this.#wakeUnfinished())),
      snapshots.addHandlers(onAny((snapshot) => this.#onSnapshot(keyOf(snapshot)))),
      contents.addHandlers(
        onAny((content) => {
          const { namespace, name } = content.spec.volumeSnapshotRef;
          this.#contents.wake(content.metadata.name);
          this.#onSnapshot(`${namespace}/${name}`);
        }),
      ),
    );
  }

  async stop(): Promise<void> {
    for (const end of this.#subscriptions.splice(0)) end();
    await Promise.all([this.#claims, this.#volumes, this.#snapshots, this.#contents].map((loop) => loop.stop()));
    await this.#detachIdle();
  }

  /** Of pods that ended last: nobody else takes their devices away. */
  async #detachIdle(): Promise<void> {
    const { caches, files, loops, log } = this.#deps;
    for (const volume of caches.volumes.list()) {
      const { claimRef, volumeMode } = volume.spec;
      const handle = ownHandle(volume);
      if (handle === undefined || volumeMode !== 'Block') continue;
      if (caches.usersOf(`${claimRef?.namespace}/${claimRef?.name}`).length > 0) continue;
      await loops
        .detach(files.image(handle))
        .catch((error: unknown) =>
          log.warn({ volume: volume.metadata.name, err: errorMessage(error) }, 'not detached'),
        );
    }
  }

  #onClaim(claim: PersistentVolumeClaim): void {
    this.#claims.wake(keyOf(claim));
    if (claim.spec.volumeName) this.#volumes.wake(claim.spec.volumeName);
    this.#wakeUnfinished();
  }

  #onVolume({ metadata, spec }: PersistentVolume): void {
    this.#volumes.wake(metadata.name);
    if (spec.claimRef) this.#claims.wake(`${spec.claimRef.namespace}/${spec.claimRef.name}`);
    this.#wakeUnfinished();
  }

  #onPod(pod: Pod): void {
    for (const key of claimsOf(pod)) {
      this.#claims.wake(key);
      const { volumeName } = this.#deps.caches.claims.get(key)?.spec ?? {};
      if (volumeName) this.#volumes.wake(volumeName);
    }
    this.#wakeUnfinished();
  }

  #onSnapshot(key: string): void {
    this.#snapshots.wake(key);
    const content = this.#deps.caches.snapshots.get(key)?.status?.boundVolumeSnapshotContentName;
    if (content) this.#contents.wake(content);
    this.#wakeUnfinished();
  }

  /** They wait for something that may just have come; there are few of them. */
  #wakeUnfinished(): void {
    const { claims, snapshots } = this.#deps.caches;
    for (const claim of claims.list()) if (claim.status?.phase !== 'Bound') this.#claims.wake(keyOf(claim));
    for (const snapshot of snapshots.list()) if (!snapshot.status?.readyToUse) this.#snapshots.wake(keyOf(snapshot));
  }
}
