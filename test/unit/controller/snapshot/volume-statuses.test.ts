import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import {
  type KubeObject,
  keyOf,
  type PersistentVolumeClaim,
  resources,
  type StorageClass,
  type VirtualMachine,
  type VolumeSnapshotClass,
} from '../../../../src/api/index.ts';
import { keptStateIndexes } from '../../../../src/controller/kept-state/index.ts';
import {
  SnapshotClasses,
  VolumeSnapshotStatuses,
  vmsByClaim,
  volumeIndexes,
} from '../../../../src/controller/snapshot-source/index.ts';
import { KubeError } from '../../../../src/kube/index.ts';
import { ObjectStore } from '../../../../src/kube/store.ts';
import { FakeClock, settle } from '../../../fixtures/fake-clock.ts';
import { buildVm } from '../builders.ts';
import { buildClaim } from '../restore/builders.ts';

const { signal } = new AbortController();

/** An informer that answers when it is told to. */
class Cache<T extends KubeObject> extends ObjectStore<T> {
  hasSynced = false;
  health: Record<string, unknown> = {};
  readonly firstAnswer: Promise<void>;
  #answer: () => void = () => undefined;

  constructor(indexes: ConstructorParameters<typeof ObjectStore<T>>[0] = {}) {
    super(indexes, (error) => {
      throw error;
    });
    this.firstAnswer = new Promise((resolve) => {
      this.#answer = resolve;
    });
  }

  list(): T[] {
    return [...this.values()];
  }

  waitForSync(): Promise<void> {
    return this.hasSynced ? Promise.resolve() : new Promise(() => undefined);
  }

  read(...objects: T[]): void {
    this.replace(objects);
    this.hasSynced = true;
    this.#answer();
  }

  fails(health: object): void {
    this.health = { ...health };
    this.#answer();
  }
}

const classOf = (name: string, provisioner: string): StorageClass => ({
  ...{ apiVersion: 'storage.k8s.io/v1', kind: 'StorageClass', provisioner },
  metadata: { name, resourceVersion: '1' },
});
const snapshotClass = (
  name: string,
  driver: string,
  annotations: Record<string, string> = {},
): VolumeSnapshotClass => ({
  ...{ apiVersion: 'snapshot.storage.k8s.io/v1', kind: 'VolumeSnapshotClass', driver, deletionPolicy: 'Delete' },
  metadata: { name, annotations, resourceVersion: '1' },
});
const byDefault = { 'snapshot.storage.kubernetes.io/is-default-class': 'true' };

function claimOn(name: string, storageClassName?: string, labels: Record<string, string> = {}): PersistentVolumeClaim {
  const claim = buildClaim(name);
  return {
    ...claim,
    metadata: { ...claim.metadata, labels, resourceVersion: '1' },
    spec: { ...(storageClassName !== undefined && { storageClassName }) },
  };
}

class World {
  readonly storageClasses = new Cache<StorageClass>();
  readonly snapshotClasses = new Cache<VolumeSnapshotClass>();
  readonly claims = new Cache<PersistentVolumeClaim>(keptStateIndexes);
  readonly vms = new Cache<VirtualMachine>(volumeIndexes);
  readonly clock = new FakeClock();
  readonly dataVolumes = new Map<string, object>();
  profileReads = 0;
  profile: () => object | undefined = () => undefined;
  readonly classes = new SnapshotClasses({
    ...{ storageClasses: this.storageClasses, snapshotClasses: this.snapshotClasses, clock: this.clock },
    client: {
      get: async (type: object) => {
        if (type !== resources.storageProfiles) throw new Error('classes are not asked for');
        this.profileReads++;
        const profile = this.profile();
        if (!profile) throw new KubeError('NOT_FOUND', 'no profile', { httpStatus: 404 });
        return profile;
      },
      list: async () => {
        throw new Error('classes are not asked for');
      },
    },
  } as never);
  readonly statuses = new VolumeSnapshotStatuses({
    ...{ claims: this.claims, classes: this.classes },
    stateClaims: (vm) => this.claims.byIndex('state-of-vm', vm),
    vmsOfClaim: (claim) => this.vms.byIndex(vmsByClaim, claim).map(keyOf),
    dataVolumes: { peek: (key) => this.dataVolumes.get(key) as never },
  });

  /** Two storage classes, of which `fast` has snapshots. */
  static read(...claims: PersistentVolumeClaim[]): World {
    const world = new World();
    world.storageClasses.read(classOf('fast', 'driver'), classOf('slow', 'other'));
    world.snapshotClasses.read(snapshotClass('snap', 'driver'));
    world.claims.read(...claims);
    return world;
  }

  of(vm: VirtualMachine) {
    return this.statuses.of(vm, signal);
  }
}

const vmWith = (volumes: readonly object[], spec: object = {}, domain: object = {}): VirtualMachine =>
  buildVm({ template: { spec: { domain, volumes } } as never, ...spec });
const onClaim = (claimName: string) => ({ name: claimName, persistentVolumeClaim: { claimName } });
const noClass = (storageClass: string, volume: string) =>
  `No VolumeSnapshotClass: Volume snapshots are not configured for this StorageClass [${storageClass}] [${volume}]`;

describe('which volumes of a VM a snapshot would have', () => {
  test('those on claims whose class has a snapshot class of its driver; of the others it is said why not', async () => {
    const world = World.read(
      claimOn('root', 'fast'),
      claimOn('data', 'slow'),
      claimOn('bare'),
      claimOn('dump', 'fast'),
    );
    const volumes = [
      ...['root', 'data', 'bare', 'lost'].map(onClaim),
      { name: 'dump', memoryDump: { claimName: 'dump' } },
      { name: 'image', containerDisk: { image: 'i' } },
    ];
    assert.deepEqual(await world.of(vmWith(volumes)), [
      { name: 'root', enabled: true },
      { name: 'data', enabled: false, reason: noClass('slow', 'data') },
      { name: 'bare', enabled: false, reason: noClass('', 'bare') },
      { name: 'lost', enabled: false, reason: 'PVC not found' },
      { name: 'dump', enabled: true },
      { name: 'image', enabled: false, reason: 'Snapshot is not supported for this volumeSource type [image]' },
    ]);
    assert.deepEqual(await world.of(vmWith([])), []);
    assert.deepEqual(await world.of(vmWith([null, 7, { name: 3 }] as never)), []);
  });

  test('a DataVolume and its template say the class before there is a claim', async () => {
    const world = World.read();
    const volumes = ['made', 'wanted', 'unsaid'].map((name) => ({ name, dataVolume: { name } }));
    const storage = (storageClassName: string) => ({ spec: { storage: { storageClassName } } });
    world.dataVolumes.set('default/made', { spec: { pvc: { storageClassName: 'fast' } } });
    const dataVolumeTemplates = [
      { metadata: { name: 'wanted' }, ...storage('slow') },
      { metadata: { name: 'unsaid' }, spec: {} },
    ];
    assert.deepEqual(await world.of(vmWith(volumes, { dataVolumeTemplates })), [
      { name: 'made', enabled: true },
      { name: 'wanted', enabled: false, reason: noClass('slow', 'wanted') },
      { name: 'unsaid', enabled: false, reason: 'PVC not found' },
    ]);
  });

  test('what a TPM keeps is one of them, once there is a claim for it', async () => {
    const vm = vmWith([], {}, { devices: { tpm: { persistent: true } } });
    const world = World.read();
    assert.deepEqual(await world.of(vm), []);
    world.claims.upsert(claimOn('state', 'fast', { 'persistent-state-for': 'vm1' }));
    assert.deepEqual(await world.of(vm), [{ name: 'persistent-state-for-vm1', enabled: true }]);
  });

  test('of several classes the one of the storage profile, or the default; what the profile says is read once a minute', async () => {
    const world = World.read(claimOn('root', 'fast'));
    const vm = vmWith([onClaim('root')]);
    const said = async () => (await world.of(vm))?.[0];
    world.snapshotClasses.upsert(snapshotClass('second', 'driver'));
    assert.match((await said())?.reason ?? '', /^2 matching VolumeSnapshotClasses for fast: snap, second: mark one/);
    await said();
    assert.equal(world.profileReads, 1);
    world.profile = () => ({ status: { snapshotClass: 'second' } });
    await world.clock.pass(61_000);
    assert.deepEqual(await said(), { name: 'root', enabled: true });
    world.profile = () => {
      throw new KubeError('FORBIDDEN', 'no', { httpStatus: 403 });
    };
    await world.clock.pass(61_000);
    assert.deepEqual(await said(), { name: 'root', enabled: false, reason: 'StorageProfile fast cannot be read' });
    world.profile = () => ({});
    world.snapshotClasses.upsert(snapshotClass('third', 'driver', byDefault));
    await world.clock.pass(1_000);
    assert.deepEqual(await said(), { name: 'root', enabled: true });
  });

  test('nothing is said before it is known which classes there are; a cluster without such a kind has none', async () => {
    const world = new World();
    world.claims.read(claimOn('root', 'fast'));
    const vm = vmWith([onClaim('root')]);
    const image = vmWith([{ name: 'image', containerDisk: { image: 'i' } }]);
    assert.deepEqual([await world.of(vm), (await world.of(image))?.length], [undefined, 1]);
    world.storageClasses.read(classOf('fast', 'driver'));
    assert.equal(await world.of(vm), undefined);
    world.snapshotClasses.fails({ lastError: '404', lastCode: 'NOT_FOUND' });
    assert.equal((await world.of(vm))?.[0]?.reason, noClass('fast', 'root'));
    world.snapshotClasses.fails({ lastError: 'refused', lastCode: 'UNREACHABLE' });
    assert.equal((await world.of(vm))?.[0]?.reason, 'VolumeSnapshotClasses cannot be read');
  });
});

describe('who is told that they may have changed', () => {
  function follow(world: World) {
    const told: (string | undefined)[] = [];
    const end = world.statuses.onChange((vm) => told.push(vm));
    return { take: () => told.splice(0), end };
  }

  test('the VMs of a claim that comes, goes or gets a class, and no others', () => {
    const world = World.read();
    world.vms.read(vmWith([onClaim('root')]));
    const { take, end } = follow(world);
    assert.deepEqual(take(), []);
    const claim = claimOn('root');
    world.claims.upsert(claim);
    world.claims.upsert(claimOn('other', 'fast'));
    assert.deepEqual(take(), ['default/vm1']);
    world.claims.upsert({ ...claim, metadata: { ...claim.metadata, resourceVersion: '2' }, status: { phase: 'Lost' } });
    assert.deepEqual(take(), []);
    const classed = claimOn('root', 'fast');
    world.claims.upsert({ ...classed, metadata: { ...classed.metadata, resourceVersion: '3' } });
    assert.ok(take().every((vm) => vm === 'default/vm1'));
    world.claims.delete(classed);
    assert.deepEqual(take(), ['default/vm1']);
    world.claims.upsert(claimOn('state', 'fast', { 'persistent-state-for': 'vault' }));
    assert.deepEqual(take(), ['default/vault']);
    end();
    world.claims.upsert(claim);
    assert.deepEqual(take(), []);
  });

  test('all VMs, when classes change and when it is known for the first time which there are', async () => {
    const world = new World();
    const { take } = follow(world);
    world.storageClasses.read();
    await settle();
    assert.deepEqual(take(), [undefined]);
    world.snapshotClasses.fails({ lastError: '404', lastCode: 'NOT_FOUND' });
    await settle();
    assert.deepEqual(take(), [undefined]);
    world.snapshotClasses.upsert(snapshotClass('snap', 'driver'));
    assert.deepEqual(take(), [undefined]);
  });

  test('all VMs, when a storage profile can be read that could not: it is asked again after pauses that grow, whoever asks meanwhile', async () => {
    const world = World.read(claimOn('root', 'fast'));
    world.snapshotClasses.upsert(snapshotClass('second', 'driver'));
    const { take, end } = follow(world);
    world.profile = () => {
      throw new KubeError('SERVER_ERROR', 'etcd is away', { httpStatus: 500 });
    };
    const said = async () => (await world.of(vmWith([onClaim('root')])))?.[0];
    const unread = { name: 'root', enabled: false, reason: 'StorageProfile fast cannot be read' };
    for (let asked = 0; asked < 3; asked++) assert.deepEqual(await said(), unread);
    assert.equal(world.profileReads, 1);
    for (let seconds = 0; seconds < 300; seconds++) await world.clock.pass(1_000);
    // After 1, 3, 7, 15, 31 and 63 seconds, and then each minute.
    assert.deepEqual([world.profileReads, take(), await said()], [10, [], unread]);
    world.profile = () => ({ status: { snapshotClass: 'second' } });
    await world.clock.pass(60_000);
    assert.deepEqual([take(), await said()], [[undefined], { name: 'root', enabled: true }]);
    await world.clock.pass(600_000);
    assert.equal(world.profileReads, 11);
    end();
  });

  test('nobody, when none follows any more: no profile is asked again', async () => {
    const world = World.read(claimOn('root', 'fast'));
    world.snapshotClasses.upsert(snapshotClass('second', 'driver'));
    const { end } = follow(world);
    world.profile = () => {
      throw new KubeError('SERVER_ERROR', 'etcd is away', { httpStatus: 500 });
    };
    await world.of(vmWith([onClaim('root')]));
    end();
    await world.clock.pass(600_000);
    assert.equal(world.profileReads, 1);
  });
});
