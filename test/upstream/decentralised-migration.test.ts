import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import { bundleProgram } from '../../scripts/bundle.mjs';
import { findCondition, resources, type VirtualMachineInstance } from '../../src/api/index.ts';
import { type PlayedCluster, type RunningController, withController } from './controller-scenes.ts';
import { GuestMove } from './guest-move.ts';
import { SynchronizationController } from './synchronization-controller.ts';

/**
 * A guest moves from a VMI of one namespace to one of another on a real kube-apiserver, with upstream's own virt-synchronization-controller
 * between them; kubelets, scheduler and agents are played. Upstream's virt-controller is played the same beside ours.
 */

interface Parts {
  readonly assets: string;
  readonly theirController: string;
  readonly synchronization: string;
}

const parts: Parts = JSON.parse(process.env.KUBELET_PARTS ?? '{}');
const own = '.build/decentralised/virt-controller.mjs';
const { migrations } = resources;
const isRunning = ({ status }: VirtualMachineInstance) => status?.phase === 'Running';
const isWaiting = ({ status }: VirtualMachineInstance) => status?.phase === 'WaitingForSync';

const clusterOf = (program: PlayedCluster['program']): PlayedCluster => ({
  assets: parts.assets,
  advertisedAddress: '192.168.126.1',
  program,
  featureGates: ['DecentralizedLiveMigration'],
  nodes: {
    node1: (namespace) => !namespace.endsWith('-there'),
    node2: (namespace) => namespace.endsWith('-there') && !namespace.startsWith('homeless'),
  },
});

async function withBoth(
  program: PlayedCluster['program'],
  work: (running: RunningController) => Promise<void>,
): Promise<void> {
  await withController(clusterOf(program), async (running) => {
    const { client: admin, server, dir, controller } = running;
    const place = { dir, kubeconfig: server.adminKubeconfig, admin };
    const synchronization = await SynchronizationController.start(parts.synchronization, place);
    try {
      await work(running);
    } catch (error) {
      const said = synchronization.log().split('\n').slice(-15).join('\n');
      throw new Error(`${program.name}\n${controller.logTail(15)}\n${said}`, { cause: error });
    } finally {
      await synchronization.stop();
    }
  });
}

/** All of it, to the end on both sides. */
async function carryOut(move: GuestMove): Promise<void> {
  await move.handedOver();
  await move.prepared();
  await move.moving();
  await move.arrived();
}

for (const name of ['ours', 'upstream'] as const) {
  test(`a guest moves to another namespace and runs there alone, with the controller of ${name}`, async () => {
    await bundleProgram('virt-controller', own);
    const command = name === 'ours' ? `${process.execPath} ${own}` : parts.theirController;
    await withBoth({ name, command }, async ({ client }) => {
      // Upstream's waits for ever for labels of a node that has none of this kind; ours is shown without.
      const labels = name === 'ours' ? {} : { 'cpu-vendor.node.kubevirt.io/AMD': 'true' };
      await client.patch(resources.nodes, { name: 'node1' }, { metadata: { labels } }, 'merge');
      const move = await GuestMove.begin(client, 'whole');
      assert.deepEqual(await move.pods('there'), []);
      await move.askBoth();
      const { metadata } = await move.handedOver();
      const [pod] = await move.pods('there');
      const terms = JSON.stringify(pod?.spec.affinity);
      assert.match(terms, /"kubernetes.io\/hostname","operator":"NotIn","values":\["node1"\]/);
      assert.equal(metadata.labels?.['kubevirt.io/migrationTargetNodeName'], 'node2');
      await carryOut(move);
      await move.settled();
    });
  });
}

suite('a guest that is to move to another namespace, with our controller', () => {
  let running: RunningController;
  let end: () => void = () => undefined;
  let run: Promise<void>;
  before(async () => {
    await bundleProgram('virt-controller', own);
    const begun = new Promise<RunningController>((resolve, reject) => {
      run = withBoth({ name: 'ours', command: `${process.execPath} ${own}` }, async (started) => {
        resolve(started);
        await new Promise<void>((done) => {
          end = done;
        });
      });
      run.catch(reject);
    });
    running = await begun;
  });
  after(async () => {
    end();
    await run;
  });

  test('a half whose other half never comes says what it waits for, and is cancelled by deleting it', async () => {
    const move = await GuestMove.begin(running.client, 'alone');
    await move.ask('here');
    await move.blocked(
      'here',
      /no answer from 127\.0\.0\.1:9185.*It says: .*unable to locate VMI for migrationID alone/,
    );
    await move.cancel('here');
    await move.gone('here');
    await move.vmi('here', 'runs', isRunning);
    await move.ask('there');
    await move.blocked('there', /no source has called yet/);
    await move.cancel('there');
    await move.gone('there');
    await move.vmi('there', 'waits', isWaiting);
    assert.deepEqual(await move.pods('there'), []);
    await move.askBoth();
    await carryOut(move);
    await move.settled();
  });

  test('halves with different IDs do not find each other, and say so', async () => {
    const move = await GuestMove.begin(running.client, 'strangers');
    await move.ask('there', 'move', 'one');
    await move.ask('here', 'move', 'other');
    await move.blocked('here', /unable to locate VMI for migrationID other/);
    await move.blocked('there', /migrationID "one"/);
    await Promise.all([move.cancel('here'), move.cancel('there')]);
    await Promise.all([move.gone('here'), move.gone('there')]);
    await move.vmi('here', 'runs', isRunning);
  });

  test('a migration that is cancelled on the target after its hand-over ends on both sides, and another one brings the guest', async () => {
    const move = await GuestMove.begin(running.client, 'recalled');
    await move.askBoth();
    await move.handedOver();
    await move.cancel('there');
    await move.tidiedUp();
    await Promise.all([move.gone('here'), move.gone('there')]);
    await move.vmi('here', 'runs', isRunning);
    await move.vmi('there', 'waits again', isWaiting);
    await move.askBoth();
    await carryOut(move);
    await move.settled();
  });

  test('a migration that is cancelled on the source when the target is ready ends on both sides', async () => {
    const move = await GuestMove.begin(running.client, 'regretted');
    await move.askBoth();
    await move.handedOver();
    await move.prepared();
    await move.cancel('here');
    await move.aborted();
    await move.tidiedUp();
    await Promise.all([move.gone('here'), move.gone('there')]);
    await move.vmi('here', 'runs', isRunning);
    await move.vmi('there', 'waits again', isWaiting);
  });

  test('a target pod that no node takes in time is told to the source, which does not wait for it for ever', async () => {
    const move = await GuestMove.begin(running.client, 'homeless');
    await move.ask('there', 'move', 'homeless', { 'kubevirt.io/migrationPendingPodTimeoutSeconds': '2' });
    await move.ask('here');
    await move.blocked('here', /has no pod for the guest yet/);
    for (const place of ['there', 'here'] as const) {
      const { status } = await move.migration(place, 'failed', (each) => each.status?.phase === 'Failed');
      const words = place === 'there' ? /pending pod .* timeout period exceeded/ : /migration (has )?failed/;
      assert.match(findCondition(status?.conditions, 'migrationFailed')?.message ?? '', words);
    }
    await move.vmi('here', 'runs', isRunning);
    await move.vmi('there', 'waits again', isWaiting);
  });

  test('a target pod that ends is told to the source, which does not wait for it for ever', async () => {
    const move = await GuestMove.begin(running.client, 'lost');
    await move.askBoth();
    const vmi = await move.handedOver();
    const namespace = vmi.metadata.namespace ?? '';
    const [pod] = await move.pods('there');
    await running.client.patch(
      resources.pods,
      { namespace, name: pod?.metadata.name ?? '' },
      { status: { phase: 'Failed' } },
      'merge',
      { subresource: 'status' },
    );
    for (const place of ['here', 'there'] as const)
      await move.migration(place, 'failed', ({ status }) => status?.phase === 'Failed');
    await move.vmi('here', 'runs', isRunning);
    await move.vmi('there', 'waits again', isWaiting);
  });

  test('objects that cannot be one end of such a migration fail in words', async () => {
    const move = await GuestMove.begin(running.client, 'wrong');
    const fails = async (name: string, spec: object, words: RegExp) => {
      const namespace = 'wrong-here';
      const metadata = { name, namespace, labels: { 'kubevirt.io/vmi-name': 'vm' } };
      await running.client.create(migrations, {
        ...{ apiVersion: 'kubevirt.io/v1', kind: migrations.kind, metadata },
        spec: { vmiName: 'vm', ...spec },
      } as never);
      const { status } = await move.migration('here', 'failed', (each) => each.status?.phase === 'Failed', name);
      assert.match(findCondition(status?.conditions, 'migrationFailed')?.message ?? '', words);
    };
    const sendTo = { migrationID: 'a', connectURL: 'b:1' };
    await fails('both', { sendTo, receive: { migrationID: 'a' } }, /both sendTo and receive/);
    await fails('no-address', { sendTo: { ...sendTo, connectURL: '' } }, /lacks connectURL/);
    await fails('no-id', { sendTo: { ...sendTo, migrationID: '' } }, /lacks the migrationID/);
    await fails('no-receiver', { receive: { migrationID: 'a' } }, /was not made to receive a guest/);
  });

  test('without the gate a VM receives no guest, and a migration that asks for one fails, both naming the gate', async () => {
    const move = await GuestMove.begin(running.client, 'gated');
    const kubevirt = { namespace: 'kubevirt', name: 'kubevirt' };
    const off = { spec: { configuration: { developerConfiguration: { featureGates: [] } } } };
    await running.client.patch(resources.kubevirts, kubevirt, off, 'merge');
    const gate = /feature gate DecentralizedLiveMigration/;
    await move.vm('there', 'refused', ({ status }) => {
      return gate.test(findCondition(status?.conditions, 'Failure')?.message ?? '');
    });
    await move.ask('here');
    const { status } = await move.migration('here', 'failed', (each) => each.status?.phase === 'Failed');
    assert.match(findCondition(status?.conditions, 'migrationFailed')?.message ?? '', gate);
    await move.vmi('here', 'runs', isRunning);
  });
});
