import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { eventually } from '../../fixtures/eventually.ts';
import { demoVmi, NodeProcess } from '../../fixtures/node-process.ts';

const needsRoot = process.getuid?.() === 0 ? false : 'pods need root';
const labels = { pool: 'desk' };

describe('a pool of VMs on the standalone node', { skip: needsRoot }, () => {
  let node: NodeProcess;
  before(async () => {
    node = await NodeProcess.create();
    await node.start();
    await node.apply({
      apiVersion: 'pool.kubevirt.io/v1beta1',
      kind: 'VirtualMachinePool',
      metadata: { name: 'desk' },
      spec: {
        replicas: 1,
        selector: { matchLabels: labels },
        virtualMachineTemplate: {
          metadata: { labels },
          spec: { runStrategy: 'Always', template: { spec: demoVmi('unused').spec } },
        },
      },
    });
  });
  after(() => node.dispose());

  const untilCounted = (...counts: readonly number[]) =>
    eventually(async () => {
      const columns = 'custom-columns=C:.status.replicas,R:.status.readyReplicas';
      const shown = await node.kubectl('get', 'vmpool', 'desk', '--no-headers', '-o', columns);
      assert.deepEqual(shown.split(/\s+/), counts.map(String));
    }, 90_000);
  const guest = async () => {
    const vmi = await node.vmi('desk-0');
    return { uid: vmi?.metadata.uid, phase: vmi?.status?.phase, memory: vmi?.spec.domain.memory?.guest };
  };

  test('its guest runs, and starts anew by another template', async () => {
    await untilCounted(1, 1);
    const before = await guest();
    assert.deepEqual([before.phase, before.memory], ['Running', '128Mi']);
    const domain = { memory: { guest: '160Mi' } };
    const patch = { spec: { virtualMachineTemplate: { spec: { template: { spec: { domain } } } } } };
    await node.kubectl('patch', 'vmpool', 'desk', '--type=merge', '-p', JSON.stringify(patch));
    await eventually(async () => {
      const { uid, phase, memory } = await guest();
      assert.deepEqual([phase, memory, uid === before.uid], ['Running', '160Mi', false]);
    }, 90_000);
    const { stdout } = await node.cli(['explain', 'vmpool/desk']);
    assert.match(stdout, /guests-outdated/);
  });

  test('kubectl scale ends it', async () => {
    await node.kubectl('scale', 'vmpool/desk', '--replicas=0');
    await untilCounted(0, 0);
    await eventually(async () => assert.equal(await node.kubectl('get', 'vm,vmi', '-o', 'name'), ''), 60_000);
  });
});
