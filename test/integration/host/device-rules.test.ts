import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, describe, test } from 'node:test';
import { type AttachedPrograms, loadDeviceFilters } from '../../../src/host/cgroups/bpf.ts';
import { readDeviceRules, standardProgram } from '../../../src/host/cgroups/device-program.ts';
import { deviceCgroupOf, setBlockDevices } from '../../../src/host/cgroups/index.ts';
import { parseCgroupMounts } from '../../../src/host/cgroups/places.ts';
import { DeviceCgroups } from '../../fixtures/device-cgroups.ts';

/** With the kernel's own cgroups: a process in one opens nodes of devices, and is denied by EPERM alone. */

const mounted = parseCgroupMounts(readFileSync('/proc/self/mountinfo', 'utf8'));
const isRoot = process.getuid?.() === 0;
const noV1 = !isRoot ? 'needs root' : mounted.devices ? false : 'this machine has no device cgroup of version 1';
const noV2 = !isRoot ? 'needs root' : mounted.unified ? false : 'this machine has no cgroup of version 2';

/** Numbers that no driver of this machine has: who may open one gets ENXIO. */
const devices = [
  { major: 240, minor: 7 },
  { major: 240, minor: 8 },
  { major: 240, minor: 300 },
] as const;

const directory = mkdtempSync(path.join(tmpdir(), 'device-rules-'));
const nodes = devices.map(({ major, minor }) => {
  const node = path.join(directory, `${major}-${minor}`);
  if (isRoot) execFileSync('mknod', [node, 'b', `${major}`, `${minor}`]);
  return node;
});
const [first, second, third] = devices;
const [firstNode = '', secondNode = '', thirdNode = ''] = nodes;
after(() => rmSync(directory, { recursive: true }));

const cgroups: DeviceCgroups[] = [];
function makeCgroups(): DeviceCgroups {
  const made = new DeviceCgroups();
  cgroups.push(made);
  return made;
}
after(async () => {
  for (const each of cgroups) await each.remove();
});

/** What runc lets a container do, in short. */
const runtimes = standardProgram([
  { type: 'char', onlyMake: true },
  { type: 'block', onlyMake: true },
  { type: 'char', major: 1, minor: 3 },
  { type: 'char', major: 136 },
]);
const standard = () => assert.fail('a program that can be read is kept');

const options = { procDir: '/proc', hostRoot: '/', hostPid: process.pid };

async function attachedTo(made: DeviceCgroups): Promise<AttachedPrograms> {
  const filters = await loadDeviceFilters();
  return made.inV2((cgroup) => filters.attached(cgroup));
}

describe('device rules of cgroups of version 2', { skip: noV2 }, () => {
  test('a disk may be opened from the change on that allows it, and all that the runtime allowed still may', async () => {
    const made = makeCgroups();
    await made.attachV2(runtimes);
    const { open, pid } = await made.start();
    assert.deepEqual(
      [await open(firstNode), await open('/dev/null'), await open('/dev/zero')],
      ['EPERM', 'open', 'EPERM'],
    );

    const cgroup = deviceCgroupOf(pid, options);
    assert.deepEqual(cgroup.v2, [made.v2]);
    const v2 = { v2: cgroup.v2 };
    assert.equal(await setBlockDevices(v2, { allow: [first, third], deny: [], standard }), 1);
    assert.deepEqual(await Promise.all([open(firstNode)]), ['ENXIO']);
    assert.deepEqual([await open(secondNode), await open(thirdNode)], ['EPERM', 'ENXIO']);
    assert.deepEqual([await open('/dev/null'), await open('/dev/zero')], ['open', 'EPERM']);

    assert.equal(await setBlockDevices(v2, { allow: [third], deny: [first], standard }), 1);
    assert.deepEqual([await open(firstNode), await open(thirdNode)], ['EPERM', 'ENXIO']);
  });

  test('nothing is changed where nothing has to be, and there is one program, however often it changes', async () => {
    const made = makeCgroups();
    await made.attachV2(runtimes);
    const v2 = { v2: [made.v2 ?? ''] };
    for (let round = 0; round < 3; round++) {
      const { length } = (await attachedTo(made)).programs;
      assert.equal(length, 1);
      const changes = await setBlockDevices(v2, { allow: devices, deny: [], standard });
      assert.equal(changes, round === 0 ? 1 : 0);
    }
    const [program] = (await attachedTo(made)).programs;
    const read = readDeviceRules(program?.instructions ?? Buffer.alloc(0));
    assert.deepEqual(read, { rules: { allow: [...devices], deny: [] }, base: runtimes });
  });

  test('what upstream allowed in its own program is denied when its disk is unplugged', async () => {
    const made = makeCgroups();
    await made.attachV2(standardProgram([{ type: 'block', ...first }, { type: 'char' }]));
    const { open } = await made.start();
    assert.equal(await open(firstNode), 'ENXIO');
    await setBlockDevices({ v2: [made.v2 ?? ''] }, { allow: [], deny: [first], standard });
    assert.equal(await open(firstNode), 'EPERM');
    await setBlockDevices({ v2: [made.v2 ?? ''] }, { allow: [first], deny: [], standard });
    assert.equal(await open(firstNode), 'ENXIO');
  });

  test('each of several programs lets a new disk through, as runc and systemd attach one each', async () => {
    const made = makeCgroups();
    await made.attachV2(runtimes);
    await made.attachV2(standardProgram([{ type: 'char' }]));
    const { open } = await made.start();
    const v2 = { v2: [made.v2 ?? ''] };
    assert.equal(await setBlockDevices(v2, { allow: [first], deny: [], standard }), 2);
    assert.deepEqual([await open(firstNode), await open('/dev/zero')], ['ENXIO', 'EPERM']);
    assert.equal(await setBlockDevices(v2, { allow: [first], deny: [], standard }), 0);
  });

  test('a program that was attached alone is replaced alone', async () => {
    for (const flags of [0, 1]) {
      const made = makeCgroups();
      await made.attachV2(runtimes, flags);
      const { open } = await made.start();
      await setBlockDevices({ v2: [made.v2 ?? ''] }, { allow: [first], deny: [], standard });
      assert.deepEqual([await open(firstNode), await open('/dev/null')], ['ENXIO', 'open']);
      const attached = await attachedTo(made);
      assert.deepEqual([attached.flags, attached.programs.length], [flags, 1]);
    }
  });

  test('a disk is denied at no moment while others come and go', async () => {
    const made = makeCgroups();
    await made.attachV2(runtimes);
    const v2 = { v2: [made.v2 ?? ''] };
    await setBlockDevices(v2, { allow: [first], deny: [], standard });
    const { watch, refusals } = await made.start();
    await watch(firstNode);
    for (let round = 0; round < 50; round++) {
      await setBlockDevices(v2, { allow: [first, { major: 250, minor: round }], deny: [], standard });
      await new Promise(setImmediate);
    }
    const told = await refusals();
    assert.match(told, /^0 of [1-9]\d*$/);
  });

  test('a cgroup without a program lets everything through, and stays so', async () => {
    const made = makeCgroups();
    const { open } = await made.start();
    assert.equal(await setBlockDevices({ v2: [made.v2 ?? ''] }, { allow: [first], deny: [], standard }), 0);
    assert.deepEqual([await open(firstNode), await open(secondNode)], ['ENXIO', 'ENXIO']);
  });

  test('a cgroup that is gone is an error that says so', async () => {
    const gone = { v2: [path.join(mounted.unified?.place ?? '', 'devices-test-gone')] };
    await assert.rejects(setBlockDevices(gone, { allow: [first], deny: [], standard }), { code: 'CGROUP_GONE' });
    assert.throws(() => deviceCgroupOf(2 ** 22 + 1, options), { code: 'CGROUP_GONE' });
  });
});

describe('device rules of cgroups of version 1', { skip: noV1 }, () => {
  test('a disk may be opened from the change on that allows it, to the one that denies it', async () => {
    const made = makeCgroups();
    made.restrictV1(['c 1:3 rwm']);
    const { open, pid } = await made.start();
    const { v1 = '' } = deviceCgroupOf(pid, options);
    assert.equal(v1, made.v1);
    assert.deepEqual([await open(firstNode), await open('/dev/null')], ['EPERM', 'open']);
    assert.equal(await setBlockDevices({ v1, v2: [] }, { allow: [first, second], deny: [], standard }), 2);
    assert.equal(await setBlockDevices({ v1, v2: [] }, { allow: [first, second], deny: [], standard }), 0);
    assert.deepEqual(
      [await open(firstNode), await open('/dev/null'), await open('/dev/zero')],
      ['ENXIO', 'open', 'EPERM'],
    );
    assert.equal(await setBlockDevices({ v1, v2: [] }, { allow: [second], deny: [first], standard }), 1);
    assert.deepEqual([await open(firstNode), await open(secondNode)], ['EPERM', 'ENXIO']);
    assert.equal(await setBlockDevices({ v1, v2: [] }, { allow: [second], deny: [first], standard }), 0);
  });

  test('a cgroup that is gone is an error that says so', async () => {
    const gone = { v1: path.join(mounted.devices?.place ?? '', 'devices-test-gone'), v2: [] };
    await assert.rejects(setBlockDevices(gone, { allow: [first], deny: [], standard }), { code: 'CGROUP_GONE' });
  });
});

test('where both versions filter, both let a disk through', { skip: noV1 || noV2 }, async () => {
  const made = makeCgroups();
  made.restrictV1(['c *:* rwm']);
  await made.attachV2(runtimes);
  const { open, pid } = await made.start();
  const both = deviceCgroupOf(pid, options);
  assert.equal(await setBlockDevices(both, { allow: [first], deny: [], standard }), 2);
  assert.deepEqual([await open(firstNode), await open(secondNode)], ['ENXIO', 'EPERM']);
});
