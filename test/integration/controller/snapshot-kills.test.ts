import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { resources, type VirtualMachineRestore } from '../../../src/api/index.ts';
import type { KubeClient } from '../../../src/kube/index.ts';
import { SnapshotNode } from '../../fixtures/controller/snapshot-node.ts';
import { eventually } from '../../fixtures/eventually.ts';

const needsRoot = process.getuid?.() === 0 ? false : 'disks are given to QEMU’s user: this takes root';
const writing = ['create', 'update', 'updateStatus', 'patch', 'delete', 'raw'];

/** A client of a process that ends after so many writes: what was written is there, and nothing more comes. */
function dying(client: KubeClient, writes: number): { client: KubeClient; isDead: () => boolean } {
  let left = writes;
  const proxy = new Proxy(client, {
    get(target, name) {
      const value: unknown = Reflect.get(target, name, target);
      if (typeof value !== 'function') return value;
      if (!writing.includes(String(name))) return value.bind(target);
      return async (...given: readonly unknown[]) => {
        const isEvent = given[0] === resources.events;
        if (!isEvent && left <= 0) throw new Error('the process was killed');
        if (!isEvent) left--;
        return value.apply(target, given);
      };
    },
  });
  return { client: proxy, isDead: () => left <= 0 };
}

describe('a controller that is killed while it takes a snapshot and restores it in place', { skip: needsRoot }, () => {
  let node: SnapshotNode;
  before(async () => {
    node = await SnapshotNode.start();
    await node.cluster.stopController();
  });
  after(() => node?.stop());

  const restored = (name: string) => node.cluster.find<VirtualMachineRestore>(resources.virtualMachineRestores, name);

  /** False: the story was over before it died. */
  async function story(writes: number): Promise<boolean> {
    const name = `vm${writes}`;
    await node.createClaim(name, 'first');
    await node.cluster.startController();
    await node.createVm(name, [name]);
    await eventually(async () => assert.notEqual((await node.vm(name)).metadata.finalizers, undefined));
    await node.cluster.stopController();
    const { client, isDead } = dying(node.cluster.client, writes);
    await node.cluster.startController(client);
    await node.createSnapshot(name, name);
    await node.createRestore(name, name, name, { volumeRestorePolicy: 'InPlace' });
    await eventually(async () => {
      assert.ok(isDead() || (await restored(name))?.status?.complete === true);
    }, 30_000);
    await node.cluster.stopController();
    const wasKilled = isDead();
    await node.cluster.startController();
    await node.untilTaken(name);
    await eventually(async () => assert.equal((await restored(name))?.status?.complete, true), 30_000);
    assert.equal(await node.read(name), 'first');
    await eventually(async () => {
      const { status } = await node.vm(name);
      assert.deepEqual([status?.snapshotInProgress, status?.restoreInProgress], [undefined, undefined]);
    });
    const own = (await node.volumeSnapshots()).filter(({ spec }) => spec.source.persistentVolumeClaimName === name);
    assert.deepEqual(
      own.map(({ status }) => status?.readyToUse),
      [true],
    );
    await node.cluster.stopController();
    return wasKilled;
  }

  test('after every third of its writes: another one goes on, and the claim has what it had', async () => {
    let writes = 0;
    while (await story(writes)) writes += 3;
    assert.ok(writes > 10, `the story took ${writes} writes`);
  });
});
