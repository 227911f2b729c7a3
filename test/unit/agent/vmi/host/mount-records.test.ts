import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  containerDiskRecord,
  type MountEntry,
} from '../../../../../src/agent/vmi/host/container-disks/mount-records.ts';
import { wantedImages } from '../../../../../src/agent/vmi/host/container-disks/wanted-disks.ts';
import { hotPlugRecord, type PluggedEntry } from '../../../../../src/agent/vmi/host/hot-plug/mount-record.ts';
import { decodeRecord, encodeRecord, MountRecords } from '../../../../../src/agent/vmi/host/mount-records.ts';
import { vmiOf } from '../../../../fixtures/agent/builders.ts';
import { type MemoryFiles, memoryFiles } from '../../../../fixtures/agent/host-hooks.ts';

const podUid = '6d8f36ea-0000-4000-8000-000000000001';
const entries = [
  { podUid, target: 'kernel-boot', socket: 'kernel-boot.sock' },
  { podUid, target: 'disk_12.img', socket: 'disk_12.sock' },
];
const directory = `${podUid}/volumes/kubernetes.io~empty-dir/container-disks`;
const text =
  `{"mountTargetEntries":[{"targetFile":"/var/lib/kubelet/pods/${directory}/kernel-boot","socketFile":"/pods/${directory}/kernel-boot.sock"},` +
  `{"targetFile":"/var/lib/kubelet/pods/${directory}/disk_12.img","socketFile":"/pods/${directory}/disk_12.sock"}],"usesSafePaths":true}`;

const disks = containerDiskRecord({ podsDir: '/pods', machinePodsDir: '/var/lib/kubelet/pods' });
const plugs = hotPlugRecord('/var/lib/kubelet/pods');
const decodeMountRecord = (record: string): MountEntry[] => decodeRecord(record, disks);

test('a record is byte for byte what upstream writes, and read again', () => {
  assert.equal(encodeRecord(entries, disks), text);
  assert.deepEqual(decodeMountRecord(text), entries);
});

test('that of hot-plugged volumes, too', () => {
  const own = `/var/lib/kubelet/pods/${podUid}/volumes/kubernetes.io~empty-dir/hotplug-disks`;
  const plugged = ['block', 'image.img'].map((name) => ({ podUid, name }));
  const written = `{"mountTargetEntries":[{"targetFile":"${own}/block"},{"targetFile":"${own}/image.img"}],"usesSafePaths":true}`;
  assert.equal(encodeRecord(plugged, plugs), written);
  assert.deepEqual(decodeRecord(written, plugs), plugged);
  assert.deepEqual(decodeRecord(written.slice(0, -20), plugs), plugged);
  assert.deepEqual(decodeRecord(written, disks), []);
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

for (const [kind, records] of [
  ['container disks', (files: MemoryFiles) => new MountRecords<MountEntry>(files, disks)],
  ['hot-plugged volumes', (files: MemoryFiles) => new MountRecords(files, plugs)],
] as const) {
  test(`a UID that names another file has no record of ${kind}`, async () => {
    const files = memoryFiles();
    files.files.set('../ghost-records/other', text);
    const own = records(files);
    assert.equal(await own.read('../ghost-records/other'), undefined);
    await own.end('../ghost-records/other', []);
    await assert.rejects(own.add('../ghost-records/other', [{ ...entries[0], name: 'x' } as never]), {
      code: 'MOUNT_RECORD',
    });
    assert.equal(files.files.get('../ghost-records/other'), text);
  });
}

test('a disk that fails says whose record it is', async () => {
  const files = memoryFiles();
  files.onChange = () => {
    throw new Error('no room');
  };
  const entry = { podUid, name: 'data' };
  const code = 'MOUNT_RECORD';
  const records = new MountRecords(files, plugs);
  await assert.rejects(records.add('uid-1', [entry]), {
    code,
    message: /^the record of hot-plugged volumes of VMI uid-1 cannot be written \(no room\)/,
  });
  await assert.rejects(new MountRecords(files, disks).add('uid-1', entries), {
    code,
    message: /^the record of what is mounted for VMI uid-1 cannot be written/,
  });
  files.files.set('uid-1', encodeRecord([entry], plugs));
  await assert.rejects(records.end('uid-1', [entry]), { code, message: /cannot be written/ });
});

/** Two agents on one disk; `between` is done by the other one between a look of the first and its write, once. */
function overlapping(between: (other: MountRecords<PluggedEntry>) => Promise<unknown>) {
  const files = memoryFiles();
  const other = new MountRecords(files, plugs);
  let isDone = false;
  const read: MemoryFiles['read'] = async (name, maxBytes) => {
    const text = await files.read(name, maxBytes).catch((error: Error) => error);
    if (!isDone) {
      isDone = true;
      await between(other);
    }
    if (text instanceof Error) throw text;
    return text;
  };
  return {
    other,
    records: new MountRecords({ ...files, read }, plugs),
    names: async () => (await other.read('uid-1'))?.map(({ name }) => name),
  };
}
const plugged = (name: string) => ({ podUid, name });

test('of two agents that overlap neither loses what the other one has noted', async () => {
  const adding = overlapping((other) => other.add('uid-1', [plugged('theirs')]));
  await adding.records.add('uid-1', [plugged('ours')]);
  assert.deepEqual(await adding.names(), ['theirs', 'ours']);

  const dropping = overlapping((other) => other.add('uid-1', [plugged('theirs')]));
  await dropping.other.add('uid-1', [plugged('ours'), plugged('kept')]);
  await dropping.records.drop('uid-1', [plugged('ours')]);
  assert.deepEqual(await dropping.names(), ['kept', 'theirs']);

  const dropped = overlapping((other) => other.drop('uid-1', [plugged('theirs')]));
  await dropped.other.add('uid-1', [plugged('theirs')]);
  await dropped.records.add('uid-1', [plugged('ours')]);
  assert.deepEqual(await dropped.names(), ['ours'], 'what was taken away does not come back');
});

test('what another agent made while all was taken away keeps the record, and that is told', async () => {
  const { records, other, names } = overlapping((beside) => beside.add('uid-1', [plugged('theirs')]));
  await other.add('uid-1', [plugged('ours')]);
  const message = /the record of hot-plugged volumes of VMI uid-1 stays \(another agent of this node has made more/;
  await assert.rejects(records.end('uid-1', [plugged('ours')]), { code: 'MOUNT_RECORD', message });
  assert.deepEqual(await names(), ['theirs']);
  await records.end('uid-1', [plugged('theirs')]);
  assert.equal(await names(), undefined);
});

test('an agent that never gets its turn says so', async () => {
  const files = memoryFiles();
  const records = new MountRecords({ ...files, exchange: async () => false }, plugs);
  await assert.rejects(records.add('uid-1', [plugged('ours')]), {
    code: 'MOUNT_RECORD',
    message: /writes it all the time/,
  });
});

test('a record of which nothing can be read goes when all is taken away', async () => {
  const files = memoryFiles();
  files.files.set('uid-1', 'torn');
  await new MountRecords(files, plugs).end('uid-1', []);
  assert.deepEqual([...files.files.keys()], []);
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
