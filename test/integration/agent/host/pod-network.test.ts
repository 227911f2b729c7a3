import assert from 'node:assert/strict';
import { readFileSync, statSync } from 'node:fs';
import { suite, type TestContext, test } from 'node:test';
import type { Interface, Network } from '../../../../src/api/index.ts';
import { uid } from '../../../fixtures/agent/builders.ts';
import { type FakePod, type FakePodOptions, fakePod, withoutPods } from '../../../fixtures/pod-namespace.ts';
import {
  cachesOf,
  disk,
  Killed,
  linksOf,
  masqueraded,
  podNet,
  rulesetOf,
  Steps,
  setUpBy,
  vmiWith,
  withoutDummy,
} from '../../../fixtures/pod-network.ts';

/** The pod network in real network namespaces, with the machine's own `ip` and `nft`. */

const dual: FakePodOptions = {
  addresses: ['10.244.7.5/24', 'fd00:7::5/64'],
  gateways: ['10.244.7.1', 'fd00:7::1'],
};
const onlyIpv6: FakePodOptions = { addresses: ['fd00:7::5/64'], gateways: ['fd00:7::1'] };

/** What upstream runs, a process each, for the family of a pod (pkg/network/setup/netpod/masquerade/masquerade.go). */
interface Upstream {
  readonly ports?: readonly { readonly protocol?: string; readonly port: number }[];
  readonly ranges?: readonly { readonly protocol: string; readonly start: number; readonly end: number }[];
  readonly istio?: boolean;
  readonly unix?: boolean;
}

function upstreamCommands(family: 'ip' | 'ip6', { ports = [], ranges = [], istio, unix }: Upstream): string[] {
  const [guest, gateway, loop] =
    family === 'ip' ? ['10.0.2.2', '10.0.2.1', '127.0.0.1'] : ['fd10:0:2::2', 'fd10:0:2::1', '::1'];
  const isProxied = istio && family === 'ip';
  const sources = isProxied ? `{ ${loop}, 127.0.0.6 }` : `{ ${loop} }`;
  const destinations = isProxied ? `{ ${loop}, 10.244.7.5 }` : `{ ${loop} }`;
  const chain = (name: string, spec: string) => `chain ${family} nat ${name} ${spec}`;
  const rule = (text: string) => `rule ${family} nat ${text}`;
  const passed = (list: string) =>
    ['output', 'KUBEVIRT_POSTINBOUND'].map((name) =>
      rule(`${name} tcp dport { ${list} } ${family} saddr ${loop} counter return`),
    );
  const toPort = (protocol: string, text: string, inbound: string, hasSsh: boolean) => [
    ...(istio
      ? hasSsh
        ? [rule(`KUBEVIRT_PREINBOUND tcp dport { 22 } counter dnat to ${guest}`)]
        : []
      : [rule(`KUBEVIRT_PREINBOUND ${protocol} dport ${inbound} counter dnat to ${guest}`)]),
    rule(`KUBEVIRT_POSTINBOUND ${protocol} dport ${text} ${family} saddr ${sources} counter snat to ${gateway}`),
    rule(`output ${family} daddr ${destinations} ${protocol} dport ${text} counter dnat to ${guest}`),
  ];
  const all = [
    ...(istio
      ? [
          ...passed('15000, 15001, 15004, 15006, 15008, 15009, 15020, 15021, 15053, 15090'),
          rule(`KUBEVIRT_PREINBOUND tcp dport { 22 } counter dnat to ${guest}`),
        ]
      : [rule(`KUBEVIRT_PREINBOUND counter dnat to ${guest}`)]),
    rule(`KUBEVIRT_POSTINBOUND ${family} saddr ${sources} counter snat to ${gateway}`),
    rule(`output ${family} daddr ${destinations} counter dnat to ${guest}`),
  ];
  return [
    `table ${family} nat`,
    chain('prerouting', '{ type nat hook prerouting priority -100; }'),
    chain('input', '{ type nat hook input priority 100; }'),
    chain('output', '{ type nat hook output priority -100; }'),
    chain('postrouting', '{ type nat hook postrouting priority 100; }'),
    chain('KUBEVIRT_PREINBOUND', ''),
    chain('KUBEVIRT_POSTINBOUND', ''),
    rule(`postrouting ${family} saddr ${guest} counter masquerade`),
    rule('prerouting iifname eth0 counter jump KUBEVIRT_PREINBOUND'),
    rule('postrouting oifname k6t-eth0 counter jump KUBEVIRT_POSTINBOUND'),
    ...(unix ? [] : passed('49152, 49153')),
    ...ports.flatMap(({ protocol = 'TCP', port }) =>
      toPort(protocol.toLowerCase(), String(port), `{ ${port} }`, port === 22),
    ),
    ...ranges.flatMap(({ protocol, start, end }) =>
      toPort(protocol.toLowerCase(), `${start}-${end}`, `${start}-${end}`, start <= 22 && end >= 22),
    ),
    ...(ports.length + ranges.length > 0 ? [] : all),
  ];
}

async function upstreamRuleset(t: TestContext, families: readonly ('ip' | 'ip6')[], upstream: Upstream) {
  const pod = await fakePod(t, { withoutLink: true });
  for (const family of families)
    for (const command of upstreamCommands(family, upstream))
      pod.run('nft', 'add', ...command.split(' ').filter(Boolean));
  return rulesetOf(pod);
}

const portsOf: Upstream['ports'] = [{ port: 80 }, { protocol: 'UDP', port: 53 }, { protocol: 'TCP', port: 22 }];
const ranges: Upstream['ranges'] = [
  { protocol: 'TCP', start: 20, end: 25 },
  { protocol: 'UDP', start: 5000, end: 6000 },
];
const cases: readonly (readonly [string, FakePodOptions, Upstream])[] = [
  ['all ports, IPv4', {}, {}],
  ['all ports, IPv6', onlyIpv6, {}],
  ['all ports, both families', dual, {}],
  ['some ports', dual, { ports: portsOf }],
  ['ranges of ports', dual, { ranges }],
  ['Istio', dual, { istio: true }],
  ['Istio with ports', dual, { istio: true, ports: portsOf }],
  ['Istio with ranges', {}, { istio: true, ranges }],
  ['migration by unix sockets', {}, { unix: true, ports: portsOf }],
];

suite('the pod network with masquerade', { skip: withoutPods }, () => {
  for (const [title, options, upstream] of cases) {
    test(`${title}: the ruleset is upstream's, rule by rule`, async (t) => {
      const pod = await fakePod(t, options);
      const iface = {
        ...masqueraded,
        ...(upstream.ports && { ports: [...upstream.ports] }),
        ...(upstream.ranges && { portRanges: [...upstream.ranges] }),
      };
      const vmi = vmiWith([iface], [podNet], {
        ...(upstream.unix && { status: { migrationTransport: 'Unix' } }),
      });
      if (upstream.istio) vmi.metadata.annotations = { 'sidecar.istio.io/inject': 'True' };
      await setUpBy(disk(t), pod, vmi, { config: { portRanges: true } });
      const families = (['ip', 'ip6'] as const).filter((family) =>
        (options.addresses ?? ['10.244.7.5/24']).some((address) => address.includes(':') === (family === 'ip6')),
      );
      assert.deepEqual(rulesetOf(pod), await upstreamRuleset(t, families, upstream));
    });
  }

  test('links, settings and files are as upstream leaves them', async (t) => {
    const [pod, own] = [await fakePod(t, dual), disk(t)];
    const { result } = await setUpBy(own, pod, vmiWith([masqueraded], [podNet]));
    assert.deepEqual(result, { kind: 'done', facts: { taps: ['default'] }, summary: 'default' });
    const { 'k6t-eth0': bridge, tap0, eth0 } = linksOf(pod);
    const plain = { mtu: 1440, isUp: true, master: undefined, learning: undefined };
    const addresses = ['10.0.2.1/24', 'fd10:0:2::1/120'];
    assert.deepEqual(bridge, { ...plain, kind: 'bridge', address: '02:00:00:00:00:00', addresses });
    const { address, ...tap } = tap0 as { address: string };
    assert.deepEqual(tap, { ...plain, kind: 'tun', master: 'k6t-eth0', learning: true, addresses: [] });
    assert.notEqual(address, '');
    assert.deepEqual((eth0 as { addresses: unknown }).addresses, ['10.244.7.5/24', 'fd00:7::5/64']);
    const settings = ['ipv4/ip_forward', 'ipv6/conf/all/forwarding', 'ipv4/conf/k6t-eth0/route_localnet'];
    for (const name of settings) assert.equal(pod.run('cat', `/proc/sys/net/${name}`), '1\n', name);
    const found = { iface: masqueraded, podIP: '10.244.7.5', podIPs: ['10.244.7.5', 'fd00:7::5'], networkState: 2 };
    assert.deepEqual(cachesOf(own, uid), { default: found });
    const file = statSync(`${own.privateDir}/network-info-cache/${uid}/default`);
    assert.deepEqual([file.mode & 0o777, file.uid, file.gid], [0o604, 107, 107]);
    assert.equal(statSync(`${own.privateDir}/network-info-cache/${uid}`).mode & 0o777, 0o750);
  });

  test('in a cluster whose first family is IPv6, that address is the main one', async (t) => {
    const [pod, own] = [await fakePod(t, dual), disk(t)];
    await setUpBy(own, pod, vmiWith([masqueraded], [podNet]), { podIp: 'fd00::1' });
    const { podIP, podIPs } = cachesOf(own, uid).default as { podIP: string; podIPs: string[] };
    assert.deepEqual([podIP, podIPs], ['fd00:7::5', ['fd00:7::5', '10.244.7.5']]);
  });

  test('other networks for the guest, a queue per vCPU, root as owner', async (t) => {
    const pod = await fakePod(t, dual);
    const network: Network = {
      name: 'default',
      pod: { vmNetworkCIDR: '192.0.2.77/28', vmIPv6NetworkCIDR: 'fd99::/64' },
    };
    const vmi = vmiWith([masqueraded], [network], {
      devices: { networkInterfaceMultiqueue: true },
      status: { runtimeUser: 0 },
    });
    vmi.spec.domain.cpu = { sockets: 2, cores: 2 };
    await setUpBy(disk(t), pod, vmi);
    assert.deepEqual((linksOf(pod)['k6t-eth0'] as { addresses: unknown }).addresses, ['192.0.2.65/28', 'fd99::1/64']);
    const [tap] = JSON.parse(pod.ip('-j', '-d', 'link', 'show', 'tap0'));
    assert.equal(tap.linkinfo.info_data.multi_queue, true);
    assert.match(pod.ip('tuntap', 'show'), /tap0: tap.* multi_queue persist user 0 group 0/);
    assert.match(JSON.stringify(rulesetOf(pod)), /192\.0\.2\.66/);
  });

  test('the tap device is for the user qemu alone', async (t) => {
    const pod = await fakePod(t);
    await setUpBy(disk(t), pod, vmiWith([masqueraded], [podNet]));
    assert.equal(attachTap(pod, 107), 'attached');
    assert.match(attachTap(pod, 108), /not permitted/i);
  });

  test('a foreign table of the same name keeps its own chains', async (t) => {
    const pod = await fakePod(t);
    pod.run('nft', 'add table ip nat; add chain ip nat ISTIO; add rule ip nat ISTIO counter accept');
    await setUpBy(disk(t), pod, vmiWith([masqueraded], [podNet]));
    assert.match(pod.run('nft', 'list', 'ruleset'), /chain ISTIO \{\s+counter packets 0 bytes 0 accept/);
  });
});

/** As QEMU does with libvirt's descriptor: opened for it, taken into use by its own user. */
function attachTap(pod: FakePod, user: number): string {
  const script = `use POSIX; open(my $f, '+<', '/dev/net/tun') or die; POSIX::setgid(${user}); POSIX::setuid(${user});
    my $request = pack('a16 S x64', 'tap0', 0x5002); print ioctl($f, 0x400454ca, $request) ? 'attached' : "$!";`;
  return pod.run('perl', '-e', script);
}

const bridged: Interface = { name: 'default', bridge: {}, macAddress: '02-11-22-33-44-55' };
const second: Interface = { name: 'blue', bridge: {} };
const blue: Network = { name: 'blue', multus: { networkName: 'blue' } };
/** `pod` and the start of the SHA-256 of `blue`. */
const blueLink = 'pod16477688c0e';

suite('the pod network with bridges', { skip: withoutDummy }, () => {
  const withBlue: FakePodOptions = { ...dual, links: [{ name: blueLink, addresses: [] }] };

  test('the pod’s link is a port of the bridge, and another one has its name and addresses', async (t) => {
    const [pod, own] = [await fakePod(t, withBlue), disk(t)];
    const before = linksOf(pod);
    await setUpBy(own, pod, vmiWith([bridged, second], [podNet, blue]));
    const after = linksOf(pod) as Record<string, Record<string, unknown>>;
    const names = ['16477688c0e-nic', 'eth0', 'eth0-nic', 'k6t-16477688c0e', 'k6t-eth0', 'lo', blueLink, 'tap0'];
    assert.deepEqual(Object.keys(after).sort(), [...names, 'tap16477688c0e'].sort());
    const { address, mtu, addresses } = before.eth0 as Record<string, unknown>;
    const dummy = { kind: 'dummy', mtu, address, master: undefined, isUp: false, learning: undefined };
    assert.deepEqual(after.eth0, { ...dummy, addresses });
    const nic = after['eth0-nic'];
    const bridge = after['k6t-eth0'];
    assert.deepEqual([nic?.master, nic?.learning, nic?.isUp, nic?.addresses], ['k6t-eth0', false, true, []]);
    assert.equal(nic?.address, bridge?.address);
    assert.notEqual(nic?.address, address);
    assert.deepEqual(bridge?.addresses, ['169.254.75.10/32']);
    assert.deepEqual(after['k6t-16477688c0e']?.addresses, []);
    assert.equal(pod.run('cat', '/proc/sys/net/ipv4/conf/all/arp_ignore'), '1\n');
    assert.deepEqual(rulesetOf(pod), []);
    const cache = cachesOf(own, uid);
    assert.deepEqual(cache, {
      default: { iface: bridged, podIP: '10.244.7.5', podIPs: ['10.244.7.5'], networkState: 2 },
      blue: { networkState: 2 },
    });
  });

  test('the launcher’s DHCP server reads what it has to tell', async (t) => {
    const pod = await fakePod(t, withBlue);
    pod.ip('route', 'add', '192.0.2.0/24', 'via', '10.244.7.9', 'dev', 'eth0');
    await setUpBy(disk(t), pod, vmiWith([bridged, second], [podNet, blue]));
    const read = (name: string) => {
      const file = `/proc/${pod.pid}/root/run/kubevirt-private/vif-cache-${name}.json`;
      assert.deepEqual([statSync(file).mode & 0o777, statSync(file).uid], [0o604, 107]);
      return JSON.parse(readFileSync(file, 'utf8'));
    };
    const { IP, MAC, Gateway, Routes, IPAMDisabled } = read('eth0');
    assert.deepEqual(
      [IP.IP, IP.Mask, MAC],
      ['10.244.7.5', '////AA==', Buffer.from('021122334455', 'hex').toString('base64')],
    );
    assert.deepEqual([Gateway, IPAMDisabled], ['10.244.7.1', false]);
    assert.deepEqual(Routes, [
      { Dst: null, Gw: '10.244.7.1' },
      { Dst: { IP: '192.0.2.0', Mask: '////AA==' }, Gw: '10.244.7.9' },
    ]);
    const { IP: none, IPAMDisabled: isDisabled } = read(blueLink);
    assert.deepEqual([none.IP, isDisabled], [undefined, true]);
  });

  test('a binding plug-in with a managed tap has a bridge without an address', async (t) => {
    const pod = await fakePod(t, dual);
    const networkBindings = { mine: { domainAttachmentType: 'managedTap' } };
    const iface: Interface = { name: 'default', binding: { name: 'mine' } };
    const { result } = await setUpBy(disk(t), pod, vmiWith([iface], [podNet]), { config: { networkBindings } });
    assert.deepEqual(result?.kind === 'done' && result.facts, { taps: ['default'] });
    const { 'k6t-eth0': bridge, tap0 } = linksOf(pod) as Record<string, { addresses: unknown; master: unknown }>;
    assert.deepEqual([bridge?.addresses, tap0?.master], [[], 'k6t-eth0']);
    assert.throws(() => statSync(`/proc/${pod.pid}/root/run/kubevirt-private/vif-cache-eth0.json`), /ENOENT/);
  });

  test('a link is plugged into a running guest’s pod, and unplugged again', async (t) => {
    const [pod, own] = [await fakePod(t, withBlue), disk(t)];
    const inDomain = { name: 'default', infoSource: 'domain, multus-status' };
    await setUpBy(own, pod, vmiWith([masqueraded], [podNet]));
    const before = linksOf(pod);
    const both = [inDomain, { name: 'blue', infoSource: 'multus-status' }];
    const plugged = vmiWith([masqueraded, second], [podNet, blue], { status: { interfaces: both } });
    await setUpBy(own, pod, plugged, { purpose: 'running' });
    assert.equal(Object.keys(linksOf(pod)).length, Object.keys(before).length + 3);
    assert.deepEqual(Object.keys(cachesOf(own, uid)).sort(), ['blue', 'default']);
    const gone = vmiWith([masqueraded, { ...second, state: 'absent' }], [podNet, blue], {
      status: { interfaces: both },
    });
    const { result } = await setUpBy(own, pod, gone, { purpose: 'running' });
    assert.deepEqual(result?.kind === 'done' && [result.facts, result.summary], [
      { taps: ['default'] },
      'without blue',
    ]);
    assert.deepEqual(Object.keys(cachesOf(own, uid)), ['default']);
    // The link itself is the CNI plug-in's to take away.
    assert.deepEqual(Object.keys(linksOf(pod)).sort(), ['16477688c0e-nic', 'eth0', 'k6t-eth0', 'lo', 'tap0']);
    assert.throws(() => statSync(`/proc/${pod.pid}/root/run/kubevirt-private/vif-cache-${blueLink}.json`), /ENOENT/);
  });
});

async function endState(t: TestContext, interfaces: readonly Interface[], options: FakePodOptions, lives: number) {
  const [pod, own] = [await fakePod(t, options), disk(t)];
  const networks = interfaces.map(({ name }) => (name === 'default' ? podNet : blue));
  const vmi = vmiWith(interfaces, networks);
  const steps = new Steps(lives);
  const killed = await setUpBy(own, pod, vmi, { steps }).then(
    () => false,
    (error: unknown) => error instanceof Killed,
  );
  if (killed) await setUpBy(own, pod, vmi);
  const links = linksOf(pod) as Record<string, Record<string, unknown>>;
  // Made anew in each pod.
  const random = [
    'k6t-eth0',
    'k6t-16477688c0e',
    'eth0-nic',
    '16477688c0e-nic',
    'tap0',
    'tap16477688c0e',
    'eth0',
    blueLink,
  ];
  const isOne = links['eth0-nic']?.address === links['k6t-eth0']?.address || !links['eth0-nic'];
  for (const name of random) if (links[name]) delete links[name].address;
  const settings = pod.run('cat', '/proc/sys/net/ipv4/ip_forward', '/proc/sys/net/ipv4/conf/all/arp_ignore');
  const vif = interfaces.some(({ bridge }) => bridge) ? vifCache(pod) : undefined;
  return { end: { links, isOne, rules: rulesetOf(pod), settings, caches: cachesOf(own, uid), vif }, steps, killed };
}

function vifCache(pod: FakePod): unknown {
  const text = readFileSync(`/proc/${pod.pid}/root/run/kubevirt-private/vif-cache-eth0.json`, 'utf8');
  return JSON.parse(text);
}

async function killAnywhere(t: TestContext, interfaces: readonly Interface[], options: FakePodOptions) {
  const whole = await endState(t, interfaces, options, Number.POSITIVE_INFINITY);
  const count = whole.steps.taken.length;
  assert.ok(count >= 8, whole.steps.taken.join('\n'));
  for (let lives = 0; lives < count; lives++) {
    const { end, killed } = await endState(t, interfaces, options, lives);
    assert.equal(killed, true);
    assert.deepEqual(end, whole.end, `killed before ${whole.steps.taken[lives]}`);
  }
}

suite('an agent that is killed while it sets a pod up', { skip: withoutPods }, () => {
  test('masquerade: between any two steps, the next one brings about the same', async (t) => {
    await killAnywhere(t, [masqueraded], dual);
  });

  test('bridges: between any two steps, the next one brings about the same', { skip: withoutDummy }, async (t) => {
    const iface = { ...bridged, macAddress: '02:11:22:33:44:55' };
    await killAnywhere(t, [iface, second], { ...dual, links: [{ name: blueLink, addresses: [] }] });
  });
});
