import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import type { PersistentVolumeClaim, VirtualMachineInstance } from '../../../src/api/index.ts';
import { listOf, memberAt } from '../../../src/base/index.ts';
import { eventually } from '../../fixtures/eventually.ts';
import { demoVmi, NodeProcess } from '../../fixtures/node-process.ts';

const needsRoot = process.getuid?.() === 0 ? false : 'pods need root';
const stateOf = (object: unknown) => memberAt(object, 'status', 'changedBlockTracking', 'state');

function machine(name: string, labels: object): object {
  const { spec } = demoVmi(name);
  const volumes = [{ name: 'data', persistentVolumeClaim: { claimName: `data-${name}` } }];
  const disks = [{ name: 'data', disk: { bus: 'virtio' } }];
  const domain = { ...spec.domain, devices: { ...spec.domain.devices, disks } };
  return {
    apiVersion: 'kubevirt.io/v1',
    kind: 'VirtualMachine',
    metadata: { name, labels },
    spec: { runStrategy: 'Always', template: { spec: { ...spec, domain, volumes } } },
  };
}

describe('changed blocks on the standalone node', { skip: needsRoot }, () => {
  let node: NodeProcess;
  before(async () => {
    node = await NodeProcess.create();
    await node.start();
    const kubevirt = JSON.parse(await node.kubectl('get', 'kubevirt', 'kubevirt', '-n', 'kubevirt', '-o', 'json'));
    const gates = listOf(memberAt(kubevirt, 'spec', 'configuration', 'developerConfiguration', 'featureGates'));
    const configuration = {
      developerConfiguration: { featureGates: [...gates, 'IncrementalBackup'] },
      changedBlockTrackingLabelSelectors: { virtualMachineLabelSelector: { matchLabels: { backup: 'yes' } } },
    };
    const change = JSON.stringify({ spec: { configuration } });
    await node.kubectl('patch', 'kubevirt', 'kubevirt', '-n', 'kubevirt', '--type=merge', '-p', change);
    const spec = { accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '16Mi' } } };
    for (const name of ['kept', 'plain']) {
      const metadata = { name: `data-${name}` };
      await node.apply({ apiVersion: 'v1', kind: 'PersistentVolumeClaim', metadata, spec });
    }
    await node.apply(machine('kept', { backup: 'yes' }));
    await node.apply(machine('plain', { backup: 'no' }));
  });
  after(() => node.dispose());

  const isTracked = (vmi: VirtualMachineInstance | undefined) =>
    vmi?.status?.phase === 'Running' && stateOf(vmi) === 'Enabled';
  const vm = async () => JSON.parse(await node.kubectl('get', 'vm', 'kept', '-o', 'json')) as object;
  async function claims(label: string): Promise<PersistentVolumeClaim[]> {
    const text = await node.kubectl('get', 'pvc', '-l', label, '-o', 'json');
    return (JSON.parse(text) as { items: PersistentVolumeClaim[] }).items;
  }

  test('are recorded for a VM that the selector matches, on a claim that outlives its starts', async () => {
    await node.vmiUntil('kept', isTracked, 90_000);
    await eventually(async () => assert.equal(stateOf(await vm()), 'Enabled'), 20_000);
    const [{ metadata } = assert.fail('no claim')] = await claims('persistent-state-for=kept');
    const { name, namespace, uid } = metadata;
    const record = path.join(node.paths.claimsDir, `${namespace}_${name}_${uid}`, 'cbt/data.qcow2');
    const info = JSON.parse(execFileSync('qemu-img', ['info', '-U', '--output=json', record], { encoding: 'utf8' }));
    assert.equal(info['format-specific'].data['data-file-raw'], true);
    const change = (runStrategy: string) =>
      node.kubectl('patch', 'vm', 'kept', '--type=merge', '-p', JSON.stringify({ spec: { runStrategy } }));
    await change('Halted');
    await node.vmiUntil('kept', (found) => found === undefined, 60_000);
    await change('Always');
    await node.vmiUntil('kept', isTracked, 90_000);
  });

  test('of a VM that the selector does not match are not recorded, and nothing is said or kept of it', async () => {
    const vmi = await node.vmiUntil('plain', (found) => found?.status?.phase === 'Running', 90_000);
    assert.equal(stateOf(vmi), undefined);
    await eventually(async () => {
      const { status } = JSON.parse(await node.kubectl('get', 'vm', 'plain', '-o', 'json'));
      assert.deepEqual([status.printableStatus, status.changedBlockTracking], ['Running', undefined]);
    }, 20_000);
    assert.deepEqual(await claims('persistent-state-for=plain'), []);
    const pods = await node.kubectl('get', 'pods', '-l', 'vm.kubevirt.io/name=plain', '-o', 'json');
    assert.match(pods, /data-plain/);
    assert.doesNotMatch(pods, /vm-state|cbt/);
  });

  test('of a VM that no longer matches are recorded to the end of its guest, which the VM says', async () => {
    await node.kubectl('label', 'vm', 'kept', 'backup-');
    await eventually(async () => assert.equal(stateOf(await vm()), 'PendingRestart'), 20_000);
    assert.equal(stateOf(await node.vmi('kept')), 'Enabled');
  });
});
