import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { silentLogger } from '../../../src/base/index.ts';
import { KubeClient, loadKubeAccess } from '../../../src/kube/index.ts';
import { beginMove, cancelMove, cordonNode, emptyNode, KubeVmFeed } from '../../../src/standalone/page/index.ts';
import { type EmbeddedApi, startEmbeddedApi } from '../../fixtures/embedded-api.ts';
import { eventually } from '../../fixtures/eventually.ts';
import { demoVmi } from '../../fixtures/node-process.ts';

const kubevirt = '/apis/kubevirt.io/v1/namespaces/default';
const { signal } = new AbortController();

describe('nodes as the page of the standalone node has them', () => {
  let api: EmbeddedApi;
  let client: KubeClient;
  let feed: KubeVmFeed;

  before(async () => {
    api = await startEmbeddedApi();
    client = new KubeClient({ userAgent: 'test' }, { access: await loadKubeAccess(api) });
    feed = new KubeVmFeed({ client, log: silentLogger });
    const labels = { 'kubevirt.io/schedulable': 'true' };
    for (const name of ['a', 'b']) {
      const annotations = { 'kubevirt.io/heartbeat': `"${new Date().toISOString()}"` };
      const node = { apiVersion: 'v1', kind: 'Node', metadata: { name, labels, annotations } };
      assert.equal((await api.client.post('/api/v1/nodes', node)).status, 201);
    }
    for (const [name, status] of Object.entries({ moves: 'True', stays: 'False' })) {
      assert.equal((await api.controller.post(`${kubevirt}/virtualmachineinstances`, demoVmi(name))).status, 201);
      const conditions = [{ type: 'LiveMigratable', status, message: 'a disk of this node' }];
      const patch = { status: { phase: 'Running', nodeName: 'a', conditions } };
      const answer = await api.controller.patch(`${kubevirt}/virtualmachineinstances/${name}`, 'merge', patch);
      assert.equal(answer.status, 200);
    }
    await feed.start();
    await eventually(() => assert.deepEqual([feed.problem(), feed.rows().length], [undefined, 2]));
  });
  after(async () => {
    await feed?.stop();
    client?.close();
    await api?.stop();
  });

  const rowOf = (wanted: string) => feed.rows().find(({ name }) => name === wanted);
  const vm = (name: string) => ({ namespace: 'default', name });

  test('a move is a migration, to the node that was chosen; cancelled it is deleted', async () => {
    await beginMove(client, vm('moves'), 'b', signal);
    const { body } = await api.client.get(`${kubevirt}/virtualmachineinstancemigrations`);
    assert.deepEqual(
      body.items.map(({ spec }: { spec: unknown }) => spec),
      [{ vmiName: 'moves', addedNodeSelector: { 'kubernetes.io/hostname': 'b' } }],
    );
    await eventually(() => {
      const move = rowOf('moves')?.move;
      assert.deepEqual(move, { kind: 'under-way', phase: 'Pending', isCancelled: false });
    });
    await assert.rejects(beginMove(client, vm('moves'), undefined, signal), /in-flight migration detected/);
    await cancelMove(client, vm('moves'), signal);
    await eventually(() => {
      const move = rowOf('moves')?.move;
      assert.equal(move?.kind === 'under-way' && move.isCancelled, true);
    });
    await api.controller.patch(`${kubevirt}/virtualmachineinstancemigrations/${body.items[0].metadata.name}`, 'merge', {
      metadata: { finalizers: null },
    });
    await eventually(() => assert.equal(rowOf('moves')?.move, undefined));
    await assert.rejects(cancelMove(client, vm('moves'), signal), /is not being moved/);
  });

  test('a node is cordoned and uncordoned, and the page hears of it', async () => {
    const isCordoned = (name: string) => feed.nodes().find((node) => node.name === name)?.isCordoned;
    let published = 0;
    const end = feed.onChange(() => void published++);
    await cordonNode(client, 'b', true, signal);
    await eventually(() => assert.deepEqual([isCordoned('a'), isCordoned('b')], [false, true]));
    await cordonNode(client, 'b', false, signal);
    await eventually(() => assert.equal(isCordoned('b'), false));
    end();
    assert.equal(published, 2);
  });

  test('a node is emptied as far as its machines can move; who stays is named with the reason', async () => {
    await assert.rejects(
      emptyNode(client, 'a', signal),
      /^NodeError: a takes no new VMs now, and 1 of 2 move to other nodes; not default\/stays: .*a disk of this node/,
    );
    await eventually(() => assert.equal(rowOf('moves')?.move?.kind, 'under-way'));
    assert.equal(feed.nodes()[0]?.isCordoned, true);
    await api.controller.delete(`${kubevirt}/virtualmachineinstances/stays`);
    await api.controller.patch(`${kubevirt}/virtualmachineinstances/stays`, 'merge', {
      metadata: { finalizers: null },
    });
    await eventually(() => assert.equal(rowOf('stays'), undefined));
    assert.equal(await emptyNode(client, 'a', signal), 1, 'the one on its way is left alone');
  });
});
