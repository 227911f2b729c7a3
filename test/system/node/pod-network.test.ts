import assert from 'node:assert/strict';
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { after, before, describe, test } from 'node:test';
import { createWebSocketStream, WebSocket } from 'ws';
import type { VirtualMachineInstance } from '../../../src/api/index.ts';
import { loadKubeAccess } from '../../../src/kube/index.ts';
import { eventually } from '../../fixtures/eventually.ts';
import { GuestShell } from '../../fixtures/guest-shell.ts';
import { demoVmi, NodeProcess } from '../../fixtures/node-process.ts';
import { OwnNetwork } from '../../fixtures/own-network.ts';

const needsRoot = process.getuid?.() === 0 ? false : 'pods need root';
const outsideServer = `require('node:http').createServer((request, response) => response.end('outside')).listen(8080, '::')`;

const withPorts = (ports: { port: number; protocol?: string }[]): Partial<VirtualMachineInstance['spec']> => {
  const { domain } = demoVmi('plain').spec;
  return { domain: { ...domain, devices: { interfaces: [{ name: 'default', masquerade: {}, ports }] } } };
};

describe('the standalone node’s own pod network', { skip: needsRoot }, () => {
  const world = needsRoot ? undefined : new OwnNetwork();
  const children: ChildProcess[] = [];
  const shells = new Map<string, GuestShell>();
  let node: NodeProcess;

  before(async () => {
    assert.ok(world);
    world.enter();
    const resolve = `--address=/outside.test/${world.outsideIp}`;
    for (const argv of [
      [process.execPath, '-e', outsideServer],
      ['dnsmasq', '-k', '-C', '/dev/null', '--pid-file=', '--no-hosts', '--no-resolv', resolve],
    ]) {
      const [file, args] = world.outside.command(...argv);
      children.push(spawn(file, args, { stdio: 'ignore' }));
    }
    node = await NodeProcess.create('/var/tmp');
    await node.start();
    for (const name of ['one', 'two']) await node.apply(demoVmi(name));
    for (const name of ['one', 'two']) {
      const { metadata } = await running(name);
      const serial = `/proc/${await node.qemuPid(name)}/root/run/kubevirt-private/${metadata.uid}/virt-serial0`;
      const shell = new GuestShell(serial);
      shells.set(name, shell);
      await shell.login();
      await guestShows(name, 'ip -4 address show dev eth0', /inet 10\.0\.2\.2\/24/);
      await shell.run(`mkdir -p /tmp/www; echo of-${name} >/tmp/www/name; httpd -p 8080 -h /tmp/www`);
    }
  });
  after(async () => {
    for (const shell of shells.values()) shell.close();
    await node?.dispose();
    for (const child of children) child.kill('SIGKILL');
    world?.remove();
  });

  async function running(name: string): Promise<VirtualMachineInstance> {
    const vmi = await node.vmiUntil(name, (found) => found?.status?.phase === 'Running', 60_000);
    assert.ok(vmi);
    return vmi;
  }

  async function ipsOf(name: string): Promise<readonly string[]> {
    const hasAddress = (vmi: VirtualMachineInstance | undefined) =>
      vmi?.status?.interfaces?.[0]?.ipAddress !== undefined;
    return (await node.vmiUntil(name, hasAddress))?.status?.interfaces?.[0]?.ipAddresses ?? [];
  }

  async function guestShows(name: string, command: string, expected: RegExp): Promise<void> {
    await eventually(async () => assert.match((await shells.get(name)?.run(command)) ?? '', expected), 30_000);
  }

  const nameAt = async (ip: string, port = 8080) => {
    const host = ip.includes(':') ? `[${ip}]` : ip;
    const answer = await fetch(`http://${host}:${port}/name`, {
      signal: AbortSignal.timeout(5_000),
      headers: { connection: 'close' },
    });
    return (await answer.text()).trim();
  };
  const links = () => world?.machine.ip('-br link') ?? '';

  test('a VMI has a real address of both families, the one of its pod', async () => {
    assert.match(node.output, /pod network 10\.201\.\d+\.0\/24 and fd[0-9a-f:]+::\/64 at vn-/);
    const ips = await ipsOf('one');
    assert.equal(ips.length, 2);
    assert.match(ips[0] ?? '', /^10\.201\./);
    const pods = await node.kubectl(
      'get',
      'pods',
      '-o',
      'jsonpath={range .items[*]}{.status.podIPs[*].ip}{"\\n"}{end}',
    );
    assert.ok(pods.split('\n').includes(ips.join(' ')), pods);
  });

  test('the machine reaches the guest’s ports by the pod’s addresses', async () => {
    for (const name of ['one', 'two']) {
      const [ip = ''] = await ipsOf(name);
      await eventually(async () => assert.equal(await nameAt(ip), `of-${name}`), 20_000);
    }
  });

  /** What a guest's HTTP server says by the node's API. */
  async function forwarded(name: string, port: number): Promise<string> {
    const { server, credentials } = await loadKubeAccess({ kubeconfig: node.paths.kubeconfig });
    const { headers } = await credentials.current();
    const vmi = `/apis/subresources.kubevirt.io/v1/namespaces/default/virtualmachineinstances/${name}`;
    const url = `${server.replace('https', 'wss')}${vmi}/portforward/${port}/tcp`;
    const socket = new WebSocket(url, ['plain.kubevirt.io'], {
      headers: { authorization: String(headers.authorization) },
      rejectUnauthorized: false,
    });
    await once(socket, 'open');
    const stream = createWebSocketStream(socket);
    stream.write('GET /name HTTP/1.0\r\n\r\n');
    return String(Buffer.concat(await stream.toArray()));
  }

  test('the node’s API forwards ports of a guest, of its VMI', async () => {
    assert.match(await forwarded('one', 8080), /of-one/);
  });

  test('guests reach each other by address and name, and outside', async () => {
    const [ip = ''] = await ipsOf('one');
    await guestShows('two', `printf 'GET /name HTTP/1.0\\r\\n\\r\\n' | nc -w 5 ${ip} 8080`, /of-one/);
    // The static wget of the guest's busybox crashes, so names are only looked up.
    await guestShows('two', 'nslookup one.default.vm.internal', new RegExp(`Address: ${ip.replaceAll('.', '\\.')}`));
    await guestShows('two', `printf 'GET / HTTP/1.0\\r\\n\\r\\n' | nc -w 5 ${world?.outsideIp} 8080`, /outside/);
    await guestShows('two', 'nslookup outside.test', /Address: 198\.51\.100\.1/);
  });

  test('kill -9 of the node and all its programs, then a start: the same guests at the same addresses', async () => {
    const before = [await node.qemuPid('one'), await ipsOf('one')];
    const pids = await Promise.all(
      (['virt-handler', 'virt-controller', 'apiserver'] as const).map((name) => node.pidOf(name)),
    );
    await node.end('SIGKILL');
    for (const pid of pids) process.kill(pid, 'SIGKILL');
    const [ip = ''] = before[1] as readonly string[];
    assert.equal(await nameAt(ip), 'of-one', 'without the node, too');
    await node.start();
    await running('one');
    assert.deepEqual([await node.qemuPid('one'), await ipsOf('one')], before);
    assert.equal(await nameAt(ip), 'of-one');
    await guestShows('one', 'nslookup two.default.vm.internal', /Address: 10\.201\./);
  });

  test('a VM that is deleted takes its links along', async () => {
    const count = () => links().match(/vp[0-9a-f]{12}/g)?.length ?? 0;
    assert.equal(count(), 2);
    await node.kubectl('delete', 'vmi', 'two');
    await eventually(async () => assert.equal(count(), 1), 20_000);
  });

  test('after stop nothing of it is left', async () => {
    assert.equal((await node.cli(['stop'])).code, 0);
    await node.ended();
    await eventually(async () => assert.doesNotMatch(links(), /vn-|vp[0-9a-f]{12}/), 10_000);
    assert.equal(execFileSync('nft', ['list', 'tables'], { encoding: 'utf8' }), '');
  });

  test('without dnsmasq it says what to install, and the guest has user networking', async () => {
    const without = 'mount --bind /dev/null "$(command -v dnsmasq)"; exec "$@"';
    await node.start(['start'], 'the node is up', ['unshare', '--mount', 'sh', '-c', without, 'sh']);
    assert.match(node.output, /no pod network.*dnsmasq is missing \(apt-get install dnsmasq-base\)/);
    // The last one at the number of a node port, which is at another loopback address.
    const ports = [{ port: 8080 }, { port: 5353, protocol: 'UDP' }, { port: 30_081 }];
    const plain = demoVmi('plain', withPorts(ports));
    await node.apply({ ...plain, metadata: { ...plain.metadata, labels: { app: 'plain' } } });
    const { metadata } = await running('plain');
    assert.doesNotMatch(links(), /vn-/);
    const serial = `/proc/${await node.qemuPid('plain')}/root/run/kubevirt-private/${metadata.uid}/virt-serial0`;
    const shell = new GuestShell(serial);
    shells.set('plain', shell);
    await shell.login();
    await guestShows('plain', 'ip -4 address show dev eth0', /inet 10\.0\.2\.15\/24/);
    await shell.run(
      'mkdir -p /tmp/www; echo of-plain >/tmp/www/name; httpd -p 8080 -h /tmp/www; httpd -p 81 -h /tmp/www',
    );
  });

  async function publishedAt(): Promise<string> {
    let address = '';
    await eventually(async () => {
      const events = await node.kubectl(
        'get',
        'events',
        '--field-selector=reason=PortsPublished',
        '-o',
        'jsonpath={.items[*].message}',
      );
      const found = /tcp 8080 at (127\.\d+\.\d+\.\d+):28080, udp 5353 at \1:25353/.exec(events);
      assert.ok(found, events);
      address = found[1] ?? '';
    });
    return address;
  }

  test('with user networking the ports that a VMI lists are on an address of the machine', async () => {
    const address = await publishedAt();
    assert.equal(await nameAt(address, 28_080), 'of-plain');
    // The guest has no server of UDP: its kernel counts what comes for nobody.
    const strangers = async () =>
      Number((await shells.get('plain')?.run(`awk '/^Udp: [0-9]/ { print $3 }' /proc/net/snmp`))?.trim());
    const before = await strangers();
    const socket = createSocket('udp4');
    await eventually(async () => {
      socket.send('datagram', 25_353, address);
      assert.ok((await strangers()) > before);
    });
    socket.close();
  });

  test('with user networking any TCP port is forwarded for those who may ask the API, and closed again', async () => {
    assert.match(await forwarded('plain', 81), /of-plain/);
    await assert.rejects(forwarded('plain', 82), /502|nothing listens there/);
    // Little end first: what listens from 127.128.0.0 on.
    const open = readFileSync('/proc/net/tcp', 'latin1').match(
      /[\dA-F]{4}[89A-F][\dA-F]7F:[\dA-F]{4} 00000000:0000 0A/g,
    );
    assert.equal(open, null);
  });

  test('with user networking a Service of type NodePort answers at the loopback address', async () => {
    const metadata = { name: 'web', namespace: 'default' };
    const ports = [{ port: 80, targetPort: 81, nodePort: 30_081 }];
    await node.apply({
      apiVersion: 'v1',
      kind: 'Service',
      metadata,
      spec: { type: 'NodePort', selector: { app: 'plain' }, ports },
    });
    await eventually(async () => assert.equal(await nameAt('127.0.0.1', 30_081), 'of-plain'), 20_000);
    const told = await node.kubectl(
      'get',
      'events',
      '--field-selector=reason=NoPodNetwork',
      '-o',
      'jsonpath={.items[*].message}',
    );
    assert.match(told, /only its node ports of TCP answer/);
  });

  test('with user networking an agent that is killed closes no port, and a VMI that is deleted does', async () => {
    const address = await publishedAt();
    process.kill(await node.pidOf('virt-handler'), 'SIGKILL');
    assert.equal(await nameAt(address, 28_080), 'of-plain');
    await eventually(async () => assert.match(await forwarded('plain', 81), /of-plain/), 20_000);
    await node.kubectl('delete', 'vmi', 'plain');
    await assert.rejects(nameAt(address, 28_080), /fetch failed/);
  });
});
