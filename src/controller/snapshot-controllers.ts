import {
  type Key,
  type KubeObject,
  keyOf,
  labelQuery,
  labels,
  type PersistentVolumeClaim,
  type Pod,
  resources,
  type Service,
  type StorageClass,
  type VirtualMachine,
  type VirtualMachineBackup,
  type VirtualMachineBackupTracker,
  type VirtualMachineClone,
  type VirtualMachineExport,
  type VirtualMachineInstance,
  type VirtualMachineRestore,
  type VirtualMachineSnapshot,
  type VirtualMachineSnapshotContent,
  type VolumeSnapshot,
  type VolumeSnapshotClass,
} from '../api/index.ts';
import type { Clock, Component, Logger } from '../base/index.ts';
import type { ControllerConfig } from '../cluster-config/index.ts';
import { type EventRecorder, Informer, type KubeClient } from '../kube/index.ts';
import { cachedObjects, ReadYourWrites, type ReconcileObserver } from '../reconcile/index.ts';
import { Authority } from './authority.ts';
import { BackupController, backedUpVms, backupRules, backupTrackers } from './backup/index.ts';
import { BackupTrackerController, backupTrackerRules } from './backup-tracker/index.ts';
import { CloneController, cloneRules } from './clone/index.ts';
import type { DataVolumes } from './data-volumes/index.ts';
import type { ExplainedController } from './explain/index.ts';
import { ExportController, exportRules } from './export/index.ts';
import { claimsByFormerVm, claimsByVm } from './kept-state/index.ts';
import { addSnapshotMetrics, type ControllerMeters, type QueueName } from './metrics/index.ts';
import { RestoreController, restoreRules } from './restore/index.ts';
import { awaitedVms, SnapshotController, snapshotRules } from './snapshot/index.ts';
import { SnapshotContentController, snapshotContentRules } from './snapshot-content/index.ts';
import { SnapshotClasses, VolumeSnapshotStatuses } from './snapshot-source/index.ts';

export interface SnapshotControllersOptions {
  readonly snapshotWorkers: number;
  readonly restoreWorkers: number;
  readonly cloneWorkers: number;
  readonly exportWorkers: number;
  readonly backupWorkers: number;
  readonly authorities: AuthorityPlaces;
}

/** Where authorities are, and KubeVirt's own namespace. */
export interface AuthorityPlaces {
  /** Of the one that signs certificates of exporter pods. */
  readonly exportCaDir: string;
  /** Of the one that signs certificates of launchers which bring a backup to one. */
  readonly backupCaDir: string;
  readonly namespace: string;
}

export interface SnapshotControllersDeps {
  readonly client: KubeClient;
  readonly vms: ReadYourWrites<VirtualMachine>;
  readonly vmis: ReadYourWrites<VirtualMachineInstance>;
  readonly claims: Informer<PersistentVolumeClaim>;
  /** Keys of the VMs that name this claim. */
  readonly vmsOfClaim: (claim: Key) => readonly Key[];
  readonly pods: Informer<Pod>;
  readonly ownPods: ReadYourWrites<Pod>;
  readonly dataVolumes: DataVolumes;
  readonly events: EventRecorder;
  readonly meters: ControllerMeters;
  readonly clock: Clock;
  readonly log: Logger;
  readonly random: () => number;
  readonly randomText: (length: number) => string;
  readonly config: () => ControllerConfig;
  readonly overlay: ConstructorParameters<typeof ReadYourWrites>[1];
}

/** An informer of whatever kind. */
interface Cache {
  readonly name: string;
  readonly size: number;
  start(): Promise<void>;
  stop(): Promise<void>;
}

const bySource = 'source';
const byTracker = 'tracker';

/** Snapshots of VMs, and what follows from them, exports and backups among it, on caches of their own: a cluster may have none of these kinds. */
export class SnapshotControllers {
  readonly classes: SnapshotClasses;
  readonly volumeStatuses: VolumeSnapshotStatuses;
  readonly #informers: SnapshotInformers;
  readonly #snapshots: SnapshotController;
  readonly #contents: SnapshotContentController;
  readonly #restores: RestoreController;
  readonly #clones: CloneController;
  readonly #exports: ExportController;
  readonly #backups: BackupController;
  readonly #trackers: BackupTrackerController;

  constructor(options: SnapshotControllersOptions, deps: SnapshotControllersDeps) {
    const informers = makeInformers(deps);
    this.#informers = informers;
    const { client, vms, vmis, claims, pods, dataVolumes, events, meters, clock, log, random, overlay } = deps;
    const { storageClasses, snapshotClasses } = informers;
    this.classes = new SnapshotClasses({ client, storageClasses, snapshotClasses, clock });
    const stateClaims = (vm: Key) => claims.byIndex(claimsByVm, vm);
    this.volumeStatuses = new VolumeSnapshotStatuses({ ...deps, stateClaims, classes: this.classes });
    const overlaid = <T extends KubeObject>(informer: Informer<T>) =>
      new ReadYourWrites(cachedObjects(informer, keyOf), overlay);
    const counted = (queue: QueueName): { observer: ReconcileObserver } => ({ observer: meters.observer(queue) });
    const snapshots = overlaid(informers.snapshots);
    const contents = overlaid(informers.contents);
    const volumeSnapshots = overlaid(informers.volumeSnapshots);
    const restores = overlaid(informers.restores);
    const ofVms = { vms, vmis, claims, stateClaims, dataVolumes };
    const shared = { client, events, clock, log, random, ...ofVms, snapshots, contents, classes: this.classes };
    const storage =
      (...others: readonly Followable<KubeObject>[]) =>
      (listener: (claim?: Key) => void) =>
        followStorage({ claims, dataVolumes, others }, listener);
    const workers = options.snapshotWorkers;
    this.#snapshots = new SnapshotController(
      { workers },
      {
        ...{ ...shared, pods },
        snapshotsOf: (vm) => informers.snapshots.byIndex(bySource, vm).map(keyOf),
        onStorageChange: storage(storageClasses, snapshotClasses, pods),
        ...counted('snapshot-vmsnapshot'),
      },
    );
    this.#contents = new SnapshotContentController(
      { workers },
      {
        ...{ ...shared, volumeSnapshots, restores },
        volumeSnapshotsError: () => informers.volumeSnapshots.health.lastError,
        ...counted('snapshot-vmsnapshotcontent'),
      },
    );
    this.#restores = new RestoreController(
      { workers: options.restoreWorkers },
      {
        ...{ ...shared, restores, volumeSnapshots, pods, storageClasses },
        formerStateClaims: (vm) => claims.byIndex(claimsByFormerVm, vm),
        onStorageChange: storage(storageClasses, pods),
        ...counted('restore-vmrestore'),
      },
    );
    this.#clones = new CloneController(
      { workers: options.cloneWorkers },
      {
        ...{ ...shared, restores, clones: overlaid(informers.clones) },
        onStorageChange: storage(storageClasses, snapshotClasses),
        ...counted('vmclone'),
      },
    );
    const { exportAuthority, backupAuthority } = authoritiesOf(options.authorities, client);
    const exports = overlaid(informers.exports);
    const backups = overlaid(informers.backups);
    const trackers = overlaid(informers.backupTrackers);
    const trackersOf = (vm: Key) => informers.backupTrackers.byIndex(bySource, vm).map(keyOf);
    this.#exports = new ExportController(
      { workers: options.exportWorkers, namespace: options.authorities.namespace },
      {
        ...{ ...shared, volumeSnapshots, ownPods: deps.ownPods, randomText: deps.randomText },
        ...{ exports, services: overlaid(informers.exportServices), authority: exportAuthority },
        ...{ backups, trackers, backupAuthority },
        settings: () => exportSettings(deps.config()),
        onStorageChange: storage(),
        ...counted('export-vmexport'),
      },
    );
    this.#backups = new BackupController(
      { workers: options.backupWorkers },
      {
        ...{ ...shared, backups, trackers, exports, trackersOf },
        tunnel: { servers: exportAuthority, launchers: backupAuthority },
        backupsOf: (kind, key) => informers.backups.byIndex(kind === 'vm' ? bySource : byTracker, key).map(keyOf),
        onStorageChange: storage(),
        ...counted('vmbackup'),
      },
    );
    this.#trackers = new BackupTrackerController(
      { workers: options.backupWorkers },
      { ...shared, trackers, trackersOf, ...counted('vmbackup-tracker') },
    );
  }

  get components(): readonly Component[] {
    return this.#all;
  }

  get #all() {
    const ofSnapshots = [this.#snapshots, this.#contents, this.#restores, this.#clones];
    return [...ofSnapshots, this.#exports, this.#backups, this.#trackers];
  }

  /** Nothing waits for their first lists. */
  get informers(): readonly Cache[] {
    return Object.values(this.#informers);
  }

  get reconcilers() {
    return this.#all.map(({ reconciler }) => reconciler);
  }

  get explained(): Readonly<Record<ExplainedKind, ExplainedController>> {
    return {
      vmbackup: { source: this.#backups.reconciler, rules: backupRules },
      vmbackuptracker: { source: this.#trackers.reconciler, rules: backupTrackerRules },
      vmclone: { source: this.#clones.reconciler, rules: cloneRules },
      vmexport: { source: this.#exports.reconciler, rules: exportRules },
      vmrestore: { source: this.#restores.reconciler, rules: restoreRules },
      vmsnapshot: { source: this.#snapshots.reconciler, rules: snapshotRules },
      vmsnapshotcontent: { source: this.#contents.reconciler, rules: snapshotContentRules },
    };
  }

  addMetrics(meters: ControllerMeters, isLeading: () => boolean): void {
    meters.read('snapshot-vmsnapshot', this.#snapshots.reconciler);
    meters.read('snapshot-vmsnapshotcontent', this.#contents.reconciler);
    meters.read('restore-vmrestore', this.#restores.reconciler);
    meters.read('vmclone', this.#clones.reconciler);
    meters.read('export-vmexport', this.#exports.reconciler);
    meters.read('vmbackup', this.#backups.reconciler);
    meters.read('vmbackup-tracker', this.#trackers.reconciler);
    addSnapshotMetrics(meters.registry, { isLeading, snapshots: () => this.#informers.snapshots.list() });
  }
}

type ExplainedKind =
  | ('vmsnapshot' | 'vmsnapshotcontent' | 'vmrestore' | 'vmclone')
  | ('vmexport' | 'vmbackup' | 'vmbackuptracker');
type SnapshotInformers = ReturnType<typeof makeInformers>;

function authoritiesOf({ exportCaDir, backupCaDir, namespace }: AuthorityPlaces, client: KubeClient) {
  const exporter = { dir: exportCaDir, name: 'kubevirt-export-ca', signs: 'the certificate of an export' };
  const signs = 'the certificate by which a launcher brings a backup to its exporter';
  const launchers = { dir: backupCaDir, name: 'kubevirt-backup-ca', signs };
  return {
    exportAuthority: new Authority({ ...exporter, namespace }, { client }),
    backupAuthority: new Authority({ ...launchers, namespace }, { client }),
  };
}

function exportSettings({ exporterImage, exporterPods, ...config }: ControllerConfig) {
  const { imagePullPolicy, imagePullSecret } = config;
  const exporter = { image: exporterImage, imagePullPolicy, imagePullSecret, resources: exporterPods.resources };
  return { exporter, certificates: exporterPods.certificates, machineDefaults: config };
}

function makeInformers(deps: Pick<SnapshotControllersDeps, 'client' | 'log' | 'clock' | 'random'>) {
  return {
    snapshots: new Informer<VirtualMachineSnapshot>(
      { type: resources.virtualMachineSnapshots, indexes: { [bySource]: awaitedVms } },
      deps,
    ),
    contents: new Informer<VirtualMachineSnapshotContent>({ type: resources.virtualMachineSnapshotContents }, deps),
    restores: new Informer<VirtualMachineRestore>({ type: resources.virtualMachineRestores }, deps),
    clones: new Informer<VirtualMachineClone>({ type: resources.virtualMachineClones }, deps),
    exports: new Informer<VirtualMachineExport>({ type: resources.virtualMachineExports }, deps),
    backups: new Informer<VirtualMachineBackup>(
      {
        type: resources.virtualMachineBackups,
        indexes: { [bySource]: backedUpVms, [byTracker]: backupTrackers },
      },
      deps,
    ),
    backupTrackers: new Informer<VirtualMachineBackupTracker>(
      {
        type: resources.virtualMachineBackupTrackers,
        indexes: { [bySource]: ({ metadata, spec }) => [`${metadata.namespace}/${spec?.source?.name ?? ''}`] },
      },
      deps,
    ),
    exportServices: new Informer<Service>(
      {
        type: resources.services,
        labelSelector: labelQuery({ key: labels.app, operator: 'In', values: ['virt-exporter'] }),
      },
      deps,
    ),
    volumeSnapshots: new Informer<VolumeSnapshot>({ type: resources.volumeSnapshots }, deps),
    snapshotClasses: new Informer<VolumeSnapshotClass>({ type: resources.volumeSnapshotClasses }, deps),
    storageClasses: new Informer<StorageClass>({ type: resources.storageClasses }, deps),
  };
}

interface Followable<T> {
  addHandlers(handlers: {
    added: (object: T) => void;
    updated: (old: T, object: T) => void;
    deleted: (last: T) => void;
  }): () => void;
}

interface Storage {
  readonly claims: Followable<KubeObject>;
  readonly dataVolumes: Pick<DataVolumes, 'onChange'>;
  /** Classes, and pods that have claims. */
  readonly others: readonly Followable<KubeObject>[];
}

/** Tells the key of a claim that has changed itself, or whose DataVolume has. */
function followStorage({ claims, dataVolumes, others }: Storage, listener: (claim?: Key) => void): () => void {
  const follow = (informer: Followable<KubeObject>, changed: (object: KubeObject) => void) =>
    informer.addHandlers({ added: changed, updated: (_, object) => changed(object), deleted: changed });
  const ends = [
    follow(claims, (claim) => listener(keyOf(claim))),
    ...others.map((informer) => follow(informer, () => listener())),
    dataVolumes.onChange(listener),
  ];
  return () => {
    for (const end of ends) end();
  };
}
