import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { test } from 'node:test';
import fc from 'fast-check';
import type { Interface, Network, VirtualMachineInstance } from '../../../../src/api/index.ts';
import { networkDevices } from '../../../../src/launcher/domain/index.ts';
import { customOptions } from '../../../../src/launcher/network/custom-options.ts';
import { encodeDomainSearch } from '../../../../src/launcher/network/dhcp4/domain-search.ts';
import { bridgeLeases, type GuestFacts, masqueradeLeases } from '../../../../src/launcher/network/leases.ts';
import { longest, parseResolvConf, withSubdomain } from '../../../../src/launcher/network/resolv-conf.ts';
import { parseVifCache, readVifCache } from '../../../../src/launcher/network/vif-cache.ts';
import { vmiWith } from '../domain/cases.ts';

const resolvText =
  'search ns1.svc.cluster.local svc.cluster.local Cluster.Local\nnameserver 10.96.0.10\nnameserver fd00::a\n';
const blue: Network = { name: 'blue', multus: { networkName: 'blue' } };

function facts(interfaces: Interface[], change: Partial<VirtualMachineInstance['spec']> = {}): GuestFacts {
  const networks = [{ name: 'default', pod: {} }, blue];
  const vmi = vmiWith({ devices: { interfaces } }, { networks, ...change });
  return { vmi, resolvConf: parseResolvConf(resolvText), hostName: 'vm-host' };
}

const links = new Map(
  [
    { name: 'eth0', mac: '02:00:00:00:00:aa', mtu: 1450 },
    { name: 'eth0-nic', mtu: 1400 },
    { name: 'k6t-eth0', mac: '02:00:00:00:00:00' },
    { name: 'tap0' },
  ].map((link) => [link.name, link] as const),
);

function inputOf(iface: Interface, network: Network, { vmi }: GuestFacts) {
  return { iface, network, links, devices: networkDevices(network, vmi, links) };
}

const podAddresses = [
  { device: 'eth0', family: 'ipv4', address: '10.244.0.5' },
  { device: 'eth0', family: 'ipv6', address: 'fd00:0:0:0:0:0:0:5' },
] as const;

test('masquerade gives the second host of the default subnets, its gateway, and what the pod knows', () => {
  const iface: Interface = { name: 'default', masquerade: {} };
  const given = facts([iface], { subdomain: 'headless' });
  const { v4, v6, leftOut } = masqueradeLeases(
    inputOf(iface, { name: 'default', pod: {} }, given),
    given,
    podAddresses,
  );
  const domains = ['headless.ns1.svc.cluster.local', 'ns1.svc.cluster.local', 'svc.cluster.local', 'cluster.local'];
  assert.deepEqual(v4, {
    address: '10.0.2.2',
    prefix: 24,
    server: '10.0.2.1',
    router: '10.0.2.1',
    routes: [],
    mtu: 1450,
    dns: ['10.96.0.10'],
    hostName: 'vm-host',
    domainName: 'headless.ns1.svc.cluster.local',
    domainSearch: encodeDomainSearch(domains).bytes,
    custom: { ntpServers: [], privateOptions: [] },
  });
  assert.deepEqual(v6, { address: 'fd10:0:2::2', serverMac: '02:00:00:00:00:00', dns: ['fd00::a'] });
  assert.deepEqual(leftOut, []);
});

test('masquerade has only the families that the pod has, in the subnet of the network', () => {
  const iface: Interface = { name: 'default', masquerade: {} };
  const given = facts([iface]);
  const network = { name: 'default', pod: { vmNetworkCIDR: '192.168.10.77/28' } };
  const linkLocal = { device: 'eth0', family: 'ipv6', address: 'fe80:0:0:0:0:0:0:1' } as const;
  const other = { device: 'net1', family: 'ipv6', address: 'fd00:0:0:0:0:0:0:9' } as const;
  const { v4, v6 } = masqueradeLeases(inputOf(iface, network, given), given, [podAddresses[0], linkLocal, other]);
  assert.equal(v4?.server, '192.168.10.65');
  assert.equal(v4?.address, '192.168.10.66');
  assert.equal(v6, undefined);
  const none = masqueradeLeases(inputOf(iface, network, given), given, []);
  assert.equal(none.v4, undefined);
});

for (const cidr of ['10.0.2.0', '10.0.2.0/31', '10.0.2.0/33', 'fd00::/64', '10.0.2.0/24/1']) {
  test(`a subnet ${cidr} is refused with its field`, () => {
    const iface: Interface = { name: 'default', masquerade: {} };
    const given = facts([iface]);
    const input = inputOf(iface, { name: 'default', pod: { vmNetworkCIDR: cidr } }, given);
    assert.throws(() => masqueradeLeases(input, given, podAddresses), {
      code: 'INVALID_OPTIONS',
      message: /spec\.networks\[default\]\.pod\.vmNetworkCIDR/,
    });
  });
}

/** As Go writes the structure. */
const cache = {
  Name: '',
  IP: { IP: '10.244.0.5', Mask: '////AA==', Label: '', Flags: 0, LinkIndex: 0 },
  IPv6: { Label: '' },
  MAC: 'AgAAAAAB',
  AdvertisingIPAddr: '',
  Routes: [
    { Dst: null, Gw: '10.244.0.1' },
    { Dst: { IP: '10.96.0.0', Mask: '//8AAA==' }, Gw: '10.244.0.1' },
    { Dst: { IP: 'fd00::', Mask: '/////////////////////w==' }, Gw: 'fe80::1' },
  ],
  Mtu: 0,
  IPAMDisabled: false,
  Gateway: '10.244.0.1',
};

test('a bridge gives the address of the pod to the MAC that the agent wrote, with the routes of the pod', () => {
  const ifaces: Interface[] = [
    { name: 'other', masquerade: {} },
    { name: 'default', bridge: {} },
  ];
  const given = facts(ifaces);
  const input = inputOf({ name: 'default', bridge: {} }, { name: 'default', pod: {} }, given);
  const { v4, v6 } = bridgeLeases(input, given, parseVifCache(cache));
  assert.equal(v6, undefined);
  assert.equal(v4?.mac, '02:00:00:00:00:01');
  assert.equal(v4?.address, '10.244.0.5');
  assert.equal(v4?.prefix, 24);
  assert.equal(v4?.server, '169.254.75.11');
  assert.equal(v4?.router, '10.244.0.1');
  assert.equal(v4?.mtu, 1400);
  assert.deepEqual(v4?.routes, [
    { destination: { address: '0.0.0.0', prefix: 0 }, gateway: '10.244.0.1' },
    { destination: { address: '10.96.0.0', prefix: 16 }, gateway: '10.244.0.1' },
  ]);
});

test('a bridge without addresses in the pod is not served, and one without the renamed device is refused', () => {
  const iface: Interface = { name: 'default', bridge: {} };
  const given = facts([iface]);
  const input = inputOf(iface, { name: 'default', pod: {} }, given);
  assert.deepEqual(bridgeLeases(input, given, parseVifCache({ IPAMDisabled: true })), { leftOut: [] });
  const without = { ...input, links: new Map([...links].filter(([name]) => name !== 'eth0-nic')) };
  assert.throws(() => bridgeLeases(without, given, parseVifCache(cache)), { code: 'NO_HANDOVER', message: /eth0-nic/ });
});

const badCaches: readonly (readonly [string, string])[] = [
  ['text', 'x'],
  ['a list', '[]'],
  ['no address', '{}'],
  ['a mask with holes', JSON.stringify({ ...cache, IP: { IP: '10.0.0.1', Mask: '/wD/AA==' } })],
  ['a MAC of five bytes', JSON.stringify({ ...cache, MAC: 'AgAAAAA=' })],
  ['routes that are none', JSON.stringify({ ...cache, Routes: [1] })],
  ['too many routes', JSON.stringify({ ...cache, Routes: new Array(300).fill({}) })],
  ['too much text', `"${'x'.repeat(300_000)}"`],
];
for (const [name, text] of badCaches) {
  test(`a hand-over that holds ${name} is refused with its file`, async (t) => {
    const dir = mkdtempSync(path.join(tmpdir(), 'vif-'));
    t.after(() => rmSync(dir, { recursive: true }));
    writeFileSync(path.join(dir, 'vif-cache-eth0.json'), text);
    await assert.rejects(readVifCache(dir, 'eth0'), { code: 'BAD_HANDOVER', message: /vif-cache-eth0\.json/ });
  });
}

test('a hand-over that is missing says that the agent has not set up the network, and a link is not followed', async (t) => {
  const dir = mkdtempSync(path.join(tmpdir(), 'vif-'));
  t.after(() => rmSync(dir, { recursive: true }));
  await assert.rejects(readVifCache(dir, 'eth0'), { code: 'NO_HANDOVER', message: /node agent/ });
  symlinkSync('/etc/passwd', path.join(dir, 'vif-cache-eth0.json'));
  await assert.rejects(readVifCache(dir, 'eth0'), { code: 'BAD_HANDOVER' });
});

test('any JSON is a hand-over or an error in words', () => {
  const attempt = (json: unknown) => {
    try {
      return parseVifCache(json).kind;
    } catch (error) {
      assert.ok(error instanceof Error && error.constructor === Error, String(error));
      return 'refused';
    }
  };
  fc.assert(fc.property(fc.jsonValue(), (json) => assert.ok(attempt(json))));
});

test("resolv.conf is read as upstream's launcher reads it", () => {
  assert.deepEqual(parseResolvConf(''), { dns4: ['8.8.8.8'], dns6: [], searchDomains: ['cluster.local'] });
  const text =
    'nameserver 1.1.1.1 2.2.2.2\nnameserver x\nnameserver fe80::1%eth0\nnameserver ::ffff:9.9.9.9\noptions ndots:5\n';
  assert.deepEqual(parseResolvConf(text), { dns4: ['9.9.9.9'], dns6: [], searchDomains: ['cluster.local'] });
  assert.deepEqual(parseResolvConf('nameserver fd00::a\nsearch A b\nsearch c'), {
    dns4: [],
    dns6: ['fd00::a'],
    searchDomains: ['a', 'b', 'c'],
  });
});

test('a subdomain goes in front of the longest service domain once', () => {
  const domains = ['ns.svc.cluster.local', 'svc.cluster.local', 'a.very.long.company.domain.example'];
  assert.deepEqual(withSubdomain(domains, ''), domains);
  assert.deepEqual(withSubdomain(domains, 'sub')[0], 'sub.ns.svc.cluster.local');
  const there = ['sub.ns.svc.cluster.local', ...domains];
  assert.deepEqual(withSubdomain(there, 'sub'), there);
  assert.deepEqual(withSubdomain(['example.com'], 'sub'), ['example.com']);
  assert.equal(longest(domains), 'a.very.long.company.domain.example');
});

test('DHCP options that cannot be sent are refused with their field', () => {
  const wrong: readonly (readonly [Parameters<typeof customOptions>[1], RegExp])[] = [
    [{ ntpServers: ['time.example'] }, /i\.dhcpOptions\.ntpServers: "time\.example" is no IPv4/],
    [{ privateOptions: [{ option: 66, value: 'x' }] }, /option 66 is not private: use 224 to 254/],
    [{ bootFileName: 'x'.repeat(256) }, /bootFileName: has more than 255 bytes/],
    [{ privateOptions: [{ option: 240, value: 'x'.repeat(256) }] }, /more than 255 bytes/],
    [{ ntpServers: new Array(40).fill('1.1.1.1') }, /at most 32/],
  ];
  for (const [options, message] of wrong) {
    assert.throws(() => customOptions('i', options), { code: 'INVALID_OPTIONS', message });
  }
  assert.deepEqual(customOptions('i', { tftpServerName: 't', privateOptions: [{ option: 224, value: 'a' }] }), {
    tftpServerName: 't',
    ntpServers: [],
    privateOptions: [{ code: 224, value: 'a' }],
  });
});
