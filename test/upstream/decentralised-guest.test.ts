import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import {
  findCondition,
  labels,
  resources,
  type VirtualMachineInstance,
  type VirtualMachineInstanceMigration,
} from '../../src/api/index.ts';
import { Informer, loadKubeAccess } from '../../src/kube/index.ts';
import { token } from '../fixtures/controller/cluster.ts';
import { eventually } from '../fixtures/eventually.ts';
import { GuestMemory } from '../fixtures/guest-memory.ts';
import { startKubeApiserver } from '../fixtures/kube-apiserver.ts';
import { Guest, guestSpec, MigrationCluster, patienceMs } from '../fixtures/migration-cluster.ts';
import type { MigrationNode } from '../fixtures/migration-node.ts';
import { GuestMove } from './guest-move.ts';
import { SynchronizationController } from './synchronization-controller.ts';

/**
 * A guest moves to the VMI of another namespace with all that takes part in it: a kube-apiserver, upstream's virt-synchronization-controller, our
 * controller, and two nodes of our agents and launchers. Only scheduler and kubelets are played. The tests are one story.
 */

interface Parts {
  readonly assets: string;
  readonly synchronization: string;
}

type Followed = VirtualMachineInstance | VirtualMachineInstanceMigration;

const { virtualMachineInstances: vmis, migrations } = resources;
/** So slow that something can happen meanwhile. */
const slowly = { bandwidthPerMigration: '8Mi' };

let world: MigrationCluster;
let synchronization: SynchronizationController;
let move: GuestMove;
let guest: Guest;
let source: MigrationNode;
let memory: GuestMemory;
/** Kind, namespace and phase of all that was ever seen: the VMI that a guest has left is soon gone. */
const phases = new Set<string>();
let followers: readonly Informer<Followed>[] = [];

before(async () => {
  const { assets, synchronization: program }: Parts = JSON.parse(process.env.KUBELET_PARTS ?? '{}');
  const users = { [token]: { name: 'everything', groups: ['system:masters'] } };
  // What scripts/kubelet-machine.sh gives it.
  const server = await startKubeApiserver(assets, { users, flags: { 'advertise-address': '192.168.126.1' } });
  const { adminKubeconfig: kubeconfig, dir } = server;
  const access = await loadKubeAccess({ kubeconfig });
  world = await MigrationCluster.start(slowly, {
    api: async () => ({ access, stop: () => server.stop() }),
    featureGates: ['DecentralizedLiveMigration'],
  });
  const { client } = world.cluster;
  synchronization = await SynchronizationController.start(program, { dir, kubeconfig, admin: client });
  followers = [vmis, migrations].map((type) => {
    const informer = new Informer<Followed>({ type }, { client });
    const note = ({ metadata, status }: Followed) =>
      void phases.add(`${type.kind} ${metadata.namespace} ${status?.phase}`);
    informer.addHandlers({ added: note, updated: (_old, seen) => note(seen) });
    return informer;
  });
  for (const informer of followers) await informer.start();
  const spec = (runStrategy: string) => ({ runStrategy, template: { metadata: {}, spec: guestSpec() } });
  move = await GuestMove.begin(client, 'real', { spec, playsAgents: false, limitMs: patienceMs });
  const vmi = await move.vmi('here', 'migratable', ({ status }) => {
    return findCondition(status?.conditions, 'LiveMigratable')?.status === 'True';
  });
  [guest, source] = [guestOf(vmi), world.nodeOf(vmi)];
  // On a busy machine: an emulated guest, and no test of how fast it boots.
  memory = await GuestMemory.mark(guest, source, 300_000);
});
after(async () => {
  if (process.env.MIGRATION_LOG) console.log(world?.logs(), synchronization?.log());
  await synchronization?.stop();
  for (const informer of followers) await informer.stop();
  await world?.dispose();
});

const guestOf = ({ metadata: { name, uid = '' } }: VirtualMachineInstance) => new Guest(world, name, uid);

/** Its only launcher is there, and no stream is open. */
async function livesAlone(of: Guest, node: MigrationNode, without: Guest): Promise<void> {
  await memory.isOn(of, node);
  await eventually(async () => {
    assert.deepEqual([...(await world.launchers(of.uid)).keys()], [node.name]);
    assert.deepEqual([...(await world.launchers(without.uid)).keys()], []);
    const streams = world.nodes.flatMap(({ proxies }) => proxies);
    assert.deepEqual(streams, []);
  }, patienceMs);
}

test('a migration that is cancelled on the source in the middle leaves the guest where it is', async () => {
  await move.askBoth();
  await move.vmi('there', 'on the way', ({ status }) => status?.migrationState?.targetNodeDomainDetected === true);
  for (const place of ['here', 'there'] as const)
    await move.migration(place, 'moving', ({ status }) => status?.phase === 'Running');
  await move.cancel('here');
  await Promise.all([move.gone('here'), move.gone('there')]);
  const { status } = await move.vmi('here', 'runs', (vmi) => vmi.status?.phase === 'Running');
  assert.equal(status?.migrationState?.failed, true);
  const there = await move.vmi('there', 'waits again', (vmi) => {
    const isFree = vmi.metadata.labels?.[labels.migrationTargetNodeName] === undefined;
    return isFree && vmi.status?.phase === 'WaitingForSync';
  });
  await livesAlone(guest, source, guestOf(there));
});

test('the next migration brings the guest with its memory, and it runs there alone', async () => {
  await world.configure({});
  await move.askBoth();
  await move.settled();
  const there = await move.vmi('there', 'arrived', ({ metadata }) => {
    return metadata.labels?.[labels.migrationTargetNodeName] === undefined;
  });
  assert.equal(world.nodeOf(there), world.other(source));
  await livesAlone(guestOf(there), world.other(source), guest);
  for (const end of [`${vmis.kind} real-here`, `${migrations.kind} real-here`, `${migrations.kind} real-there`])
    assert.ok(phases.has(`${end} Succeeded`), `${end}: ${[...phases].join(', ')}`);
});
