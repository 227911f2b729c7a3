import assert from 'node:assert/strict';
import { test } from 'node:test';
import { silentLogger, systemClock } from '../../../../src/base/index.ts';
import type { SriovContext } from '../../../../src/launcher/domain/index.ts';
import { child, parseXml } from '../../../../src/launcher/domain/xml.ts';
import { HostDevicePlug } from '../../../../src/launcher/hot-plug/index.ts';
import { DomainLock } from '../../../../src/launcher/lifecycle/index.ts';
import type { Hypervisor } from '../../../../src/launcher/ports.ts';
import type { DomainRef } from '../../../../src/libvirt/index.ts';
import { FakeClock } from '../../../fixtures/fake-clock.ts';
import { launcherVmi } from '../../../fixtures/launcher-vmi.ts';

const addresses: SriovContext = {
  networkAddresses: new Map([
    ['blue', '0000:04:02.5'],
    ['red', '0000:04:02.6'],
  ]),
};
const hostdev = (name: string) => `<hostdev type='pci'><alias name='ua-sriov-${name}'/></hostdev>`;

interface World {
  readonly present?: readonly string[];
  readonly context?: SriovContext;
  readonly clock?: FakeClock;
  readonly attach?: (xml: string) => Promise<void>;
}

function running({ present = [], context = addresses, clock, attach }: World = {}) {
  const devices = new Map(present.map((name) => [name, hostdev(name)]));
  const attached: string[] = [];
  const hypervisor: Pick<Hypervisor, 'lookup' | 'xml' | 'attachDevice'> = {
    lookup: async () => ({ name: 'default_small' }) as DomainRef,
    xml: async () => `<domain><devices>${[...devices.values()].join('')}</devices></domain>`,
    attachDevice: async (_domain, xml, { persistent }) => {
      const name = child(parseXml(xml, 'hostdev'), 'alias')?.attributes.name?.slice('ua-sriov-'.length) ?? '';
      attached.push(`${name}${persistent ? '' : ' live only'}`);
      await attach?.(xml);
      devices.set(name, hostdev(name));
    },
  };
  const lock = new DomainLock({ maxWaitMs: 1000 }, { clock: systemClock });
  const deps = {
    hypervisor,
    lock,
    log: silentLogger,
    clock: clock ?? systemClock,
    findSriovDevices: async () => context,
  };
  return { attached, devices, plug: new HostDevicePlug({ domainName: 'default_small' }, deps) };
}

/** `reported`: interfaces whose device Multus has given to the pod. */
function vmiWith(reported: readonly string[], names: readonly string[] = ['blue', 'red']) {
  const interfaces = names.map((name) => ({ name, sriov: {} }));
  const networks = names.map((name) => ({ name, multus: { networkName: name } }));
  const vmi = launcherVmi({ spec: { domain: { memory: { guest: '64Mi' }, devices: { interfaces } }, networks } });
  const status = reported.map((name) => ({ name, infoSource: 'domain, multus-status' }));
  return { ...vmi, status: { phase: 'Running' as const, interfaces: status } };
}

test('a guest gets the network devices of its pod that it lacks, and none of them twice', async () => {
  const { plug, attached } = running({ present: ['red'] });
  await plug.order(vmiWith(['blue', 'red']));
  await plug.order(vmiWith(['blue', 'red']));
  assert.deepEqual(attached, ['blue']);
});

test('the device is the one that a start would have given to the guest', async () => {
  const documents: string[] = [];
  const { plug } = running({ attach: async (xml) => void documents.push(xml) });
  await plug.order(vmiWith(['blue']));
  const [device = ''] = documents;
  assert.match(device, /^<hostdev type="pci" managed="no">/);
  assert.match(device, /<address domain="0x0000" bus="0x04" slot="0x02" function="0x5"\/>/);
  assert.match(device, /<alias name="ua-sriov-blue"\/>/);
});

test('a network that Multus has not given to the pod is waited for', async () => {
  const { plug, attached } = running();
  await plug.order(vmiWith(['red']));
  assert.deepEqual(attached, ['red']);
});

test('a device of a claim comes without a word of Multus', async () => {
  const claims = { claimedDevices: new Map([['card/port', { kind: 'pci', addresses: ['0000:05:00.1'] } as const]]) };
  const { plug, attached } = running({ context: { ...addresses, ...claims } });
  const vmi = vmiWith([], ['blue']);
  vmi.spec.networks = [{ name: 'blue', resourceClaim: { claimName: 'card', requestName: 'port' } }];
  await plug.order(vmi);
  assert.deepEqual(attached, ['blue']);
});

test('one order at a time, in the words of upstream; what takes long goes on after the answer', async () => {
  const clock = new FakeClock();
  let isAttached: () => void = () => undefined;
  const { plug, devices } = running({ clock, attach: () => new Promise((resolve) => (isAttached = resolve)) });
  const first = plug.order(vmiWith(['blue']));
  await assert.rejects(plug.order(vmiWith(['blue'])), {
    code: 'BUSY',
    message: 'hot-plug host-devices is in progress',
  });
  await new Promise((resolve) => setImmediate(resolve));
  await clock.advance(2_000);
  await first;
  assert.equal(devices.size, 0);
  isAttached();
  await new Promise((resolve) => setImmediate(resolve));
  assert.equal(devices.size, 1);
  await plug.order(vmiWith(['blue']));
});

test('a device that cannot be plugged in keeps no other one away, is reported, and is tried again by the next order', async () => {
  let isBroken = true;
  const { plug, attached } = running({
    attach: async (xml) => {
      if (isBroken && xml.includes('blue')) throw new Error('not bound to vfio-pci');
    },
  });
  const advice = /failed to hot-plug host-devices: blue: not bound to vfio-pci: the device must be bound to vfio-pci/;
  await assert.rejects(plug.order(vmiWith(['blue', 'red'])), { code: 'HOTPLUG_FAILED', message: advice });
  isBroken = false;
  await plug.order(vmiWith(['blue', 'red']));
  assert.deepEqual(attached, ['blue', 'red', 'blue']);
});

test('a pod that names no device is told of with the field and what to look at', async () => {
  const { plug, attached } = running({ context: {} });
  await assert.rejects(plug.order(vmiWith(['blue'])), {
    code: 'HOTPLUG_FAILED',
    message: /^failed to hot-plug host-devices: .*interfaces\[blue\].*Multus/,
  });
  assert.deepEqual(attached, []);
});

test('an interface whose device is not told keeps no other one away, and is reported beside what cannot be plugged in', async () => {
  const networkAddresses = new Map([
    ['blue', '0000:04:02.5'],
    ['green', '0000:04:02.7'],
    ['odd', 'none'],
  ]);
  const { plug, attached } = running({
    present: ['gone'],
    context: { networkAddresses },
    attach: async (xml) => {
      if (xml.includes('green')) throw new Error('in use');
    },
  });
  const names = ['gone', 'red', 'odd', 'green', 'blue'];
  const report = plug.order(vmiWith(names, names));
  await assert.rejects(report, (error: Error) => {
    const told = error.message.split('; ');
    assert.equal(told.length, 3, error.message);
    assert.match(told[0] ?? '', /^failed to hot-plug host-devices: .*interfaces\[red\].* has no PCI device/);
    assert.match(told[1] ?? '', /interfaces\[odd\].*no PCI address/);
    assert.match(told[2] ?? '', /^green: in use: the device must be bound to vfio-pci/);
    return true;
  });
  assert.deepEqual(attached, ['green', 'blue']);
});

test('of interfaces with the same device none is plugged in, nor one whose device another of the guest has; others are', async () => {
  const networkAddresses = new Map([
    ['blue', '0000:04:02.5'],
    ['red', '0000:04:02.5'],
    ['green', '0000:04:02.7'],
    ['held', '0000:04:02.6'],
    ['late', '0000:04:02.6'],
  ]);
  const { plug, attached } = running({ present: ['held'], context: { networkAddresses } });
  const names = ['blue', 'red', 'green', 'held', 'late'];
  const each =
    /interfaces\[blue\].* is that of .*\[red\].*; .*\[red\].* is that of .*\[blue\].*; .*\[late\].* is that of .*\[held\]/;
  await assert.rejects(plug.order(vmiWith(names, names)), { code: 'HOTPLUG_FAILED', message: each });
  assert.deepEqual(attached, ['green']);
});
