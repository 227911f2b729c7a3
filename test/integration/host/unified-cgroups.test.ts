import assert from 'node:assert/strict';
import { closeSync, existsSync, openSync, readFileSync } from 'node:fs';
import { after, before, describe, test } from 'node:test';
import { loadDeviceFilters } from '../../../src/host/cgroups/bpf.ts';
import { deviceCgroupOf, setBlockDevices } from '../../../src/host/cgroups/index.ts';
import { cgroupMountOf } from '../../../src/host/cgroups/places.ts';
import { busybox, RuncContainer } from '../../fixtures/runc-container.ts';

/** A container of the real runc, with runc's own device program, on a machine where only version 2 is mounted. */

const unified = cgroupMountOf(readFileSync('/proc/self/mountinfo', 'utf8'), 'unified');
const isThere = process.getuid?.() === 0 && unified && existsSync('/usr/sbin/runc') && existsSync(busybox);
const skip = isThere ? false : 'needs root, cgroups of version 2, runc and a static busybox';

const [denied, noDriver] = ['Operation not permitted', 'No such device or address'];
const disk = { major: 240, minor: 7 };
const other = { major: 240, minor: 8 };
const standard = () => assert.fail("runc's program can be read");

describe("device rules of runc's containers where there is only version 2", { skip }, () => {
  let container: RuncContainer;
  let [diskNode, otherNode] = ['', ''];

  const cgroup = () => {
    const { procDir, machine } = container;
    return deviceCgroupOf(container.pid, { procDir, hostRoot: machine.root, hostPid: machine.pid });
  };
  const attached = async () => {
    const [directory = ''] = cgroup().v2;
    const descriptor = openSync(directory, 'r');
    try {
      return (await loadDeviceFilters()).attached(descriptor);
    } finally {
      closeSync(descriptor);
    }
  };

  before(async () => {
    container = await RuncContainer.start(unified?.place ?? '');
    [diskNode, otherNode] = [container.makeNode(disk.major, disk.minor), container.makeNode(other.major, other.minor)];
  });
  after(() => container?.remove());

  test('the machine has one hierarchy, and runc has attached a program of its own', async () => {
    const mounts = readFileSync(`/proc/${container.machine.pid}/mountinfo`, 'utf8');
    assert.equal(cgroupMountOf(mounts, 'devices'), undefined);
    assert.equal(cgroupMountOf(mounts, 'unified')?.place, '/sys/fs/cgroup');
    assert.equal(cgroup().v1, undefined);
    assert.equal((await attached()).programs.length, 1);
    assert.deepEqual([await container.read(diskNode), await container.read('/dev/zero')], [denied, 'read']);
  });

  test('a disk that is plugged may be opened, and all that runc allowed still may', async () => {
    assert.equal(await setBlockDevices(cgroup(), { allow: [disk], deny: [], standard }), 1);
    const opened = await Promise.all([diskNode, otherNode, '/dev/zero'].map((node) => container.read(node)));
    assert.deepEqual(opened, [noDriver, denied, 'read']);
    assert.equal((await attached()).programs.length, 1);
  });

  test('it stays so when the kubelet updates the container', async () => {
    await container.update();
    assert.equal(await container.read(diskNode), noDriver);
    assert.equal(await setBlockDevices(cgroup(), { allow: [disk], deny: [], standard }), 0);
  });

  test('an agent that was started anew goes on with what it finds', async () => {
    assert.equal(await setBlockDevices(cgroup(), { allow: [disk, other], deny: [], standard }), 1);
    assert.deepEqual([await container.read(diskNode), await container.read(otherNode)], [noDriver, noDriver]);
  });

  test('unplugged, it may not be opened, and the other one still may', async () => {
    assert.equal(await setBlockDevices(cgroup(), { allow: [other], deny: [disk], standard }), 1);
    assert.deepEqual([await container.read(diskNode), await container.read(otherNode)], [denied, noDriver]);
    assert.equal(await container.read('/dev/zero'), 'read');
  });

  test('a container that ended is an error that says so', async () => {
    const before = cgroup();
    await container.end();
    await assert.rejects(setBlockDevices(before, { allow: [disk], deny: [], standard }), { code: 'CGROUP_GONE' });
  });
});
