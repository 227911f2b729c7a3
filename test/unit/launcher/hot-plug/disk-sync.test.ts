import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { VirtualMachineInstance } from '../../../../src/api/index.ts';
import { silentLogger } from '../../../../src/base/index.ts';
import type { ResolvedDisk } from '../../../../src/launcher/domain/index.ts';
import { DiskSync, type DiskSyncDeps } from '../../../../src/launcher/hot-plug/index.ts';
import { LibvirtError } from '../../../../src/libvirt/index.ts';
import { FakeClock } from '../../../fixtures/fake-clock.ts';
import { vmiWith } from '../domain/cases.ts';

const hotplugDir = '/var/run/kubevirt/hotplug-disks';
const domain = { name: 'default_testvm', uuid: '5d307ca9-b3ef-428c-8861-06e72d69f223', id: 1 };

/** A guest with plugged disks by target, which releases those that are not in `stubborn`. */
class PluggedGuest {
  readonly live = new Map<string, string>();
  readonly defined = new Set<string>();
  readonly stubborn = new Set<string>();
  readonly refused = new Set<string>();
  readonly calls: string[] = [];
  /** Targets whose size was asked for. */
  readonly asked: string[] = [];
  readonly clock = new FakeClock();
  mediumChanges = 0;

  constructor(...names: readonly string[]) {
    for (const [index, name] of names.entries()) {
      const target = `sd${String.fromCharCode(97 + index)}`;
      this.live.set(target, name);
      this.defined.add(target);
    }
  }

  readonly hypervisor: DiskSyncDeps['hypervisor'] = {
    xml: async () => this.#xml([...this.live.keys()]),
    persistentXml: async () => this.#xml([...this.defined]),
    attachDevice: async (_, xml) => {
      const name = /<alias name="ua-([^"]+)"/.exec(xml)?.[1] ?? '';
      this.calls.push(`attach ${name}`);
      if (this.refused.has(name))
        throw new LibvirtError('INTERNAL_ERROR', 'no such block size', { libvirtCode: 1, domainCode: 10 });
      this.live.set(/<target dev="([^"]+)"/.exec(xml)?.[1] ?? '', name);
    },
    detachDevice: async (_, xml, { persistent }) => {
      const target = /<target dev="([^"]+)"/.exec(xml)?.[1] ?? '';
      this.calls.push(`detach ${target}${persistent ? ' for good' : ''}`);
      if (persistent && !this.defined.delete(target)) throw new LibvirtError('OPERATION_FAILED', 'no target device');
      // libvirt waits so long for a guest that does not answer.
      if (this.stubborn.has(target)) this.clock.advance(5_000);
      else this.live.delete(target);
    },
    updateDevice: async () => {
      this.calls.push('update');
    },
    blockInfo: async (_, target) => {
      this.asked.push(target);
      return { allocationBytes: 0n, capacityBytes: 1n, physicalBytes: 1n };
    },
    blockResize: async () => undefined,
  };

  sync(vmi: VirtualMachineInstance): Promise<void> {
    const disks = new DiskSync(
      { hotplugDir },
      {
        hypervisor: this.hypervisor,
        findMedia: async (_, names) => new Map(names.map((name) => [name, mediumOf(name)])),

        tracking: { imageOf: async () => undefined, forget: async () => undefined },
        onMediumChange: () => this.mediumChanges++,
        clock: this.clock,
        log: silentLogger,
      },
    );
    return disks.sync(domain, vmi, {});
  }

  #xml(targets: readonly string[]): string {
    const disks = targets.map((target) => {
      const name = this.live.get(target) ?? target;
      const source = `<source file='${hotplugDir}/${name}.img'/>`;
      return `<disk type='file' device='disk'>${source}<target dev='${target}' bus='scsi'/><alias name='ua-${name}'/></disk>`;
    });
    return `<domain><devices>${disks.join('')}</devices></domain>`;
  }
}

function mediumOf(name: string): ResolvedDisk {
  return { path: `${hotplugDir}/${name}.img`, format: 'raw', isBlock: false, cache: 'none' };
}

function vmiOf(...names: readonly string[]): VirtualMachineInstance {
  const vmi = vmiWith(
    { devices: { disks: names.map((name) => ({ name, disk: { bus: 'scsi' } })) } },
    { volumes: names.map((name) => ({ name, persistentVolumeClaim: { claimName: name, hotpluggable: true } })) },
  );
  const volumeStatus = names.map((name) => ({ name, target: '', phase: 'Ready', hotplugVolume: {} }));
  return { ...vmi, status: { volumeStatus } };
}

test('a guest that does not release a disk is asked again, for the live part alone, and other disks are done', async () => {
  const guest = new PluggedGuest('old', 'gone');
  guest.stubborn.add('sda');
  const pending = { code: 'UNPLUG_PENDING', message: /volume old: the guest has not released disk sda yet/ };
  await assert.rejects(guest.sync(vmiOf('new')), pending);
  assert.deepEqual(guest.calls, ['detach sda for good', 'detach sdb for good', 'attach new']);
  assert.deepEqual(
    [...guest.live],
    [
      ['sda', 'old'],
      ['sdc', 'new'],
    ],
  );
  guest.calls.length = 0;
  await assert.rejects(guest.sync(vmiOf('new')), pending);
  assert.deepEqual(guest.calls, ['detach sda']);
  guest.stubborn.clear();
  await guest.sync(vmiOf('new'));
  assert.deepEqual([...guest.live.values()], ['new']);
});

test('a disk that is unplugged is not asked whether it has grown', async () => {
  const guest = new PluggedGuest('stays', 'gone', 'pending');
  guest.stubborn.add('sdc');
  const vmi = vmiOf('stays');
  const persistentVolumeClaimInfo = { capacity: { storage: '1Gi' }, requests: { storage: '1Gi' } };
  const volumeStatus = ['stays', 'gone', 'pending'].map((name) => ({ name, target: '', persistentVolumeClaimInfo }));
  const given = { ...vmi, status: { ...vmi.status, volumeStatus } };
  await assert.rejects(guest.sync(given), { code: 'UNPLUG_PENDING' });
  assert.deepEqual(guest.asked, ['sda']);
});

test('guests that release nothing do not keep one sync longer than the agent waits', async () => {
  const guest = new PluggedGuest('a', 'b', 'c', 'd');
  for (const target of guest.live.keys()) guest.stubborn.add(target);
  await assert.rejects(guest.sync(vmiOf()), { code: 'UNPLUG_PENDING', message: /volume a: .*volume d: / });
  assert.deepEqual(guest.calls, ['detach sda for good', 'detach sdb for good']);
});

test('a disk that QEMU refuses is named with libvirt’s words, and the next one is plugged in', async () => {
  const guest = new PluggedGuest();
  guest.refused.add('bad');
  const expected = {
    code: 'HOTPLUG_FAILED',
    message: "volume bad could not be plugged in: LibvirtError(Code=1, Domain=10, Message='no such block size')",
  };
  await assert.rejects(guest.sync(vmiOf('bad', 'good')), expected);
  assert.deepEqual([...guest.live.values()], ['good']);
});

test('a sync without a difference asks libvirt for nothing but the domain', async () => {
  const guest = new PluggedGuest('a');
  await guest.sync(vmiOf('a'));
  assert.deepEqual(guest.calls, []);
  assert.equal(guest.mediumChanges, 0);
});

test('while the guest migrates a difference is refused in words, and none is no error', async () => {
  const guest = new PluggedGuest('a');
  const migrating = (vmi: VirtualMachineInstance): VirtualMachineInstance => ({
    ...vmi,
    status: { ...vmi.status, migrationState: { startTimestamp: '2026-01-01T00:00:00Z' } },
  });
  await guest.sync(migrating(vmiOf('a')));
  await assert.rejects(guest.sync(migrating(vmiOf('a', 'b'))), { code: 'MIGRATING', message: /b will follow/ });
  assert.deepEqual(guest.calls, []);
});
