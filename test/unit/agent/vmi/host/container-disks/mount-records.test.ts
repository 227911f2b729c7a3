import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  decodeMountRecord,
  encodeMountRecord,
  MountRecords,
} from '../../../../../../src/agent/vmi/host/container-disks/mount-records.ts';
import { wantedImages } from '../../../../../../src/agent/vmi/host/container-disks/wanted-disks.ts';
import { vmiOf } from '../../../../../fixtures/agent/builders.ts';
import { memoryFiles } from '../../../../../fixtures/agent/host-hooks.ts';

const podUid = '6d8f36ea-0000-4000-8000-000000000001';
const entries = [
  { podUid, target: 'kernel-boot', socket: 'kernel-boot.sock' },
  { podUid, target: 'disk_12.img', socket: 'disk_12.sock' },
];
const directory = `${podUid}/volumes/kubernetes.io~empty-dir/container-disks`;
const text =
  `{"mountTargetEntries":[{"targetFile":"/var/lib/kubelet/pods/${directory}/kernel-boot","socketFile":"/pods/${directory}/kernel-boot.sock"},` +
  `{"targetFile":"/var/lib/kubelet/pods/${directory}/disk_12.img","socketFile":"/pods/${directory}/disk_12.sock"}],"usesSafePaths":true}`;

test('a record is byte for byte what upstream writes, and read again', () => {
  assert.equal(encodeMountRecord(entries, { podsDir: '/pods', machinePodsDir: '/var/lib/kubelet/pods' }), text);
  assert.deepEqual(decodeMountRecord(text), entries);
});

test('of a record that was cut off all targets count that are whole', () => {
  assert.deepEqual(decodeMountRecord(text.slice(0, text.indexOf('disk_12.img"'))), entries.slice(0, 1));
  assert.deepEqual(decodeMountRecord(text.slice(0, -1)), entries);
});

test('what is no record, or of no pod, is no target', () => {
  for (const foreign of [
    '',
    'null',
    '7',
    '[]',
    '{"mountTargetEntries":7}',
    '{"mountTargetEntries":[7,{"targetFile":7}]}',
  ]) {
    assert.deepEqual(decodeMountRecord(foreign), [], foreign);
  }
  for (const targetFile of ['/etc/passwd', 'disk_0.img', `/pods/${directory}/disk_0.img/x`, `/pods/${directory}/..`]) {
    assert.deepEqual(decodeMountRecord(JSON.stringify({ mountTargetEntries: [{ targetFile }] })), [], targetFile);
  }
});

test('a UID that names another file has no record', async () => {
  const files = memoryFiles();
  files.files.set('../ghost-records/other', text);
  const records = new MountRecords(files, { podsDir: '/pods', machinePodsDir: '/pods' });
  assert.equal(await records.read('../ghost-records/other'), undefined);
  await records.remove('../ghost-records/other');
  await assert.rejects(records.write('../ghost-records/other', entries), { code: 'MOUNT_RECORD' });
  assert.equal(files.files.get('../ghost-records/other'), text);
});

test('images are named by their place in the spec, kernel and initrd by their files', () => {
  const container = { image: 'k', kernelPath: '/boot/vmlinuz', initrdPath: '/boot/initrd' };
  const vmi = vmiOf('Scheduled', {
    spec: {
      domain: { devices: {}, firmware: { kernelBoot: { container } } },
      volumes: [{ name: 'empty' }, { name: 'root', containerDisk: { image: 'i', path: '/x.img' } }],
    },
  } as never);
  assert.deepEqual(
    wantedImages(vmi).map(({ target, files }) => [target, files.map(({ name, imagePath }) => [name, imagePath])]),
    [
      ['disk_1.img', [['disk_1.img', '/x.img']]],
      [
        'kernel-boot',
        [
          ['vmlinuz', '/boot/vmlinuz'],
          ['initrd', '/boot/initrd'],
        ],
      ],
    ],
  );
});

test('a kernel without a file name is refused', () => {
  const vmi = vmiOf('Scheduled', {
    spec: { domain: { firmware: { kernelBoot: { container: { image: 'k', kernelPath: '/boot/..' } } } } },
  } as never);
  assert.throws(() => wantedImages(vmi), { code: 'DISK_NAME' });
});
