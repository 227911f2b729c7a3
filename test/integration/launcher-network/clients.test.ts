import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { chmodSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, afterEach, before, describe, test } from 'node:test';
import { promisify } from 'node:util';
import type { Interface, Network, VirtualMachineInstance } from '../../../src/api/index.ts';
import { eventually } from '../../fixtures/eventually.ts';
import { launcherVmi } from '../../fixtures/launcher-vmi.ts';
import { bridgePod, masqueradePod, plugClient, TestNamespace } from '../../fixtures/pod-bridge.ts';
import { PodNetworkProcess } from '../../fixtures/pod-network-process.ts';

/** Real DHCP clients on the other side of the bridge, in place of guests. */

const run = promisify(execFile);
const guestMac = '02:00:00:00:00:01';
const resolvConf = 'search ns1.svc.cluster.local cluster.local\nnameserver 10.96.0.10\nnameserver fd00::10\n';

const vmiWith = (interfaces: Interface[], networks: Network[]): VirtualMachineInstance =>
  launcherVmi({
    spec: { networks, subdomain: 'sub', domain: { ...launcherVmi().spec.domain, devices: { interfaces } } },
  });

const masquerade = vmiWith(
  [
    {
      name: 'default',
      masquerade: {},
      dhcpOptions: {
        bootFileName: 'pxe.0',
        tftpServerName: 'tftp.example',
        ntpServers: ['10.0.0.1', '10.0.0.2'],
        privateOptions: [{ option: 240, value: 'private' }],
      },
    },
  ],
  [{ name: 'default', pod: {} }],
);
const twoBridges = vmiWith(
  [
    { name: 'default', bridge: {} },
    { name: 'blue', bridge: {} },
  ],
  [
    { name: 'default', pod: {} },
    { name: 'blue', multus: { networkName: 'blue' } },
  ],
);
const blueMac = '02:00:00:00:00:0b';
/** 20,000 datagrams to the server's port: noise, and messages that it would answer. */
const floodProgram = `
const socket = require('node:dgram').createSocket('udp4');
const request = Buffer.alloc(300);
request.set([1, 1, 6]);
request.set([0x63, 0x82, 0x53, 0x63, 53, 1, 1, 255], 236);
const noise = Buffer.alloc(1400, 53);
let left = 20000;
const next = () => {
  if (left-- === 0) return socket.close();
  socket.send(left % 2 ? request : noise, 67, '10.0.2.1', () => setImmediate(next));
};
next();
`;
const blue = { link: 'pod16477688c0e', bare: '16477688c0e', tap: 'tap16477688c0e' };

describe('real DHCP clients of a launcher', { concurrency: false }, () => {
  let dir: string;
  let script: string;
  const opened: (() => unknown)[] = [];

  before(() => {
    dir = mkdtempSync(path.join(tmpdir(), 'dhcp-'));
    chmodSync(dir, 0o777);
    script = path.join(dir, 'script');
    writeFileSync(script, '#!/bin/sh\nenv >>"$LEASE_FILE"\n', { mode: 0o755 });
  });
  afterEach(async () => {
    for (const close of opened.splice(0).reverse()) await close();
  });
  after(() => rmSync(dir, { recursive: true }));

  function namespace(what: string): TestNamespace {
    const made = new TestNamespace(what);
    opened.push(() => made.remove());
    return made;
  }

  async function launcherIn(pod: TestNamespace): Promise<PodNetworkProcess> {
    const network = await PodNetworkProcess.start(pod, { privateDir: dir, resolvConf, hostName: 'vm-host' });
    opened.push(() => network.stop());
    return network;
  }

  /** What the client was told, as environment variables of its script. Empty: it got no lease. */
  async function leaseBy(client: TestNamespace, ...argv: string[]): Promise<ReadonlyMap<string, string>> {
    const leaseFile = path.join(dir, `lease-${client.name}`);
    rmSync(leaseFile, { force: true });
    const [program, args] = client.command(...argv);
    await run(program, args, { env: { ...process.env, LEASE_FILE: leaseFile }, timeout: 40_000 }).catch(
      () => undefined,
    );
    const lines = existsSync(leaseFile) ? readFileSync(leaseFile, 'utf8').split('\n') : [];
    return new Map(lines.map((line) => [line.slice(0, line.indexOf('=')), line.slice(line.indexOf('=') + 1)]));
  }

  const wanted = ['staticroutes', 'mtu', 'search', 'hostname', 'domain', 'ntpsrv', 'tftp', 'bootfile', '0xf0'];
  const udhcpc = (client: TestNamespace, tries = 10) =>
    leaseBy(
      client,
      ...['udhcpc', '-n', '-q', '-f', '-i', 'eth0', '-t', `${tries}`, '-T', '1', '-A', '1', '-s', script],
      ...wanted.flatMap((name) => ['-O', name]),
    );
  /** It goes on in the background when it has a lease, until it is told to end. */
  const dhclient = async (client: TestNamespace, family: '-4' | '-6') => {
    const files = ['-lf', `${dir}/leases-${client.name}`, '-pf', `${dir}/pid-${client.name}`];
    const leaseFile = path.join(dir, `lease-${client.name}`);
    const argv = ['dhclient', family, '-cf', '/dev/null', ...files, '-e', `LEASE_FILE=${leaseFile}`, '-sf', script];
    const lease = await leaseBy(client, ...argv, '-1', 'eth0');
    await run(...client.command(...argv, '-x', 'eth0'), { timeout: 20_000 });
    return lease;
  };

  test('masquerade: udhcpc gets address, gateway, DNS, MTU, names and the options of the VMI', async () => {
    const [pod, guest] = [namespace('pod'), namespace('guest')];
    masqueradePod(pod);
    plugClient(pod, 'k6t-eth0', guest, guestMac);
    await (await launcherIn(pod)).ask({ do: 'prepare', vmi: masquerade });
    const lease = await udhcpc(guest);
    const told = (name: string) => lease.get(name);
    assert.equal(told('ip'), '10.0.2.2');
    assert.equal(told('mask'), '24');
    assert.equal(told('router'), '10.0.2.1');
    assert.equal(told('dns'), '10.96.0.10');
    assert.equal(told('mtu'), '1450');
    assert.equal(told('hostname'), 'vm-host');
    assert.equal(told('domain'), 'sub.ns1.svc.cluster.local');
    assert.equal(told('search'), 'sub.ns1.svc.cluster.local ns1.svc.cluster.local cluster.local');
    assert.equal(told('ntpsrv'), '10.0.0.1 10.0.0.2');
    assert.equal(told('tftp'), 'tftp.example');
    assert.equal(told('bootfile') ?? told('boot_file'), 'pxe.0');
    assert.equal(told('opt240'), Buffer.from('private').toString('hex'));
    assert.equal(told('lease'), '86313600');
    assert.equal(told('serverid'), '10.0.2.1');
    assert.equal(told('staticroutes'), undefined);
    assert.ok(existsSync(path.join(dir, 'dhcp_started-eth0')));
  });

  test('masquerade: dhclient gets an address of each family', async () => {
    const [pod, guest] = [namespace('pod'), namespace('guest')];
    masqueradePod(pod);
    plugClient(pod, 'k6t-eth0', guest, guestMac);
    await (await launcherIn(pod)).ask({ do: 'prepare', vmi: masquerade });
    const v4 = await dhclient(guest, '-4');
    assert.equal(v4.get('new_ip_address'), '10.0.2.2');
    assert.equal(v4.get('new_routers'), '10.0.2.1');
    assert.equal(v4.get('new_interface_mtu'), '1450');
    assert.equal(v4.get('new_domain_name'), 'sub.ns1.svc.cluster.local');
    // Its link-local address is its own only when no other has answered for it.
    await eventually(() => assert.doesNotMatch(guest.ip('-6 addr show dev eth0'), /tentative/));
    const v6 = await dhclient(guest, '-6');
    assert.equal(v6.get('new_ip6_address'), 'fd10:0:2::2');
    assert.equal(v6.get('new_dhcp6_name_servers'), 'fd00::10');
    assert.equal(v6.get('new_max_life'), '86313600');
  });

  test('bridge: each interface has the address and the routes of its own device, for its own MAC', async () => {
    const [pod, guest, blueGuest, stranger] = ['pod', 'guest', 'blue', 'stranger'].map(namespace);
    assert.ok(pod && guest && blueGuest && stranger);
    bridgePod(pod, { link: 'eth0', bare: 'eth0', tap: 'tap0', server: '169.254.75.10', mac: guestMac });
    bridgePod(pod, { ...blue, server: '169.254.75.11', mac: blueMac });
    writeCache('eth0', '10.244.0.5', guestMac, '10.244.0.1');
    writeCache(blue.link, '192.168.7.5', blueMac, '192.168.7.1');
    plugClient(pod, 'k6t-eth0', guest, guestMac);
    plugClient(pod, `k6t-${blue.bare}`, blueGuest, blueMac);
    await (await launcherIn(pod)).ask({ do: 'prepare', vmi: twoBridges });
    const lease = await udhcpc(guest);
    assert.equal(lease.get('ip'), '10.244.0.5');
    assert.equal(lease.get('mask'), '24');
    assert.equal(lease.get('router'), '10.244.0.1');
    assert.equal(lease.get('mtu'), '1400');
    assert.equal(lease.get('staticroutes'), '10.96.0.0/16 10.244.0.1 0.0.0.0/0 10.244.0.1');
    assert.equal(lease.get('serverid'), '169.254.75.10');
    const blueLease = await dhclient(blueGuest, '-4');
    assert.equal(blueLease.get('new_ip_address'), '192.168.7.5');
    assert.equal(blueLease.get('new_dhcp_server_identifier'), '169.254.75.11');

    guest.remove();
    plugClient(pod, 'k6t-eth0', stranger, '02:00:00:00:00:99');
    assert.equal((await udhcpc(stranger, 2)).get('ip'), undefined);
  });

  test('without the set-up of the agent it is refused in words, and nothing is served', async () => {
    const pod = namespace('pod');
    const network = await launcherIn(pod);
    await assert.rejects(network.ask({ do: 'prepare', vmi: masquerade }), {
      code: 'NO_HANDOVER',
      message: /the pod lacks eth0, k6t-eth0, tap0 \(there are: lo\)/,
    });
    masqueradePod(pod, []);
    await assert.rejects(network.ask({ do: 'prepare', vmi: masquerade }), {
      code: 'NO_HANDOVER',
      message: /no address/,
    });
    pod.ip('addr add 10.244.0.5/24 dev eth0');
    await network.ask({ do: 'prepare', vmi: masquerade });
  });

  test('without the right to low ports it says which one is missing', async () => {
    const pod = namespace('pod');
    masqueradePod(pod);
    const start = { privateDir: dir, resolvConf, hostName: 'vm-host' };
    const asUser = ['setpriv', '--reuid=107', '--regid=107', '--clear-groups', '--inh-caps=-all'];
    const network = await PodNetworkProcess.start(pod, start, asUser);
    opened.push(() => network.stop());
    await assert.rejects(network.ask({ do: 'prepare', vmi: masquerade }), {
      code: 'DHCP_FAILED',
      message: /port 67 of the network device k6t-eth0: bind: EACCES.*NET_BIND_SERVICE/,
    });
  });

  test('a flood of anything costs no memory, and the guest is still served', async () => {
    const [pod, guest] = [namespace('pod'), namespace('guest')];
    masqueradePod(pod);
    plugClient(pod, 'k6t-eth0', guest, guestMac);
    const network = await launcherIn(pod);
    await network.ask({ do: 'prepare', vmi: masquerade });
    guest.ip('addr add 10.0.2.2/24 dev eth0');
    const before = Number(await network.ask({ do: 'rss' }));
    await run(...guest.command(process.execPath, '-e', floodProgram), { timeout: 60_000 });
    const grown = Number(await network.ask({ do: 'rss' })) - before;
    assert.ok(grown < 64 * 1024 * 1024, `${grown} bytes more`);
    guest.ip('addr del 10.0.2.2/24 dev eth0');
    assert.equal((await udhcpc(guest, 20)).get('ip'), '10.0.2.2');
  });

  test('a bridge that is made anew is served again, and one whose interface is gone is not', async () => {
    const [pod, guest] = [namespace('pod'), namespace('guest')];
    masqueradePod(pod);
    const network = await launcherIn(pod);
    await network.ask({ do: 'prepare', vmi: masquerade });
    pod.ip('link set k6t-eth0 down');
    pod.ip('link set k6t-eth0 up');
    plugClient(pod, 'k6t-eth0', guest, guestMac);
    assert.equal((await udhcpc(guest, 30)).get('ip'), '10.0.2.2');
    pod.ip('link delete c-eth0');
    for (const device of ['k6t-eth0', 'eth0', 'tap0']) pod.ip(`link delete ${device}`);
    masqueradePod(pod);
    await network.ask({ do: 'prepare', vmi: masquerade });
    plugClient(pod, 'k6t-eth0', guest, guestMac);
    assert.equal((await udhcpc(guest, 30)).get('ip'), '10.0.2.2');
    await network.ask({ do: 'keepOnly', vmi: masquerade, names: [] });
    assert.ok(!existsSync(path.join(dir, 'dhcp_started-eth0')));
    assert.equal((await udhcpc(guest, 2)).get('ip'), undefined);
  });

  /** As the agent writes it. */
  function writeCache(device: string, address: string, mac: string, gateway: string): void {
    const cache = {
      IP: { IP: address, Mask: '////AA==', Label: '', Flags: 0 },
      MAC: Buffer.from(mac.replaceAll(':', ''), 'hex').toString('base64'),
      Routes: [
        { Dst: null, Gw: gateway },
        { Dst: { IP: '10.96.0.0', Mask: '//8AAA==' }, Gw: gateway },
      ],
      IPAMDisabled: false,
      Gateway: gateway,
    };
    const file = path.join(dir, `vif-cache-${device}.json`);
    writeFileSync(file, JSON.stringify(cache, null, 2), { mode: 0o604 });
  }
});
