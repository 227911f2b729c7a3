import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { findCondition, type KubeObject, resources, type VirtualMachineClone } from '../../../src/api/index.ts';
import { SnapshotNode } from '../../fixtures/controller/snapshot-node.ts';
import { eventually } from '../../fixtures/eventually.ts';
import { namespace } from '../../fixtures/storage-node.ts';

const needsRoot = process.getuid?.() === 0 ? false : 'disks are given to QEMU’s user: this takes root';
const type = resources.virtualMachineClones;

describe('clones of VMs, on the storage of a standalone node', { skip: needsRoot }, () => {
  let node: SnapshotNode;
  before(async () => {
    node = await SnapshotNode.start();
    await node.createClaim('root', 'first');
    await node.createVm('box', ['root']);
  });
  after(() => node?.stop());

  const create = (name: string, spec: object) =>
    node.cluster.client.create<VirtualMachineClone>(type, {
      ...{ apiVersion: 'clone.kubevirt.io/v1beta1', kind: type.kind, metadata: { name, namespace } },
      spec: { source: { apiGroup: 'kubevirt.io', kind: 'VirtualMachine', name: 'box' }, ...spec },
    } as KubeObject as VirtualMachineClone);
  const untilPhase = (name: string, phase: string) =>
    node.cluster.until<VirtualMachineClone>(type, name, phase, ({ status }) => status?.phase === phase);
  const helpers = async () => {
    const kinds = [resources.virtualMachineSnapshots, resources.virtualMachineRestores];
    const lists = await Promise.all(kinds.map((each) => node.cluster.client.list(each, { namespace })));
    return lists
      .flatMap(({ items }) => items.map(({ metadata }) => metadata.name))
      .filter((name) => name.startsWith('tmp-'));
  };

  test('a VM like another one, with a disk of its own; what was made on the way goes', async () => {
    await create('twin', { newSMBiosSerial: 'twin-1' });
    const { spec, status } = await untilPhase('twin', 'Succeeded');
    const target = spec.target?.name ?? '';
    assert.match(target, /^clone-box-[0-9a-f]{5}$/);
    assert.equal(status?.targetName, target);
    const vm = await node.vm(target);
    const claim = vm.spec.template.spec.volumes?.[0]?.persistentVolumeClaim?.claimName ?? '';
    assert.equal(await node.read(claim), 'first');
    await node.write('root', 'changed');
    assert.equal(await node.read(claim), 'first');
    const { firmware } = vm.spec.template.spec.domain ?? {};
    const { firmware: other } = (await node.vm('box')).spec.template.spec.domain ?? {};
    assert.deepEqual([vm.spec.runStrategy, firmware?.serial], ['Halted', 'twin-1']);
    assert.ok(firmware?.uuid && firmware.uuid !== other?.uuid);
    await eventually(async () => assert.deepEqual(await helpers(), []));
    const gone = await node.cluster.until<VirtualMachineClone>(type, 'twin', 'no helper named', (clone) => {
      return !clone.status?.restoreName && !clone.status?.snapshotName;
    });
    assert.equal(findCondition(gone.status?.conditions, 'Ready')?.status, 'True');
    assert.equal(await node.read(claim), 'first');
    const line = await node.storage.kubectl.run(['get', 'vmclone', 'twin', '--no-headers']);
    assert.match(line, new RegExp(`^twin +Succeeded +box +${target} *\\n?$`));
    await node.cluster.client.delete(resources.virtualMachines, { namespace, name: target });
    await node.cluster.untilGone(type, 'twin');
  });

  test('a VM of a snapshot, which stays; a name that is taken is not overwritten', async () => {
    await node.createSnapshot('snap', 'box');
    await node.untilTaken('snap');
    const source = { apiGroup: 'snapshot.kubevirt.io', kind: 'VirtualMachineSnapshot', name: 'snap' };
    const named = (name: string) => ({ source, target: { apiGroup: 'kubevirt.io', kind: 'VirtualMachine', name } });
    await create('taken', named('box'));
    await node.cluster.until<VirtualMachineClone>(type, 'taken', 'waits', ({ status }) => {
      return /VM box exists/.test(findCondition(status?.conditions, 'Ready')?.reason ?? '');
    });
    await create('second', { ...named('second'), volumeNamePolicy: 'PrefixTargetName' });
    await untilPhase('second', 'Succeeded');
    assert.equal(await node.read('second-disk0'), 'changed');
    await eventually(async () => assert.deepEqual(await helpers(), []));
    await node.untilTaken('snap');
  });

  test('what cannot be cloned is refused', async () => {
    const wrong = [
      { source: { apiGroup: 'kubevirt.io', kind: 'Pod', name: 'x' } },
      { target: { apiGroup: 'kubevirt.io', kind: 'VirtualMachine', name: 'box' } },
      { labelFilters: ['a!b'] },
      { annotationFilters: ['a*b'] },
      { newMacAddresses: { default: 'nonsense' } },
      { patches: [JSON.stringify({ op: 'replace', path: '/metadata/name', value: 'x' })] },
    ];
    for (const spec of wrong) await assert.rejects(create('wrong', spec), { code: 'INVALID' });
  });
});
