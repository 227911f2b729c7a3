import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { eventually } from '../../fixtures/eventually.ts';
import { demoVmi, NodeProcess } from '../../fixtures/node-process.ts';

const needsRoot = process.getuid?.() === 0 ? false : 'pods need root';
const labels = { app: 'farm' };

describe('a replica set of guests on the standalone node', { skip: needsRoot }, () => {
  let node: NodeProcess;
  before(async () => {
    node = await NodeProcess.create();
    await node.start();
    await node.apply({
      apiVersion: 'kubevirt.io/v1',
      kind: 'VirtualMachineInstanceReplicaSet',
      metadata: { name: 'farm' },
      spec: {
        replicas: 2,
        selector: { matchLabels: labels },
        template: { metadata: { labels }, spec: demoVmi('unused').spec },
      },
    });
  });
  after(() => node.dispose());

  const columns = 'custom-columns=D:.spec.replicas,C:.status.replicas,R:.status.readyReplicas';
  const untilCounted = (...counts: readonly number[]) =>
    eventually(async () => {
      const shown = await node.kubectl('get', 'vmirs', 'farm', '--no-headers', '-o', columns);
      assert.deepEqual(shown.split(/\s+/), counts.map(String));
    }, 90_000);
  const guests = async () => {
    const name = '{range .items[*]}{.metadata.name} {.status.phase}{"\\n"}{end}';
    const shown = await node.kubectl('get', 'vmi', '-l', 'app=farm', '-o', `jsonpath=${name}`);
    return shown === '' ? [] : shown.split('\n').sort();
  };

  test('two guests run, and a guest that is deleted is replaced', async () => {
    await untilCounted(2, 2, 2);
    const before = await guests();
    assert.match(before.join(','), /^farm\w{5} Running,farm\w{5} Running$/);
    const [name = ''] = (before[0] ?? '').split(' ');
    await node.kubectl('delete', 'vmi', name, '--wait=false');
    await eventually(async () => assert.ok(!(await guests()).join().includes(name)), 60_000);
    await untilCounted(2, 2, 2);
  });

  test('kubectl scale ends one guest and lets the other one run; explain says why', async () => {
    const before = await guests();
    await node.kubectl('scale', 'vmirs/farm', '--replicas=1');
    await untilCounted(1, 1, 1);
    await eventually(async () => assert.equal((await guests()).length, 1), 60_000);
    const [left = ''] = await guests();
    assert.ok(before.includes(left), `${left} has been running`);
    const { stdout } = await node.cli(['explain', 'vmirs/farm']);
    assert.match(stdout, /too-many/);
    assert.match(stdout, /as many VMIs as wanted/);
  });

  test('deleting the set ends its guests', async () => {
    await node.kubectl('delete', 'vmirs', 'farm');
    await eventually(async () => assert.deepEqual(await guests(), []), 60_000);
  });
});
