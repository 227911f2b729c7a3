import type { PersistentVolumeClaim } from '../../api/index.ts';
import { type Component, type Logger, systemClock } from '../../base/index.ts';
import { EventRecorder, type KubeClient } from '../../kube/index.ts';
import type { ClaimPlaces } from '../data-volumes/index.ts';
import type { NodePaths } from '../paths.ts';
import { type ClaimParts, qemuUser } from '../pod-runner/index.ts';
import { ensureStorageClasses, LoopDevices, StorageCaches, StorageController, VolumeFiles } from '../storage/index.ts';
import { claimPlaces } from './claim-places.ts';

export interface NodeStorageDeps {
  readonly client: KubeClient;
  readonly log: Logger;
}

/** Storage of all nodes of this machine, which is one disk: what makes volumes, and what pods get of them. */
export class NodeStorage {
  readonly #client: KubeClient;
  readonly #log: Logger;
  readonly #volumesDir: string;
  readonly #files: VolumeFiles;
  readonly #loops = new LoopDevices();
  readonly #caches: StorageCaches;

  constructor(
    { claimsDir, snapshotsDir }: Pick<NodePaths, 'claimsDir' | 'snapshotsDir'>,
    { client, log }: NodeStorageDeps,
  ) {
    this.#client = client;
    this.#log = log;
    this.#volumesDir = claimsDir;
    this.#files = new VolumeFiles({ volumesDir: claimsDir, snapshotsDir, owner: qemuUser });
    this.#caches = new StorageCaches({ client, log });
  }

  /** For pod runners. */
  get claims(): ClaimParts {
    return { files: this.#files, loops: this.#loops, onChange: (listener) => this.#onReady(listener) };
  }

  /** For those who fill claims. */
  get places(): ClaimPlaces {
    const parts = { caches: this.#caches, files: this.#files, loops: this.#loops, clock: systemClock };
    return claimPlaces({ volumesDir: this.#volumesDir, ...parts });
  }

  /** To be started in this order. */
  async components(): Promise<Component[]> {
    const client = this.#client;
    await ensureStorageClasses(client);
    const events = new EventRecorder({ component: 'virt-node-storage' }, { client, log: this.#log });
    const parts = { caches: this.#caches, files: this.#files, loops: this.#loops, events };
    const deps = { ...parts, client, log: this.#log, clock: systemClock, random: Math.random };
    const flush = { name: 'events of storage', start: async () => undefined, stop: () => events.stop(2_000) };
    return [flush, this.#caches, new StorageController(deps)];
  }

  #onReady(listener: () => void): () => void {
    const isBound = ({ status }: PersistentVolumeClaim) => status?.phase === 'Bound';
    return this.#caches.claims.addHandlers({
      added: (claim) => isBound(claim) && listener(),
      updated: (older, claim) => isBound(claim) && !isBound(older) && listener(),
      deleted: () => undefined,
    });
  }
}
