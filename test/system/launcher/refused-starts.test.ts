import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chownSync, mkdirSync, truncateSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import type { DomainSpecInput, VirtualMachineInstance } from '../../../src/api/index.ts';
import type { CmdCaller } from '../../fixtures/cmd-caller.ts';
import { LauncherBench } from '../../fixtures/launcher-bench.ts';
import type { LauncherSandbox } from '../../fixtures/launcher-sandbox.ts';
import { launcherVmi } from '../../fixtures/launcher-vmi.ts';
import { qemu } from '../../fixtures/rooted-launcher.ts';

const needsRoot = process.getuid?.() === 0 ? false : 'pods need root';

function vmiOf(domain: Partial<DomainSpecInput>, volumes: readonly object[] = []): VirtualMachineInstance {
  const { devices, ...rest } = domain;
  const spec = {
    domain: { memory: { guest: '64Mi' }, devices: { autoattachPodInterface: false, ...devices }, ...rest },
    volumes,
  };
  return { ...launcherVmi({ spec } as never), status: { phase: 'Scheduled' } };
}

/** libvirt and QEMU refuse each of these here; the user reads what is to be changed. */
describe('a guest that cannot be started', { skip: needsRoot }, () => {
  let bench: LauncherBench;
  let pod: LauncherSandbox;
  let cmd: CmdCaller;
  before(async () => {
    bench = await LauncherBench.create();
    pod = await bench.startPod();
    await bench.startAgent(pod);
    cmd = await bench.callerOf(pod);
  });
  after(() => bench?.closeAll());

  for (const [what, vmi, words] of [
    [
      'a machine type that QEMU has not',
      vmiOf({ machine: { type: 'pc-q35-99.0' } }),
      /^spec\.domain\.machine\.type: QEMU on this node has no machine type "pc-q35-99\.0".*\(there are .*q35.*\): use q35/,
    ],
    [
      'one PCI address for two disks',
      vmiOf(
        {
          devices: { disks: ['a', 'b'].map((name) => ({ name, disk: { bus: 'virtio', pciAddress: '0000:00:1a.0' } })) },
        },
        ['a', 'b'].map((name) => ({ name, emptyDisk: { capacity: '1Mi' } })),
      ),
      /^spec\.domain\.devices\.disks\[a\]\.disk\.pciAddress and .*\[b\]\.disk\.pciAddress: both ask for the PCI address/,
    ],
    ['a CPU model that nobody knows', vmiOf({ cpu: { model: 'Foo' } }), /^spec\.domain\.cpu\.model: .*"Foo"/],
    [
      'a CPU feature that nobody knows',
      vmiOf({ cpu: { features: [{ name: 'nonsense', policy: 'require' }] } } as never),
      /^spec\.domain\.cpu\.features: there is no CPU feature "nonsense"/,
    ],
    [
      'huge pages that are not reserved',
      vmiOf({ memory: { guest: '1Gi', hugepages: { pageSize: '1Gi' } } }),
      /^spec\.domain\.memory\.hugepages: /,
    ],
  ] as const) {
    test(`${what}: told with field and cure`, async () => {
      const { success, message } = await cmd.sync(vmi);
      assert.deepEqual([success, words.test(message)], [false, true], `${message}\n${pod.log()}`);
    });
  }

  test('a disk that another program uses: told with its volume', async () => {
    const file = path.join(pod.privateDir, 'vmi-disks/data/disk.img');
    mkdirSync(path.dirname(file), { recursive: true });
    writeFileSync(file, '');
    truncateSync(file, 1 << 20);
    chownSync(file, qemu, qemu);
    const holder = spawn('qemu-io', ['-f', 'raw', file], { stdio: ['pipe', 'pipe', 'ignore'] });
    await once(holder.stdout, 'data');
    const volumes = [{ name: 'data', hostDisk: { path: '/srv/disk.img', type: 'Disk' } }];
    const { success, message } = await cmd.sync(
      vmiOf({ devices: { disks: [{ name: 'data', disk: { bus: 'virtio' } }] } } as never, volumes),
    );
    holder.stdin.end();
    await once(holder, 'exit');
    assert.deepEqual(
      [success, /^volume data: another guest or program uses the image/.test(message)],
      [false, true],
      message,
    );
  });
});
