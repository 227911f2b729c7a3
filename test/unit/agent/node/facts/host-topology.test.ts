import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readTopology } from '../../../../../src/agent/node/facts/index.ts';
import { replaceClaimsByHostDisks } from '../../../../../src/agent/vmi/execute/index.ts';
import { ReadYourWrites } from '../../../../../src/reconcile/index.ts';
import { key, vmiOf } from '../../../../fixtures/agent/builders.ts';
import { FakeApi } from '../../../../fixtures/agent/fake-api.ts';
import { settle } from '../../../../fixtures/fake-clock.ts';

test('ranges of siblings that somebody made up make no list that fills the memory', () => {
  const cpu = `<cpu id='0' siblings='${'0-99999,'.repeat(1_000)}1'/>`;
  const cell = `<cell id='0'><cpus num='1'>${cpu}</cpus></cell>`;
  const [read] = readTopology(`<capabilities><host><topology><cells>${cell}</cells></topology></host></capabilities>`);
  assert.equal(read?.cpus[0]?.siblings.length, 4_096);
});

test('the NUMA cells of capabilities.xml are read, ranges of siblings included', () => {
  const xml = `<capabilities><host><topology><cells num='1'><cell id='0'>
    <memory unit='KiB'>16318136</memory><pages unit='KiB' size='4'>4079534</pages><pages unit='KiB' size='2048'>0</pages>
    <distances><sibling id='0' value='10'/></distances>
    <cpus num='2'><cpu id='0' siblings='0,2-3'/><cpu id='1' siblings='1'/></cpus></cell></cells></topology></host></capabilities>`;
  assert.deepEqual(readTopology(xml), [
    {
      id: 0,
      memory: { amount: 16318136, unit: 'KiB' },
      pages: [
        { count: 4079534, unit: 'KiB', size: 4 },
        { count: 0, unit: 'KiB', size: 2048 },
      ],
      distances: [{ id: 0, value: 10 }],
      cpus: [
        { id: 0, siblings: [0, 2, 3] },
        { id: 1, siblings: [1] },
      ],
    },
  ]);
});

test('anything that is no such document has no topology', () => {
  for (const text of ['', 'no xml', '<capabilities/>', '<a><b>', '{"json":1}'])
    assert.deepEqual(readTopology(text), [], text);
});

test('filesystem claims become disk images in what the launcher gets, and only there', () => {
  const info = { accessModes: ['ReadWriteMany'], requests: { storage: '1Gi' }, capacity: { storage: '1073741825' } };
  const vmi = vmiOf('Scheduled', {
    spec: {
      domain: {},
      volumes: [
        { name: 'data', persistentVolumeClaim: { claimName: 'c' } },
        { name: 'raw', persistentVolumeClaim: { claimName: 'r' } },
      ],
    },
    status: {
      volumeStatus: [
        { name: 'data', target: '', persistentVolumeClaimInfo: info },
        { name: 'raw', target: '', persistentVolumeClaimInfo: { ...info, volumeMode: 'Block' } },
      ],
    },
  });
  const before = structuredClone(vmi);
  assert.deepEqual(replaceClaimsByHostDisks(vmi).spec.volumes, [
    {
      name: 'data',
      hostDisk: {
        path: '/var/run/kubevirt-private/vmi-disks/data/disk.img',
        type: 'DiskOrCreate',
        capacity: '1Gi',
        shared: true,
      },
    },
    { name: 'raw', persistentVolumeClaim: { claimName: 'r' } },
  ]);
  assert.deepEqual(vmi, before);
});

test('a claim of unknown size is refused', () => {
  const volumeStatus = [{ name: 'data', target: '', persistentVolumeClaimInfo: {} }];
  const vmi = vmiOf('Scheduled', {
    spec: { domain: {}, volumes: [{ name: 'data', persistentVolumeClaim: { claimName: 'c' } }] },
    status: { volumeStatus },
  });
  assert.throws(() => replaceClaimsByHostDisks(vmi), /neither a request nor a capacity/);
});

test('an own write is seen at once, its echo wakes nobody, and the watch wins when it has caught up', async () => {
  const api = new FakeApi();
  const store = new ReadYourWrites(api);
  const woken: string[] = [];
  store.onChange((changed) => woken.push(changed));
  const before = api.apply(vmiOf('Scheduled'));
  woken.length = 0;
  const written = await api.put({ ...before, metadata: { ...before.metadata, annotations: { mine: 'yes' } } });
  assert.equal(written.kind, 'written');
  if ('vmi' in written) store.saw(key, before, written.vmi);
  assert.equal(store.get(key)?.metadata.annotations?.mine, 'yes');
  assert.equal(api.get(key)?.metadata.annotations, undefined);
  await settle();
  assert.deepEqual(woken, []);
  api.change(key, ({ metadata }) => {
    metadata.annotations = { mine: 'no' };
  });
  assert.deepEqual(woken, [key]);
  assert.equal(store.get(key)?.metadata.annotations?.mine, 'no');
});
