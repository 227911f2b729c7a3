import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type NetworkPlan, type PlanInput, planNetwork } from '../../../../../../src/agent/vmi/host/network/plan.ts';
import type { PodLink, PodNetwork } from '../../../../../../src/agent/vmi/host/network/pod-links.ts';
import { targetsOf } from '../../../../../../src/agent/vmi/host/network/targets.ts';
import type { Interface, Network, VirtualMachineInstance } from '../../../../../../src/api/index.ts';
import { assertGolden } from '../../../../../fixtures/golden.ts';
import { vmiWith } from '../../../../../fixtures/pod-network.ts';

const ipv4 = { ip: '10.244.7.5', prefix: 24 };
const ipv6 = { ip: 'fd00:7::5', prefix: 64 };
const linkLocal = { ip: 'fe80::1234', prefix: 64 };

const link = (more: Partial<PodLink> = {}): PodLink => ({
  index: 2,
  name: 'eth0',
  kind: 'veth',
  mac: '0a:58:0a:f4:07:05',
  mtu: 1440,
  isUp: true,
  addresses: [ipv4, linkLocal],
  ...more,
});

const routes: PodNetwork['routes'] = [
  { destination: 'default', gateway: '10.244.7.1', link: 'eth0' },
  { destination: '10.244.7.0/24', gateway: '', link: 'eth0' },
  { destination: '192.0.2.9', gateway: '10.244.7.9', link: 'eth0' },
  { destination: '198.51.100.0/24', gateway: '', link: 'other' },
];

const pod = (...links: readonly PodLink[]): PodNetwork => ({ links: links.length > 0 ? links : [link()], routes });
const dual = pod(link({ addresses: [ipv4, ipv6, linkLocal] }));

const podNet: Network = { name: 'default', pod: {} };
const blue: Network = { name: 'blue', multus: { networkName: 'blue' } };
const main: Network = { name: 'default', multus: { networkName: 'main', default: true } };
const hashed = 'pod16477688c0e';
const masquerade: Interface = { name: 'default', masquerade: {} };
const bridge: Interface = { name: 'default', bridge: {} };
const blueBridge: Interface = { name: 'blue', bridge: {} };
const blueLink = link({ index: 3, name: hashed, mac: '02:00:00:00:00:b1', addresses: [] });

interface Situation extends Partial<Pick<PlanInput, 'network' | 'originals' | 'podIp' | 'owner'>> {
  readonly vmi: VirtualMachineInstance;
  readonly purpose?: 'start' | 'incoming' | 'running';
  readonly portRanges?: boolean;
  readonly plugins?: Record<string, { readonly domainAttachmentType?: string }>;
}

function plan({ vmi, purpose = 'start', portRanges = false, plugins = {}, ...more }: Situation): NetworkPlan {
  const config = { networkBindings: plugins, portRanges };
  const given = { network: pod(), originals: {}, podIp: '10.0.0.1', owner: 107, newMac: () => '02:ab:cd:ef:00:01' };
  return planNetwork({ vmi, config, ...targetsOf(vmi, purpose), ...given, ...more });
}

const single = (iface: Interface, more: Record<string, unknown> = {}) => vmiWith([iface], [podNet], more);

const situations: readonly (readonly [string, Situation])[] = [
  ['masquerade, IPv4', { vmi: single(masquerade) }],
  ['masquerade, both families', { vmi: single(masquerade), network: dual }],
  ['masquerade, IPv6 first', { vmi: single(masquerade), network: dual, podIp: 'fd00::1' }],
  ['masquerade, a pod without an address', { vmi: single(masquerade), network: pod(link({ addresses: [linkLocal] })) }],
  [
    'masquerade, owner root, several queues',
    {
      vmi: single(masquerade, { devices: { networkInterfaceMultiqueue: true }, status: { runtimeUser: 0 } }),
      owner: 0,
    },
  ],
  [
    'masquerade, networks of its own',
    {
      vmi: vmiWith(
        [masquerade],
        [{ name: 'default', pod: { vmNetworkCIDR: '192.0.2.9/30', vmIPv6NetworkCIDR: '2001:db8::/126' } }],
      ),
      network: dual,
    },
  ],
  ['masquerade, ports', { vmi: single({ ...masquerade, ports: [{ port: 80 }, { protocol: 'UDP', port: 53 }] }) }],
  [
    'masquerade, ranges without their gate',
    {
      vmi: single({ ...masquerade, portRanges: [{ protocol: 'TCP', start: 1, end: 9 }] }),
    },
  ],
  [
    'masquerade, ranges',
    {
      vmi: single({ ...masquerade, portRanges: [{ protocol: 'TCP', start: 1, end: 9 }] }),
      portRanges: true,
    },
  ],
  [
    'masquerade, begun before',
    {
      vmi: single(masquerade),
      network: pod(
        link(),
        link({ index: 4, name: 'k6t-eth0', kind: 'bridge', mac: '02:00:00:00:00:00', isUp: false, addresses: [] }),
      ),
    },
  ],
  [
    'masquerade, done before',
    {
      vmi: single(masquerade),
      network: pod(
        link(),
        link({
          index: 4,
          name: 'k6t-eth0',
          kind: 'bridge',
          mac: '02:00:00:00:00:00',
          addresses: [{ ip: '10.0.2.1', prefix: 24 }],
        }),
        link({ index: 5, name: 'tap0', kind: 'tap', master: 'k6t-eth0', multiQueue: false, addresses: [linkLocal] }),
      ),
    },
  ],
  [
    'masquerade, tap of other queues',
    {
      vmi: single(masquerade),
      network: pod(link(), link({ index: 5, name: 'tap0', kind: 'tap', multiQueue: true, addresses: [] })),
    },
  ],
  [
    'masquerade on the link that the controller names',
    {
      vmi: single(masquerade, { status: { interfaces: [{ name: 'default', podInterfaceName: 'ovn-udn1' }] } }),
      network: pod(link(), link({ index: 3, name: 'ovn-udn1', addresses: [{ ip: '10.20.0.9', prefix: 16 }] })),
    },
  ],
  ['masquerade, a main network of Multus', { vmi: vmiWith([masquerade], [main]) }],
  ['bridge, IPv4', { vmi: single({ ...bridge, macAddress: '02:11:22:33:44:55' }) }],
  ['bridge, both families', { vmi: single(bridge), network: dual }],
  [
    'bridge beside masquerade',
    {
      vmi: vmiWith([blueBridge, masquerade], [podNet, blue]),
      network: pod(link(), blueLink),
    },
  ],
  [
    'bridge, numbered names',
    {
      vmi: vmiWith([bridge, blueBridge], [podNet, blue]),
      network: pod(link(), link({ index: 3, name: 'net1', addresses: [] })),
    },
  ],
  [
    'bridge, half done',
    {
      vmi: single(bridge),
      network: pod(
        link({ name: 'eth0-nic', mac: '02:00:00:00:00:99', isUp: false, addresses: [] }),
        link({ index: 4, name: 'k6t-eth0', kind: 'bridge', mac: '02:00:00:00:00:99', isUp: false, addresses: [] }),
      ),
      originals: { default: { index: 2, mac: '0a:58:0a:f4:07:05', mtu: 1440, addresses: [ipv4, linkLocal], routes } },
    },
  ],
  [
    'managed tap of a plug-in',
    {
      vmi: single({ name: 'default', binding: { name: 'mine' } }),
      plugins: { mine: { domainAttachmentType: 'managedTap' } },
      network: dual,
    },
  ],
  ['another plug-in', { vmi: single({ name: 'default', binding: { name: 'mine' } }), plugins: { mine: {} } }],
  [
    'a plug-in without a link',
    {
      vmi: vmiWith([{ name: 'blue', binding: { name: 'mine' } }], [blue]),
      plugins: { mine: {} },
    },
  ],
  ['passt', { vmi: single({ name: 'default', passtBinding: {} }), network: dual }],
  ['SR-IOV', { vmi: vmiWith([{ name: 'blue', sriov: {} }], [blue]) }],
  [
    'a target of a migration, with an interface that is unplugged',
    {
      vmi: vmiWith([masquerade, { ...blueBridge, state: 'absent' }], [podNet, blue]),
      purpose: 'incoming',
      network: pod(link(), blueLink),
    },
  ],
  [
    'plugged into a running guest',
    {
      vmi: vmiWith([masquerade, blueBridge], [podNet, blue], {
        status: {
          interfaces: [
            { name: 'default', infoSource: 'domain' },
            { name: 'blue', infoSource: 'multus-status' },
          ],
        },
      }),
      purpose: 'running',
      network: pod(link(), blueLink),
    },
  ],
  [
    'unplugged from a running guest',
    {
      vmi: vmiWith([masquerade, { ...blueBridge, state: 'absent' }], [podNet, blue], {
        status: {
          interfaces: [
            { name: 'default', infoSource: 'domain' },
            { name: 'blue', infoSource: 'multus-status' },
          ],
        },
      }),
      purpose: 'running',
      network: pod(
        link(),
        link({ index: 6, name: 'k6t-16477688c0e', kind: 'bridge' }),
        link({ index: 7, name: 'tap16477688c0e', kind: 'tap' }),
        link({ index: 8, name: hashed, kind: 'dummy' }),
        link({ index: 3, name: '16477688c0e-nic' }),
      ),
    },
  ],
];

function shown({ commands, settings, rules, dhcp, podInterfaces, originals }: NetworkPlan): string {
  return [
    ...commands.map((line) => `ip ${line}`),
    ...settings.map(({ name, value }) => `${name} = ${value}`),
    ...rules
      .split('\n')
      .filter(Boolean)
      .map((line) => `nft ${line}`),
    ...dhcp.map(({ file, text }) => `${file} ${JSON.stringify(JSON.parse(text))}`),
    ...podInterfaces.map(({ target, podIps }) => `pod IPs of ${target.network.name}: ${podIps.join(' ') || 'none'}`),
    ...Object.entries(originals).map(([name, { index, mac }]) => `kept of ${name}: link ${index}, ${mac}`),
  ].join('\n');
}

test('what is done for each kind of network is as written down', () => {
  const text = situations.map(([title, situation]) => `== ${title}\n${shown(plan(situation))}\n`).join('\n');
  assertGolden('test/unit/agent/vmi/host/network/plan.golden.txt', text);
});

const refused: readonly (readonly [string, Situation, RegExp, string])[] = [
  [
    'a pod without its link',
    { vmi: single(masquerade), network: pod(link({ name: 'lo' })) },
    /pod link \(eth0\) is missing/,
    'POD_NETWORK',
  ],
  [
    'a bridge without a link',
    { vmi: vmiWith([blueBridge], [blue]) },
    /pod link \(pod16477688c0e\) is missing/,
    'POD_NETWORK',
  ],
  [
    'an address without a route',
    { vmi: single(bridge), network: { links: [link()], routes: [] } },
    /no gateway address/,
    'POD_NETWORK',
  ],
  [
    'a binding that is not known',
    { vmi: single({ name: 'default', slirp: {} } as never) },
    /no binding that is known \(it has slirp\)/,
    'CRITICAL_NETWORK',
  ],
  [
    'two interfaces of one name',
    { vmi: vmiWith([masquerade, bridge], [podNet]) },
    /two interfaces are called default/,
    'CRITICAL_NETWORK',
  ],
  [
    'two networks of one name',
    { vmi: vmiWith([masquerade], [podNet, podNet]) },
    /two networks are called default/,
    'CRITICAL_NETWORK',
  ],
  [
    'a network without an interface',
    { vmi: vmiWith([masquerade], [podNet, blue]) },
    /no iface matching with network blue/,
    'CRITICAL_NETWORK',
  ],
  [
    'two networks on one link',
    {
      vmi: vmiWith([masquerade, { name: 'blue', bridge: {} }], [podNet, blue], {
        status: { interfaces: [{ name: 'default', podInterfaceName: hashed }] },
      }),
      network: pod(blueLink),
    },
    /have the same link pod16477688c0e/,
    'CRITICAL_NETWORK',
  ],
  [
    'a name that is none',
    {
      vmi: single(masquerade, { status: { interfaces: [{ name: 'default', podInterfaceName: 'x up\nlink' }] } }),
    },
    /is no name of a link/,
    'CRITICAL_NETWORK',
  ],
  [
    'a name with an option',
    {
      vmi: single(masquerade, { status: { interfaces: [{ name: 'default', podInterfaceName: '-force' }] } }),
    },
    /is no name of a link/,
    'CRITICAL_NETWORK',
  ],
  [
    'a network that is too small',
    { vmi: vmiWith([masquerade], [{ name: 'default', pod: { vmNetworkCIDR: '10.0.2.0/31' } }]) },
    /too small/,
    'CRITICAL_NETWORK',
  ],
  [
    'a network of the other family',
    { vmi: vmiWith([masquerade], [{ name: 'default', pod: { vmNetworkCIDR: 'fd00::/64' } }]) },
    /no network like 10\.0\.2\.0\/24/,
    'CRITICAL_NETWORK',
  ],
  [
    'a network that is none',
    { vmi: vmiWith([masquerade], [{ name: 'default', pod: { vmNetworkCIDR: '10.0.2.0; flush' } }]) },
    /no network like/,
    'CRITICAL_NETWORK',
  ],
  [
    'a port that is none',
    { vmi: single({ ...masquerade, ports: [{ port: 70_000 }] }) },
    /70000 is no port/,
    'CRITICAL_NETWORK',
  ],
  [
    'a protocol that is none',
    { vmi: single({ ...masquerade, ports: [{ protocol: 'x; flush ruleset', port: 1 }] }) },
    /no protocol/,
    'CRITICAL_NETWORK',
  ],
  [
    'a MAC address that is none',
    { vmi: single({ ...bridge, macAddress: 'nonsense' }) },
    /no MAC address/,
    'CRITICAL_NETWORK',
  ],
  [
    'a link of another kind in the place of the bridge',
    {
      vmi: single(masquerade),
      network: pod(link(), link({ index: 3, name: 'k6t-eth0', kind: 'vlan' })),
    },
    /type collision on link k6t-eth0: actual vlan, requested bridge/,
    'CRITICAL_NETWORK',
  ],
];

for (const [title, situation, words, code] of refused) {
  test(`refused in words: ${title}`, () => {
    assert.throws(
      () => plan(situation),
      (error: Error & { code?: string }) => words.test(error.message) && error.code === code,
    );
  });
}
