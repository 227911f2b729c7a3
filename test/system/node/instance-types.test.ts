import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { after, before, describe, test } from 'node:test';
import { eventually } from '../../fixtures/eventually.ts';
import { NodeProcess } from '../../fixtures/node-process.ts';

const needsRoot = process.getuid?.() === 0 ? false : 'pods need root';
const name = 'small-vm';

describe('an instance type and a preference on the standalone node', { skip: needsRoot }, () => {
  let node: NodeProcess;
  before(async () => {
    node = await NodeProcess.create();
    await node.start();
  });
  after(() => node.dispose());

  const of = (jsonpath: string) => node.kubectl('get', 'vm', name, '-o', `jsonpath={${jsonpath}}`);

  test('the example runs with what they say, and keeps it', async () => {
    await node.kubectl('apply', '-f', 'examples/instance-type.yaml');
    const vmi = await node.vmiUntil(name, (found) => found?.status?.phase === 'Running', 60_000);
    assert.deepEqual(vmi?.spec.domain.devices?.disks?.[0]?.disk, { bus: 'virtio' });
    const command = await readFile(`/proc/${await node.qemuPid(name)}/cmdline`, 'utf8');
    assert.match(command, /virtio-blk/);
    assert.match(command, /virtio-rng/);
    assert.match(command, new RegExp(`"size":${192 * 2 ** 20}\\b|size=${192}\\b`));
    const [kept, revisions] = [
      await of('.status.instancetypeRef.controllerRevisionRef.name'),
      await node.kubectl('get', 'controllerrevisions', '-o', 'name'),
    ];
    assert.ok(revisions.includes(kept), `${kept} is one of ${revisions}`);
    assert.match(kept, /^small-vm-small-v1beta1-/);
  });

  test('another instance type that its guest cannot take needs a restart, and is there after it', async () => {
    const type = { cpu: { guest: 2 }, memory: { guest: '256Mi' } };
    await node.apply({
      apiVersion: 'instancetype.kubevirt.io/v1beta1',
      kind: 'VirtualMachineInstancetype',
      metadata: { name: 'larger' },
      spec: type,
    });
    const matcher = { name: 'larger', kind: 'VirtualMachineInstancetype' };
    await node.kubectl(
      'patch',
      'vm',
      name,
      '--type',
      'merge',
      '-p',
      JSON.stringify({ spec: { instancetype: matcher } }),
    );
    const needs = '.status.conditions[?(@.type=="RestartRequired")].status';
    await eventually(async () => assert.equal(await of(needs), 'True'), 30_000);
    const before = (await node.vmi(name))?.metadata.uid;
    await node.kubectl('delete', 'vmi', name, '--wait=false');
    const vmi = await node.vmiUntil(
      name,
      (found) => found?.metadata.uid !== before && found?.status?.phase === 'Running',
      90_000,
    );
    assert.deepEqual([vmi?.spec.domain.cpu?.sockets, vmi?.spec.domain.memory?.guest], [2, '256Mi']);
    await eventually(async () => assert.equal(await of(needs), ''), 30_000);
  });
});
