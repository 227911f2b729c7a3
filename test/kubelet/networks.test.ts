import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import type { Server } from 'node:net';
import { after, before, test } from 'node:test';
import { getAddressByDhcp6, serveDhcp6Client } from './dhcp6-client.ts';
import { provideDummyLinks } from './dummy-links.ts';
import { agentKilled, askedByPod, guestKernel, launcherPod, schedulable, startOf, timed, userData } from './guests.ts';
import { InstalledCluster } from './installation.ts';
import type { NodeMachine } from './node-machine.ts';

/**
 * Networks beyond that of an ordinary VM: addresses of both families, a guest that takes over the pod's address, a second network by
 * Multus, a third one while the guest runs. The tests are one story: each begins where the one before it ended.
 */

const overlay = 'daemonset/overlays/tight-rights';
let cluster: InstalledCluster;
let machine: NodeMachine;
let clientServer: Server;

/** A bridge of the node without addresses: those are the guests' own business. */
const bridgeWithoutAddresses = (bridge: string) => ({ cniVersion: '1.0.0', name: bridge, type: 'bridge', bridge });

/** Kubernetes' standard for further networks (k8snetworkplumbingwg/multi-net-spec). */
function defineNetworks(): void {
  const names = { plural: 'network-attachment-definitions', kind: 'NetworkAttachmentDefinition' };
  const text = { type: 'string' };
  const spec = { type: 'object', properties: { config: text } };
  const schema = { openAPIV3Schema: { type: 'object', properties: { spec } } };
  const group = 'k8s.cni.cncf.io';
  machine.create({
    apiVersion: 'apiextensions.k8s.io/v1',
    kind: 'CustomResourceDefinition',
    metadata: { name: `${names.plural}.${group}` },
    spec: { group, names, scope: 'Namespaced', versions: [{ name: 'v1', served: true, storage: true, schema }] },
  });
  machine.api.kubectl('wait', '--for=condition=Established', 'crd', `${names.plural}.${group}`, '--timeout=30s');
  machine.create({
    apiVersion: `${group}/v1`,
    kind: names.kind,
    metadata: { name: 'blue' },
    spec: { config: JSON.stringify(bridgeWithoutAddresses('blue0')) },
  });
}

/** Of the pod's link, by upstream's pkg/network/namescheme. */
const podLinkOf = (network: string) => `pod${createHash('sha256').update(network).digest('hex').slice(0, 11)}`;

before(async () => {
  cluster = await InstalledCluster.start({ overlay, disabledFeatureGates: ['ImageVolume'], podNetworks: 'multus' });
  machine = cluster.machine;
  provideDummyLinks(machine);
  defineNetworks();
  clientServer = await serveDhcp6Client(process.env.KUBELET_MACHINE ?? '');
});
after(async () => {
  clientServer?.close();
  await cluster?.stop();
});

const whenAsked = `ip address
ip route
ip -6 route
case $QUERY_STRING in
peer=*) echo "peer $(printf 'GET /cgi-bin/guest HTTP/1.0\\r\\n\\r\\n' | nc -w 5 \${QUERY_STRING#peer=} 8080 | grep ^started)" ;;
dhcp6) cat /tmp/dhclient.log ;;
green) ip link set eth2 up; ip address replace 10.98.0.1/24 dev eth2 ;;
esac
`;

const blue = { network: { name: 'blue', multus: { networkName: 'blue' } }, iface: { name: 'blue', bridge: {} } };
const green = { network: { name: 'green', multus: { networkName: 'green' } }, iface: { name: 'green', bridge: {} } };

/** Its CPU is emulated: it boots as slowly as the machine is busy. */
const bootedMs = 240_000;

interface Guest {
  readonly name: string;
  readonly binding: 'masquerade' | 'bridge';
  readonly atBoot: string;
}

function start({ name, binding, atBoot }: Guest): void {
  const seed = { name: 'seed', cloudInitNoCloud: { userData: userData({ atBoot, whenAsked }) } };
  const devices = {
    interfaces: [{ name: 'default', [binding]: {} }, blue.iface],
    disks: [{ name: 'seed', disk: { bus: 'virtio' } }],
  };
  const domain = { resources: { requests: { memory: '192Mi' } }, firmware: { kernelBoot: guestKernel }, devices };
  const networks = [{ name: 'default', pod: {} }, blue.network];
  machine.create({
    apiVersion: 'kubevirt.io/v1',
    kind: 'VirtualMachineInstance',
    metadata: { name },
    spec: { domain, networks, volumes: [seed], terminationGracePeriodSeconds: 1 },
  });
}

const ofMasquerade = `${getAddressByDhcp6}ip link set eth1 up
ip address add 10.99.0.1/24 dev eth1
`;
const ofBridge = `ip link set eth1 up
ip address add 10.99.0.2/24 dev eth1
`;

const interfaceOf = (vmi: string, name: string) =>
  machine.get('vmi', vmi).status.interfaces?.find((each: { name: string }) => each.name === name);
const networksKey = 'k8s.v1.cni.cncf.io/networks';
const statusKey = 'k8s.v1.cni.cncf.io/network-status';

/** Links that a pod is to have, by its annotation, and those that Multus reports of it. */
const linksIn = (vmi: string, annotation: string): string[] => {
  const text = launcherPod(machine, vmi).metadata.annotations[annotation];
  return JSON.parse(text).map((link: { interface: string }) => link.interface);
};

const podIps = (vmi: string): string[] => launcherPod(machine, vmi).status.podIPs.map(({ ip }: { ip: string }) => ip);
const isIpv6 = (address: string) => address.includes(':');
const runs = (name: string) => {
  const { status } = machine.get('vmi', name);
  assert.equal(status?.phase, 'Running', JSON.stringify(status));
};

let [v4 = '', v6 = '', bridged = ''] = [];
let [startOfDual, startOfBridged] = ['', ''];

test('a VM with masquerade has the addresses of both families of its pod', async (t) => {
  await schedulable(machine);
  start({ name: 'dual', binding: 'masquerade', atBoot: ofMasquerade });
  await timed(t, 'runs', () => runs('dual'));
  const addresses = podIps('dual');
  [v4 = '', v6 = ''] = [addresses.find((each) => !isIpv6(each)), addresses.find(isIpv6)];
  assert.match(v4, /^10\.85\.0\.\d+$/);
  assert.match(v6, /^fd00:85::[\da-f]+$/);
  await timed(t, 'its addresses are in the status', () => {
    const { ipAddress, ipAddresses } = interfaceOf('dual', 'default');
    assert.deepEqual([ipAddress, ipAddresses], [v4, [v4, v6]]);
  });
});

test('its guest has addresses by DHCP and DHCPv6, and another pod reaches it at both of its pod', async (t) => {
  await timed(
    t,
    'has both',
    async () => {
      const answer = await askedByPod(machine, v4, 'dhcp6');
      assert.match(answer, /inet 10\.0\.2\.2\/24/);
      // An address that is looked at for a double yet (RFC 4862) answers nobody.
      assert.match(answer, /inet6 fd10:0:2::2\//);
      assert.doesNotMatch(answer, /fd10:0:2::2.*(?:tentative|dadfailed)/);
      startOfDual = startOf(answer);
    },
    { forMs: bootedMs },
  );
  await timed(t, 'reached by IPv6', async () => assert.equal(startOf(await askedByPod(machine, v6)), startOfDual));
});

test('a VM with the bridge binding takes over the address and the MAC of its pod', async (t) => {
  start({ name: 'bridged', binding: 'bridge', atBoot: ofBridge });
  await timed(t, 'runs', () => runs('bridged'));
  bridged = podIps('bridged').find((each) => !isIpv6(each)) ?? '';
  await timed(
    t,
    'reached',
    async () => {
      const answer = await askedByPod(machine, bridged);
      assert.match(answer, new RegExp(`inet ${bridged}/24`));
      startOfBridged = startOf(answer);
    },
    { forMs: bootedMs },
  );
  assert.notEqual(startOfBridged, startOfDual);
  assert.deepEqual(interfaceOf('bridged', 'default').ipAddresses, [bridged]);
});

/** What a guest says of another one that it asks in the second network. */
async function peerOf(address: string, peer: string): Promise<string> {
  const answer = await askedByPod(machine, address, `peer=${peer}`);
  return /^peer started (\S+)$/m.exec(answer)?.[1] ?? answer;
}

test('both reach each other in the network that Multus gave their pods', async (t) => {
  assert.deepEqual(linksIn('dual', statusKey), ['eth0', podLinkOf('blue')]);
  assert.match(interfaceOf('dual', 'blue').infoSource, /multus-status/);
  await timed(t, 'by the first', async () => assert.equal(await peerOf(v4, '10.99.0.2'), startOfBridged));
  await timed(t, 'by the second', async () => assert.equal(await peerOf(bridged, '10.99.0.1'), startOfDual));
});

test('an agent that is killed comes back: all is reached as before, and the guests are the same', async (t) => {
  const before = machine.get('vmi', 'dual').status.interfaces;
  await timed(t, 'the next runs', () => agentKilled(machine));
  for (const [address, start] of [
    [v4, startOfDual],
    [v6, startOfDual],
    [bridged, startOfBridged],
  ] as const) {
    assert.equal(startOf(await askedByPod(machine, address)), start);
  }
  await timed(t, 'by its peer', async () => assert.equal(await peerOf(bridged, '10.99.0.1'), startOfDual));
  assert.deepEqual(machine.get('vmi', 'dual').status.interfaces, before);
});

const ip = (...args: string[]) => execFileSync('ip', args, { encoding: 'utf8' });

const launcherOf = (vmi: string) =>
  machine.processesOf((line) => line.includes('/usr/lib/virt-launcher.mjs\0') && line.includes(`\0${vmi}\0`));

/** What Multus's controller for dynamic networks does with a pod that runs, when its annotation has changed. */
function changePod(vmi: string, command: 'ADD' | 'DEL', network: string, bridge: string): void {
  const [pid] = launcherOf(vmi);
  const env = {
    ...{ CNI_COMMAND: command, CNI_CONTAINERID: `plugged-${vmi}`, CNI_NETNS: `/proc/${pid}/ns/net` },
    ...{ CNI_IFNAME: podLinkOf(network), CNI_PATH: '/usr/lib/cni', PATH: process.env.PATH },
  };
  execFileSync('/usr/lib/cni/bridge', { env, input: JSON.stringify(bridgeWithoutAddresses(bridge)) });
  const { name, annotations } = launcherPod(machine, vmi).metadata;
  const link = { name: `default/${network}`, interface: podLinkOf(network), dns: {} };
  const others = JSON.parse(annotations[statusKey]).filter((each: typeof link) => each.interface !== link.interface);
  const status = JSON.stringify(command === 'ADD' ? [...others, link] : others);
  machine.api.kubectl('annotate', 'pod', name, '--overwrite', `${statusKey}=${status}`);
}

/** Names of all links in the launcher's pod. */
function linksOfPod(vmi: string): string[] {
  const [pid] = launcherOf(vmi);
  const links = execFileSync('nsenter', ['-t', `${pid}`, '-n', 'ip', '-j', 'link'], { encoding: 'utf8' });
  return JSON.parse(links).map(({ ifname }: { ifname: string }) => ifname);
}

function giveInterfaces(vmi: string, last: object): void {
  const interfaces = [{ name: 'default', masquerade: {} }, blue.iface, last];
  const networks = [{ name: 'default', pod: {} }, blue.network, green.network];
  const patch = JSON.stringify({ spec: { domain: { devices: { interfaces } }, networks } });
  machine.api.kubectl('patch', 'vmi', vmi, '--type=merge', '-p', patch);
}

/** By `nc`, as pods do: the guest's server ends lines of its head in a way that `fetch` does not take. */
const askedByNode = (address: string) =>
  execFileSync('/bin/busybox', ['nc', '-w', '5', address, '8080'], {
    encoding: 'utf8',
    input: 'GET /cgi-bin/guest HTTP/1.0\r\n\r\n',
  });

test('a third network is plugged into the guest that runs, and it is reached there', async (t) => {
  giveInterfaces('dual', green.iface);
  const all = [podLinkOf('blue'), podLinkOf('green')];
  await timed(t, 'asked for', () => assert.deepEqual(linksIn('dual', networksKey), all));
  changePod('dual', 'ADD', 'green', 'green0');
  ip('address', 'add', '10.98.0.254/24', 'dev', 'green0');
  await timed(t, 'in the domain', () =>
    assert.match(interfaceOf('dual', 'green')?.infoSource ?? '', /\bdomain\b.*multus-status/),
  );
  await timed(t, 'in the guest', async () => {
    const answer = await askedByPod(machine, v4, 'green');
    assert.equal(startOf(answer), startOfDual);
    assert.match(answer, /eth2/);
  });
  await timed(t, 'reached', () => assert.equal(startOf(askedByNode('10.98.0.1')), startOfDual));
});

test('it is unplugged: nothing of it is left in the guest, the pod and the status, and the others are as before', async (t) => {
  const before = interfaceOf('dual', 'blue');
  const ofGreen = podLinkOf('green').slice('pod'.length);
  assert.ok(linksOfPod('dual').includes(`tap${ofGreen}`));
  giveInterfaces('dual', { ...green.iface, state: 'absent' });
  await timed(t, 'not asked for', () => assert.deepEqual(linksIn('dual', networksKey), [podLinkOf('blue')]));
  // What the CNI plug-in made is its own to take away, and has another name meanwhile.
  await timed(t, 'gone from the pod', () =>
    assert.deepEqual(
      linksOfPod('dual').filter((name) => name.includes(ofGreen)),
      [`${ofGreen}-nic`],
    ),
  );
  changePod('dual', 'DEL', 'green', 'green0');
  await timed(t, 'gone from the status', () => assert.equal(interfaceOf('dual', 'green'), undefined));
  const answer = await askedByPod(machine, v4);
  assert.equal(startOf(answer), startOfDual);
  assert.doesNotMatch(answer, /eth2/);
  assert.deepEqual(interfaceOf('dual', 'blue'), before);
});

test('the agent is killed once more, and nothing is left of VMs that are deleted', async (t) => {
  await agentKilled(machine);
  machine.api.kubectl('delete', 'vmi', '--all', '--wait=false');
  await timed(t, 'gone', () => {
    assert.deepEqual(machine.get('vmi').items, []);
    assert.deepEqual(machine.get('pods', '-l', 'kubevirt.io=virt-launcher').items, []);
  });
});
