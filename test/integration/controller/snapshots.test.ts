import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { findCondition, resources } from '../../../src/api/index.ts';
import { SnapshotNode } from '../../fixtures/controller/snapshot-node.ts';
import { eventually } from '../../fixtures/eventually.ts';
import { namespace } from '../../fixtures/storage-node.ts';

const needsRoot = process.getuid?.() === 0 ? false : 'disks are given to QEMU’s user: this takes root';
const type = resources.virtualMachineSnapshots;

describe('snapshots of VMs, on the storage of a standalone node', { skip: needsRoot }, () => {
  let node: SnapshotNode;
  before(async () => {
    node = await SnapshotNode.start();
  });
  after(() => node?.stop());
  const remove = (name: string) => node.cluster.client.delete(type, { namespace, name });

  test('a stopped VM: its claims are copied, the VM is locked meanwhile, and all of it goes with the snapshot', async () => {
    await node.createClaim('root', 'first');
    await node.createVm('plain', ['root']);
    await node.createSnapshot('evening', 'plain');
    const taken = await node.untilTaken('evening');
    const { phase, indications, snapshotVolumes, conditions } = taken.status ?? {};
    assert.deepEqual([phase, indications, snapshotVolumes], ['Succeeded', undefined, { includedVolumes: ['disk0'] }]);
    assert.deepEqual(
      ['Ready', 'Progressing'].map((each) => findCondition(conditions, each)?.status),
      ['True', 'False'],
    );
    const [content] = await node.contents();
    assert.equal(content?.spec.source.virtualMachine?.metadata.name, 'plain');
    const [volume] = await node.volumeSnapshots();
    assert.equal(volume?.metadata.name, `vmsnapshot-${taken.metadata.uid}-volume-disk0`);
    assert.equal(volume?.spec.source.persistentVolumeClaimName, 'root');
    await node.cluster.untilEvent('evening', 'SuccessfulVirtualMachineSnapshotContentCreate');
    const line = await node.storage.kubectl.run(['get', 'vmsnapshot', 'evening', '--no-headers']);
    assert.match(line, /^evening +VirtualMachine +plain +Succeeded +true +\d+s *\n?$/);
    await remove('evening');
    await node.cluster.untilGone(type, 'evening');
    await eventually(async () => assert.deepEqual([await node.contents(), await node.volumeSnapshots()], [[], []]));
  });

  test('a VM says which of its volumes a snapshot would have, as soon as they are there', async () => {
    const statuses = async () => (await node.vm('told')).status?.volumeSnapshotStatuses;
    await node.createVm('told', ['root', 'awaited']);
    const root = { name: 'disk0', enabled: true };
    await eventually(async () =>
      assert.deepEqual(await statuses(), [root, { name: 'disk1', enabled: false, reason: 'PVC not found' }]),
    );
    await node.createClaim('awaited', 'late');
    await eventually(async () => assert.deepEqual(await statuses(), [root, { name: 'disk1', enabled: true }]));
    const { items } = await node.cluster.client.list(resources.volumeSnapshotClasses);
    for (const { metadata } of items) await node.cluster.client.delete(resources.volumeSnapshotClasses, metadata);
    await eventually(async () =>
      assert.deepEqual(
        (await statuses())?.map(({ enabled }) => enabled),
        [false, false],
      ),
    );
    for (const { metadata, ...rest } of items) {
      const { name, annotations } = metadata;
      await node.cluster.client.create(resources.volumeSnapshotClasses, {
        ...rest,
        metadata: { name, ...(annotations && { annotations }) },
      });
    }
    await eventually(async () =>
      assert.deepEqual(
        (await statuses())?.map(({ enabled }) => enabled),
        [true, true],
      ),
    );
  });

  test('Retain keeps what the snapshot has', async () => {
    await node.createSnapshot('kept', 'plain', { deletionPolicy: 'Retain' });
    await node.untilTaken('kept');
    await remove('kept');
    await node.cluster.untilGone(type, 'kept');
    const [content] = await node.contents();
    assert.equal(content?.status?.readyToUse, true);
    assert.equal((await node.volumeSnapshots()).length, 1);
    await node.cluster.client.delete(resources.virtualMachineSnapshotContents, content?.metadata ?? { name: '' });
    await eventually(async () => assert.deepEqual([await node.contents(), await node.volumeSnapshots()], [[], []]));
  });

  test('a snapshot of no VM waits for one, and fails when its time is over', async () => {
    await node.createSnapshot('early', 'later', { failureDeadline: '2s' });
    const early = await node.untilSnapshot('early', 'waits', ({ status }) => status?.phase === 'InProgress');
    assert.equal(findCondition(early.status?.conditions, 'Progressing')?.reason, 'Source does not exist');
    const late = await node.untilSnapshot('early', 'failed', ({ status }) => status?.phase === 'Failed');
    assert.equal(findCondition(late.status?.conditions, 'Failure')?.reason, 'snapshot deadline exceeded');
    await node.cluster.untilEvent('early', 'VirtualMachineSnapshotFailed');
    await remove('early');
    await node.cluster.untilGone(type, 'early');
  });

  test('a running guest is frozen while its disks are copied, and what it was like is said', async () => {
    await node.createClaim('live', 'running');
    await node.createVm('guest', ['live'], { runStrategy: 'Manual' });
    const start = { stateChangeRequests: [{ action: 'Start' }] };
    const vms = resources.virtualMachines;
    await node.cluster.client.patch(vms, { namespace, name: 'guest' }, { status: start }, 'merge', {
      subresource: 'status',
    });
    await node.runGuest('guest');
    node.onCall(async (call) => {
      const [what, name = ''] = call.split(' ');
      await node.setVmi(name, { fsFreezeStatus: what === 'freeze' ? 'frozen' : null });
    });
    await node.createSnapshot('online', 'guest');
    await eventually(() => assert.deepEqual(node.calls.slice(0, 2), ['freeze guest', 'unfreeze guest']));
    // A disk without FICLONE is copied when nobody has it.
    await node.cluster.client.delete(resources.virtualMachineInstances, { namespace, name: 'guest' });
    await node.endPods();
    const taken = await node.untilTaken('online');
    const said = new Set(taken.status?.indications);
    assert.ok(said.has('Online') && said.has('GuestAgent') && !said.has('Paused'), [...said].join());
    const messages = taken.status?.sourceIndications?.map(({ message }) => message) ?? [];
    assert.equal(
      messages.every((message) => message !== ''),
      true,
    );
    await remove('online');
    await node.cluster.untilGone(type, 'online');
  });

  test('while a snapshot is taken its VM cannot be changed, and a second one waits', async () => {
    await node.storage.stop();
    await node.createSnapshot('one', 'plain');
    await node.untilSnapshot('one', 'locked', ({ status }) => {
      return findCondition(status?.conditions, 'Progressing')?.status === 'True';
    });
    const ref = { namespace, name: 'plain' };
    const change = node.cluster.client.patch(
      resources.virtualMachines,
      ref,
      { spec: { runStrategy: 'Always' } },
      'merge',
    );
    await assert.rejects(change, /Cannot update vm running state until snapshot "one" completes/);
    await node.createSnapshot('two', 'plain');
    await node.untilSnapshot('two', 'waits', ({ status }) => {
      return findCondition(status?.conditions, 'Progressing')?.reason?.includes('snapshot "one" in progress') === true;
    });
    await node.storage.start();
    for (const name of ['one', 'two']) await node.untilTaken(name);
    for (const name of ['one', 'two']) await remove(name);
    for (const name of ['one', 'two']) await node.cluster.untilGone(type, name);
  });
});
