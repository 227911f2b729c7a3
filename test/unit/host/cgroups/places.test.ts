import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, describe, test } from 'node:test';
import { deviceCgroupOf } from '../../../../src/host/cgroups/index.ts';

const procDir = mkdtempSync(path.join(tmpdir(), 'cgroup-places-'));
after(() => rmSync(procDir, { recursive: true }));
const options = { procDir, hostRoot: '/host', hostPid: 1 };

const unified = '36 30 0:29 / /sys/fs/cgroup rw,nosuid shared:5 - cgroup2 cgroup2 rw';
const hybrid = [
  '36 30 0:36 / /sys/fs/cgroup/devices rw - cgroup cgroup rw,devices',
  '37 30 0:37 / /sys/fs/cgroup/unified rw - cgroup2 none rw',
].join('\n');

function machine(mountinfo: string, cgroups: string): number {
  for (const [pid, file, text] of [
    ['1', 'mountinfo', mountinfo],
    ['77', 'cgroup', cgroups],
    ['self', 'cgroup', '5:devices:/agents/own\n0::/agents/own'],
  ] as const) {
    mkdirSync(path.join(procDir, pid), { recursive: true });
    writeFileSync(path.join(procDir, pid, file), `${text}\n`);
  }
  return 77;
}

describe('the cgroup of a container', () => {
  test('of version 2 is found below the mount of the machine', () => {
    const pid = machine(unified, '0::/kubepods.slice/kubepods-pod1.slice/cri-containerd-a.scope');
    assert.deepEqual(deviceCgroupOf(pid, options), {
      v2: ['/host/sys/fs/cgroup/kubepods.slice/kubepods-pod1.slice/cri-containerd-a.scope'],
    });
  });

  test('of version 1 is that of the controller of devices', () => {
    const pid = machine(hybrid, '9:name=systemd:/x\n5:devices,misc:/kubepods/pod1/a\n1:cpu:/y\n0::/');
    assert.deepEqual(deviceCgroupOf(pid, options), {
      v1: '/host/sys/fs/cgroup/devices/kubepods/pod1/a',
      v2: [],
    });
  });

  test('is the container, not the group for threads of the emulator in it', () => {
    const pid = machine(unified, '0::/kubepods/pod1/a/housekeeping');
    assert.deepEqual(deviceCgroupOf(pid, options).v2, ['/host/sys/fs/cgroup/kubepods/pod1/a']);
  });

  test('is none where this program is in it, too: rules there are the machine’s', () => {
    for (const place of ['/', '/agents', '/agents/own']) {
      assert.deepEqual(deviceCgroupOf(machine(unified, `0::${place}`), options), { v2: [] }, place);
    }
    assert.equal(deviceCgroupOf(machine(unified, '0::/agents/ow'), options).v2.length, 1);
  });

  test('of crun filters in the scope around it, too', () => {
    const pid = machine(unified, '0::/kubepods/crio-a.scope/container');
    const scope = '/host/sys/fs/cgroup/kubepods/crio-a.scope';
    assert.deepEqual(deviceCgroupOf(pid, options).v2, [`${scope}/container`, scope]);
  });

  test('is found where only a part of the hierarchy is mounted', () => {
    const pid = machine('36 30 0:29 /machine /cg rw - cgroup2 none rw', '0::/machine/pod1/a');
    assert.deepEqual(deviceCgroupOf(pid, options).v2, ['/host/cg/pod1/a']);
  });

  test('that leads out of what this process sees is refused, in words', () => {
    for (const [mountinfo, cgroups] of [
      [unified, '0::/../../pod1/a'],
      ['36 30 0:29 /../.. /sys/fs/cgroup rw - cgroup2 none rw', '0::/../pod1/a'],
      ['36 30 0:29 /machine /cg rw - cgroup2 none rw', '0::/other/a'],
    ] as const) {
      const pid = machine(mountinfo, cgroups);
      assert.throws(() => deviceCgroupOf(pid, options), { code: 'CGROUP_UNREACHABLE' }, cgroups);
    }
  });

  test('that is not mounted at all is refused, and one of a process that ended is gone', () => {
    const pid = machine('1 0 0:1 / / rw - ext4 /dev/vda rw', '0::/a');
    assert.throws(() => deviceCgroupOf(pid, options), { code: 'CGROUP_UNREACHABLE' });
    assert.throws(() => deviceCgroupOf(78, options), { code: 'CGROUP_GONE' });
  });
});
