import assert from 'node:assert/strict';
import { test } from 'node:test';
import { podLinkNames } from '../../../../../../src/agent/vmi/host/network/names.ts';
import { type NetworkPlan, planNetwork } from '../../../../../../src/agent/vmi/host/network/plan.ts';
import type { PodLink } from '../../../../../../src/agent/vmi/host/network/pod-links.ts';
import { targetsOf } from '../../../../../../src/agent/vmi/host/network/targets.ts';
import { vmiWith } from '../../../../../fixtures/pod-network.ts';

/** Whatever texts and numbers a VMI has where the API server would not let them in: nothing of them becomes a word for `ip` or `nft`. */

const texts: readonly string[] = [
  'x\nlink delete dev eth0',
  'x; flush ruleset',
  '" counter accept comment "x',
  "x' up",
  '$(id)',
  '`id`',
  '\\\nflush ruleset',
  '# x',
  'eth0 master k6t-eth0',
  '10.0.2.0/24\nflush ruleset',
  '10.0.2.0/24 up',
  'fd10::/120%eth0',
  '10.0.2.0/٢٤',
  '02:00:00:00:00:01\nup',
  '-all',
  '../../net/ipv4/ip_forward',
  '..',
  '',
  'ｅｔｈ０',
  'x\u2028y',
  'x\0y',
  '}',
  'tcp dport 1 accept; tcp',
  'a'.repeat(100_000),
];
const oddities: readonly unknown[] = [
  ...texts,
  -1,
  1e300,
  Number.NaN,
  0.5,
  65_536,
  true,
  null,
  [],
  ['x\ny'],
  {},
  { toString: 'x' },
];

const mac = '0a:58:0a:f4:07:05';
const link = (index: number, name: string): PodLink => {
  const addresses = [
    { ip: '10.244.7.5', prefix: 24 },
    { ip: 'fd00:7::5', prefix: 64 },
  ];
  return { index, name, kind: 'veth', mac, mtu: 1440, isUp: true, addresses };
};

/** A VMI with one odd value in it. */
type Place = (odd: never) => { readonly iface?: object; readonly network?: object; readonly more?: object };

const places: Readonly<Record<string, Place>> = {
  'the name of interface and network': (name) => ({ iface: { name }, network: { name } }),
  'the name of a network': (name) => ({ network: { name } }),
  'a MAC address': (macAddress) => ({ iface: { macAddress } }),
  'a model': (model) => ({ iface: { model } }),
  'a state': (state) => ({ iface: { state } }),
  ports: (ports) => ({ iface: { ports } }),
  'a port': (port) => ({ iface: { ports: [{ port }] } }),
  'a protocol': (protocol) => ({ iface: { ports: [{ protocol, port: 80 }] } }),
  'the name of a port': (name) => ({ iface: { ports: [{ name, port: 80 }] } }),
  'the start of a range': (start) => ({ iface: { portRanges: [{ protocol: 'TCP', start, end: 90 }] } }),
  'the end of a range': (end) => ({ iface: { portRanges: [{ protocol: 'TCP', start: 80, end }] } }),
  'the protocol of a range': (protocol) => ({ iface: { portRanges: [{ protocol, start: 80, end: 90 }] } }),
  'a CIDR': (vmNetworkCIDR) => ({ network: { pod: { vmNetworkCIDR } } }),
  'an IPv6 CIDR': (vmIPv6NetworkCIDR) => ({ network: { pod: { vmIPv6NetworkCIDR } } }),
  'the name of a Multus network': (networkName) => ({ network: { pod: undefined, multus: { networkName } } }),
  'a name of a link in the status': (podInterfaceName) => ({
    more: { status: { interfaces: [{ name: 'default', podInterfaceName }] } },
  }),
  'a MAC address in the status': (given) => ({ more: { status: { interfaces: [{ name: 'default', mac: given }] } } }),
  'queues in the status': (queueCount) => ({
    more: { status: { interfaces: [{ name: 'default', infoSource: 'domain', queueCount }] } },
  }),
  'a way of migrating': (migrationTransport) => ({ more: { status: { migrationTransport } } }),
  'DHCP options': (value) => ({
    iface: { dhcpOptions: { bootFileName: value, privateOptions: [{ option: 240, value }] } },
  }),
};

const bindings = { masquerade: { masquerade: {} }, bridge: { bridge: {} }, plugin: { binding: { name: 'tap' } } };

/** Words as this agent makes them; a name of a link is one that no tool reads as anything else. */
const name = '[A-Za-z0-9_][A-Za-z0-9_.-]{0,14}';
const ip = '[0-9a-f.:]+';
const commandLines = new RegExp(
  [
    `link add name ${name} address [0-9a-f:]{17}( mtu \\d+)? type (bridge|dummy)`,
    `tuntap add dev ${name} mode tap user \\d+ group \\d+( multi_queue)?`,
    `link set dev ${name}( address [0-9a-f:]{17})?( mtu \\d+)?( master ${name})?`,
    `link set dev ${name} (up|down|name ${name}|type bridge_slave learning off)`,
    `address (add|delete) ${ip}/\\d+( broadcast \\+)? dev ${name}`,
    `address flush dev ${name}`,
  ]
    .map((line) => `^${line}$`)
    .join('|'),
);
const set = `\\{ [0-9a-f.:]+(, [0-9a-f.:]+)* \\}`;
const chain = '(prerouting|input|output|postrouting|KUBEVIRT_PREINBOUND|KUBEVIRT_POSTINBOUND)';
const ports = '(\\d+(-\\d+)?|\\{ \\d+(, \\d+)* \\})';
const verdict = `(masquerade|return|jump ${chain}|(dnat|snat) to ${ip})`;
const match = `(ip6? [sd]addr (${ip}|${set})|(tcp|udp|sctp) dport ${ports}|(iifname|oifname) "${name}")`;
const ruleLines = new RegExp(
  [
    'add table ip6? nat',
    `add chain ip6? nat ${chain}( \\{ type nat hook [a-z]+ priority -?100; \\})?`,
    `flush chain ip6? nat ${chain}`,
    `add rule ip6? nat ${chain}( ${match})* counter ${verdict}`,
  ]
    .map((line) => `^${line}$`)
    .join('|'),
);

function planOf(binding: object, place: Place, odd: unknown): NetworkPlan | undefined {
  const { iface, network, more } = place(odd as never);
  const vmi = vmiWith(
    [{ name: 'default', ...binding, ...iface } as never],
    [{ name: 'default', pod: {}, ...network } as never],
    more as never,
  );
  try {
    const podLinks = new Set(['eth0', ...podLinkNames(vmi, []).values()]);
    const links = [...podLinks].map((each, at) => link(at + 2, each));
    const routes = [{ destination: 'default', gateway: '10.244.7.1', link: links.at(-1)?.name ?? '' }];
    const config = { networkBindings: { tap: { domainAttachmentType: 'managedTap' } }, portRanges: true };
    return planNetwork({
      vmi,
      config,
      ...targetsOf(vmi, 'start'),
      network: { links, routes },
      originals: {},
      podIp: '',
      owner: 107,
    });
  } catch (error) {
    // Refused, in whatever words: nothing was done.
    assert.ok(error instanceof Error);
    return undefined;
  }
}

test('the words are told: a plan of usual values has nothing else in it, and the checks see what is foreign', () => {
  for (const binding of Object.values(bindings)) {
    const plan = planOf(binding, () => ({ iface: { ports: [{ port: 80 }] } }), undefined);
    assert.ok(plan && plan.commands.length > 3);
  }
  assert.doesNotMatch('link set dev x\nlink delete dev eth0', commandLines);
  assert.doesNotMatch('add rule ip nat output tcp dport 1 accept; tcp dport 2 counter return', ruleLines);
});

for (const [binding, given] of Object.entries(bindings)) {
  test(`${binding}: no value of a VMI becomes a word for ip or nft, or a path`, () => {
    let plans = 0;
    for (const [what, place] of Object.entries(places)) {
      for (const odd of oddities) {
        const plan = planOf(given, place, odd);
        if (!plan) continue;
        plans++;
        const shown = `${what}: ${JSON.stringify(odd)?.slice(0, 60)}`;
        for (const line of plan.commands) assert.match(line, commandLines, shown);
        for (const line of plan.rules.split('\n').slice(0, -1)) assert.match(line, ruleLines, shown);
        for (const each of plan.settings)
          assert.match(`${each.name}=${each.value}`, /^net\/ipv[46](\/[\w.-]+)+=1$/, shown);
        for (const { file } of plan.dhcp) assert.match(file, /^vif-cache-[A-Za-z0-9_][\w.-]{0,14}\.json$/, shown);
      }
    }
    assert.ok(plans > 100);
  });
}
