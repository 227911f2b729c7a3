import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Interface, VirtualMachineInstance } from '../../../../src/api/index.ts';
import { silentLogger } from '../../../../src/base/index.ts';
import { NetworkError, NicSync } from '../../../../src/launcher/network/index.ts';
import { type DomainRef, LibvirtError } from '../../../../src/libvirt/index.ts';
import { FakeClock } from '../../../fixtures/fake-clock.ts';
import { vmiWith } from '../domain/cases.ts';

const domain: DomainRef = { name: 'default_testvm', uuid: '5d307ca9-b3ef-428c-8861-06e72d69f223', id: 1 };
const blueNic =
  "<interface type='ethernet'><target dev='tap16477688c0e' managed='no'/><alias name='ua-blue'/></interface>";
const links = new Map(['pod16477688c0e', 'tap16477688c0e'].map((name) => [name, { name }] as const));

function vmiOf(blue: Interface, phase: 'Running' | 'Scheduled' = 'Running'): VirtualMachineInstance {
  const networks = [{ name: 'blue', multus: { networkName: 'blue' } }];
  const status = { phase, interfaces: [{ name: 'blue', infoSource: 'multus-status' }] };
  return { ...vmiWith({ devices: { interfaces: [blue] } }, { networks }), status };
}

/** A domain whose devices and whose libvirt's answers the test sets. */
function benchWith(devices: string) {
  const calls: string[] = [];
  const clock = new FakeClock();
  const failures = new Map<string, Error>();
  const call = async (name: string) => {
    calls.push(name);
    const failure = failures.get(name);
    if (failure) throw failure;
  };
  const persistence = ({ persistent }: { readonly persistent: boolean }) => (persistent ? 'both' : 'live');
  const nics = new NicSync({
    hypervisor: {
      xml: async () => `<domain><devices>${devices}</devices></domain>`,
      attachDevice: (_domain, _xml, options) => call(`attach ${persistence(options)}`),
      detachDevice: (_domain, _xml, options) => call(`detach ${persistence(options)}`),
      updateDevice: (_domain, _xml, options) => call(`update ${persistence(options)}`),
    },
    network: {
      links: async () => {
        const failure = failures.get('links');
        if (failure) throw failure;
        return links;
      },
      setUp: (_vmi, _links, names) => call(`serve ${names}`),
      keepOnly: (_vmi, _links, names) => void calls.push(`keep ${names}`),
    },
    log: silentLogger,
    clock,
  });
  return { nics, calls, clock, failures };
}

test('a device is plugged in when its network is set up, and not before', async () => {
  const { nics, calls, failures } = benchWith('');
  await nics.sync(domain, vmiOf({ name: 'blue', bridge: {} }), {});
  assert.deepEqual(calls.splice(0), ['keep ', 'serve ', 'serve blue', 'attach both']);
  failures.set('serve blue', new NetworkError('NO_HANDOVER', 'not there'));
  await assert.rejects(nics.sync(domain, vmiOf({ name: 'blue', bridge: {} }), {}), { code: 'NO_HANDOVER' });
  assert.ok(!calls.includes('attach both'));
});

test('of plug-ins the device with a tap is plugged, and the one that a sidecar wrote is not', async () => {
  const { nics, calls } = benchWith('');
  const plugin = vmiOf({ name: 'blue', binding: { name: 'plug' } });
  await nics.sync(domain, plugin, {});
  assert.deepEqual(calls.splice(0), ['keep ', 'serve ']);
  await nics.sync(domain, plugin, { interfaceDomainAttachment: { blue: 'tap' } });
  assert.deepEqual(calls, ['keep ', 'serve ', 'serve blue', 'attach both']);
});

test('before the VMI runs no device changes', async () => {
  const { nics, calls } = benchWith('');
  await nics.sync(domain, vmiOf({ name: 'blue', bridge: {} }, 'Scheduled'), {});
  assert.deepEqual(calls, ['keep ', 'serve ']);
});

test('a guest that runs goes on when its network is not served', async () => {
  const { nics, failures } = benchWith(blueNic);
  failures.set('serve blue', new NetworkError('DHCP_FAILED', 'no'));
  await nics.sync(domain, vmiOf({ name: 'blue', bridge: {} }), {});
  failures.set('links', new Error('too many open files'));
  await nics.sync(domain, vmiOf({ name: 'blue', bridge: {} }), {});
});

test('a guest that does not let go is asked again after a minute, and then only the guest', async () => {
  const { nics, calls, clock, failures } = benchWith(blueNic);
  const absent = vmiOf({ name: 'blue', bridge: {}, state: 'absent' });
  const detached = () => calls.splice(0).filter((call) => call.startsWith('detach'));
  await nics.sync(domain, absent, {});
  assert.deepEqual(detached(), ['detach both']);
  await nics.sync(domain, absent, {});
  assert.deepEqual(detached(), []);
  await clock.pass(60_000);
  const text = 'device not found';
  failures.set('detach both', new LibvirtError('DEVICE_MISSING', text, { libvirtCode: 99, domainCode: 20 }));
  await nics.sync(domain, absent, {});
  assert.deepEqual(detached(), ['detach both', 'detach live']);
});

test('another failure of the unplug is the answer', async () => {
  const { nics, failures } = benchWith(blueNic);
  failures.set('detach both', new LibvirtError('INTERNAL_ERROR', 'x', { libvirtCode: 1, domainCode: 10 }));
  const absent = vmiOf({ name: 'blue', bridge: {}, state: 'absent' });
  await assert.rejects(nics.sync(domain, absent, {}), { code: 'INTERNAL_ERROR' });
});

test('the state of a link is changed in domain and definition', async () => {
  const { nics, calls } = benchWith(blueNic);
  await nics.sync(domain, vmiOf({ name: 'blue', bridge: {}, state: 'down' }), {});
  assert.deepEqual(calls, ['keep blue', 'serve blue', 'update both']);
});
