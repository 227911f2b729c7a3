import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import type { GuestFigures, VirtualMachine } from '../../../../src/api/index.ts';
import { whatGoes } from '../../../../src/web/page/delete-model.ts';
import { diskLines, interfaceLines } from '../../../../src/web/page/devices-model.ts';
import { eventLines } from '../../../../src/web/page/events-model.ts';
import { FigureHistory, graphsOf, linePath } from '../../../../src/web/page/figures-model.ts';
import { logSources, readable } from '../../../../src/web/page/logs-panel.tsx';
import { parseRoute, vmHref, vmTabs } from '../../../../src/web/page/route.ts';
import { typingOf } from '../../../../src/web/page/typing.ts';
import { referenceFor } from '../../../../src/web/page/upload.ts';
import { vmRow } from '../../../fixtures/web-backend.ts';

const volumes = [
  { name: 'root', containerDisk: { image: 'my/debian' } },
  { name: 'data', persistentVolumeClaim: { claimName: 'data' } },
  { name: 'own', dataVolume: { name: 'vm-own' } },
  { name: 'file', hostDisk: { path: '/srv/a.img', type: 'Disk' } },
  { name: 'scratch', emptyDisk: { capacity: '2Gi' } },
  { name: 'seed', cloudInitNoCloud: { userData: 'x' } },
];
const spec = {
  domain: {
    devices: {
      disks: [
        { name: 'root', disk: { bus: 'virtio' }, bootOrder: 1 },
        { name: 'data', lun: { bus: 'scsi', readonly: true } },
        { name: 'own', cdrom: { bus: 'sata' } },
      ],
      interfaces: [{ name: 'default', masquerade: {}, model: 'virtio', macAddress: '02:00:00:00:00:01' }],
    },
  },
  networks: [{ name: 'default', pod: {} }],
  volumes,
};

test('a delete says what goes with the VM and what stays', () => {
  const vm = { spec: { template: { spec }, dataVolumeTemplates: [{ metadata: { name: 'vm-own' } }] } };
  assert.deepEqual(whatGoes(vmRow('vm'), vm as unknown as VirtualMachine), [
    'Its guest is asked to shut down, and is ended when it does not.',
    'Goes with it: its definition, what was changed on root, the DataVolume vm-own with its data, what is on the scratch disk scratch.',
    'Stays: the claim data, the file /srv/a.img.',
  ]);
  const { vmi: _none, ...stopped } = vmRow('vm');
  assert.deepEqual(whatGoes(stopped, undefined), ['Its definition goes, and what it keeps nowhere else.']);
});

test('disks and interfaces say what they are, and how they are in a guest that runs', () => {
  const status = {
    volumeStatus: [{ name: 'root', target: 'vda', size: 2 ** 31 }],
    interfaces: [
      { name: 'default', mac: '02:00:00:00:00:02', ipAddresses: ['10.0.2.2', 'fd00::2'], interfaceName: 'eth0' },
    ],
  };
  const [root, data, own, ...others] = diskLines(spec, status);
  assert.deepEqual(root, {
    ...{ name: 'root', kind: 'disk, virtio, boots 1.', source: 'image my/debian, changes are lost' },
    ...{ size: '2.0 GiB', target: 'vda', state: '' },
  });
  assert.deepEqual([data?.kind, data?.source], ['lun, scsi, read only', 'claim data']);
  assert.deepEqual([own?.kind, own?.source], ['CD, sata', 'DataVolume vm-own']);
  assert.deepEqual(
    others.map(({ name, size }) => [name, size]),
    [
      ['file', ''],
      ['scratch', '2Gi'],
      ['seed', ''],
    ],
  );
  assert.deepEqual(interfaceLines(spec, status), [
    {
      ...{ name: 'default', binding: 'masquerade, virtio', network: 'pod network', mac: '02:00:00:00:00:02' },
      ...{ addresses: '10.0.2.2, fd00::2', state: 'eth0' },
    },
  ]);
  assert.equal(interfaceLines(spec, undefined)[0]?.mac, '02:00:00:00:00:01');
});

test('whatever is written in an object, its tables are texts', () => {
  fc.assert(
    fc.property(fc.jsonValue(), fc.jsonValue(), (one, other) => {
      const odd = { domain: { devices: { disks: one, interfaces: other } }, volumes: [one], networks: other };
      for (const line of [...diskLines(odd, { volumeStatus: [one] }), ...interfaceLines(odd, other)]) {
        for (const text of Object.values(line)) assert.equal(typeof text, 'string');
      }
    }),
  );
});

test('events are newest first, by whichever time they have', () => {
  const event = (name: string, fields: object) => ({ apiVersion: 'v1', kind: 'Event', metadata: { name }, ...fields });
  const lines = eventLines([
    event('a', { lastTimestamp: '2026-01-01T00:00:00Z', count: 3, type: 'Warning', reason: 'Failed' }),
    event('b', { lastTimestamp: null, eventTime: '2026-01-03T00:00:00Z', involvedObject: { kind: 'Pod', name: 'p' } }),
    event('c', { firstTimestamp: '2026-01-02T00:00:00Z' }),
  ]);
  assert.deepEqual(
    lines.map(({ key, times, isWarning, of }) => [key, times, isWarning, of]),
    [
      ['b', 1, false, 'Pod p'],
      ['c', 1, false, ''],
      ['a', 3, true, ''],
    ],
  );
});

function figures(second: number, total: number, more: Partial<GuestFigures> = {}): GuestFigures {
  return {
    ...{ apiVersion: 'why.virt-handler/v1', kind: 'Figures', node: 'n', uid: 'u' },
    at: new Date(Date.UTC(2026, 0, 1) + second * 1_000).toISOString(),
    ...{ cpuSeconds: total, vcpus: 2, memory: { totalBytes: 4096, usedBytes: 1024 } },
    disks: [{ name: 'a', readBytes: total * 10, writtenBytes: 0 }],
    interfaces: [{ name: 'b', receivedBytes: 0, sentBytes: total * 20 }],
    ...more,
  };
}

test('rates are between two answers; the first one, and one of another guest, has none', () => {
  const history = new FigureHistory();
  history.add(figures(0, 10));
  history.add(figures(2, 11));
  const [first, second] = history.points;
  assert.deepEqual([first?.cpus, first?.memoryBytes], [undefined, 1024]);
  assert.deepEqual([second?.cpus, second?.read, second?.written, second?.sent], [0.5, 5, 0, 10]);
  history.add(figures(4, 99, { uid: 'another' }));
  assert.equal(history.points.length, 1);
  assert.equal(history.points[0]?.cpus, undefined);
});

test('the history has an end, and an answer that comes twice is one point', () => {
  const history = new FigureHistory();
  for (let second = 0; second < 500; second++) {
    history.add(figures(second, second));
    history.add(figures(second, second));
  }
  assert.equal(history.points.length, 200);
  const [cpu, , disks] = graphsOf(history.points, history.last);
  assert.deepEqual([cpu?.top, cpu?.text(0.5), disks?.top], [2, '50 %', 1024]);
});

test('a line has the newest value at its right edge, a gap where nobody knows, and stays in its frame', () => {
  const size = { width: 100, height: 10, slots: 5 };
  assert.equal(linePath([0, 5, undefined, 20], 10, size), 'M25 10L50 5M100 0');
  assert.equal(linePath([], 10, size), '');
});

test('a text becomes keys, with Shift where it is needed; what no key writes is said once', () => {
  const { strokes, missing } = typingOf('aA1!\r\n\té~é');
  assert.deepEqual(
    strokes.map(({ code, shift }) => (shift ? `Shift+${code}` : code)),
    ['KeyA', 'Shift+KeyA', 'Digit1', 'Shift+Digit1', 'Enter', 'Tab', 'Shift+Backquote'],
  );
  assert.deepEqual(missing, ['é']);
  const printable = Array.from({ length: 95 }, (_, at) => String.fromCharCode(32 + at)).join('');
  assert.deepEqual([typingOf(printable).strokes.length, typingOf(printable).missing], [95, []]);
});

test('logs: the youngest launcher first, the boot log of a guest where there is one, no codes of a terminal', () => {
  const pod = (name: string, ...containers: readonly string[]) => ({
    ...{ apiVersion: 'v1', kind: 'Pod', metadata: { name } },
    spec: {
      containers: containers.map((each) => ({ name: each })),
      initContainers: [{ name: 'guest-console-log', restartPolicy: 'Always' }, { name: 'init' }],
    },
  });
  assert.deepEqual(
    logSources([pod('new', 'compute', 'volumeroot'), pod('old', 'compute')]).map(({ label }) => label),
    ['Launcher', 'Serial console since boot', 'Launcher (old)', 'Serial console since boot (old)'],
  );
  assert.equal(readable('a\r\n\u001b[1;31mred\u001b[0m\u0007\tb\u009b'), 'a\nred\tb');
});

test('each address of the page is read as it was written; what is none is the list', () => {
  const vm = { namespace: 'default', name: 'a.b' };
  for (const tab of vmTabs) assert.deepEqual(parseRoute(vmHref(vm, tab)), { view: 'vm', tab, ...vm });
  assert.deepEqual(parseRoute('#/images'), { view: 'images' });
  assert.deepEqual(parseRoute('#/types'), { view: 'types' });
  assert.deepEqual(parseRoute('#/new'), { view: 'new' });
  assert.deepEqual(parseRoute('#/new/default/a'), { view: 'new', from: { namespace: 'default', name: 'a' } });
  for (const hash of ['#/new/default', '#/images/x', '#/types/x', '#/vm/default/a/none'])
    assert.deepEqual(parseRoute(hash), { view: 'list' });
});

test('a file has a reference that the node takes', () => {
  assert.equal(referenceFor('Debian 12 (genericcloud).qcow2'), 'my/debian-12--genericcloud-');
  assert.equal(referenceFor('.img'), 'my/image');
  assert.equal(referenceFor('a.iso'), 'my/a');
  assert.equal(referenceFor('a.vmdk.xz'), 'my/a');
});
