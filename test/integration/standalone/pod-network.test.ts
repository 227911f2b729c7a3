import assert from 'node:assert/strict';
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { createSocket } from 'node:dgram';
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { chmod, mkdir, mkdtemp, readFile, rename, rm, writeFile } from 'node:fs/promises';
import http from 'node:http';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { type Clock, silentLogger, systemClock } from '../../../src/base/index.ts';
import { Sandboxes } from '../../../src/standalone/index.ts';
import { PodNetwork } from '../../../src/standalone/pod-network/index.ts';
import { namesOf } from '../../../src/standalone/pod-network/names.ts';
import { Program } from '../../../src/standalone/supervisor/program.ts';
import { eventually } from '../../fixtures/eventually.ts';
import { FakeClock } from '../../fixtures/fake-clock.ts';
import { OwnNetwork } from '../../fixtures/own-network.ts';

const needsRoot = process.getuid?.() === 0 ? false : 'networks and pods take root';

/** Says who asks, and asks others on behalf of who asks. */
const server = `
const http = require('node:http');
http.createServer((request, response) => {
  const target = new URL(request.url, 'http://x').searchParams.get('ask');
  if (!target) return response.end('from ' + request.socket.remoteAddress.replace('::ffff:', ''));
  const asked = http.get(target, { timeout: 1500 }, (answer) => answer.pipe(response));
  asked.on('timeout', () => asked.destroy(new Error('timeout')));
  asked.on('error', (error) => response.end('failed ' + (error.code ?? error.message)));
}).listen(8080, '::');
`;

describe('network of pods on one machine', { skip: needsRoot }, () => {
  const world = needsRoot ? undefined : new OwnNetwork();
  const children: ChildProcess[] = [];
  const networks: PodNetwork[] = [];
  let dir: string;
  let sandboxes: Sandboxes;
  let network: PodNetwork;
  let whilePortWasTaken: string;

  before(async () => {
    assert.ok(world);
    world.enter();
    // As the node has it.
    process.umask(0o077);
    dir = await mkdtemp(path.join(tmpdir(), 'pod-network-'));
    // The DNS server is no root.
    await chmod(dir, 0o755);
    sandboxes = new Sandboxes({
      podsDir: path.join(dir, 'pods'),
      libvirtCacheDir: path.join(dir, 'cache'),
      cgroupRoot: undefined,
      programs: [process.execPath],
    });
    const outside = (...argv: string[]) => {
      const [file, args] = world.outside.command(...argv);
      children.push(spawn(file, args, { stdio: 'ignore' }));
    };
    outside(process.execPath, '-e', server);
    outside(
      'dnsmasq',
      '-k',
      '-C',
      '/dev/null',
      '--pid-file=',
      '--no-hosts',
      '--no-resolv',
      `--address=/outside.test/${world.outsideIp}`,
    );
    const squatter = await squat();
    whilePortWasTaken = (await started('four')).summary;
    squatter.close();
    network = await started('one');
  });

  after(async () => {
    for (const uid of await sandboxes.list()) await end(uid);
    for (const each of networks) await each.stop();
    for (const child of children) child.kill('SIGKILL');
    world?.remove();
    await rm(dir, { recursive: true, force: true });
  });

  function create(name: string, wish = 'auto', clock: Clock = systemClock): PodNetwork {
    const state = path.join(dir, name);
    const files = { logFile: path.join(state, 'dnsmasq.log'), pidFile: path.join(state, 'dnsmasq.pid') };
    const made = new PodNetwork(
      { wish, stateDir: state, dir: path.join(state, 'network'), sharedDir: path.join(dir, 'shared') },
      {
        dns: (argv) => new Program({ name: 'dnsmasq', argv, env: process.env, ...files }, { log: silentLogger }),
        isRunning: async (uid) => ['running', 'starting'].includes((await sandboxes.inspect(uid)).kind),
        log: silentLogger,
        clock,
      },
    );
    networks.push(made);
    return made;
  }

  async function started(name: string, wish?: string, clock?: Clock): Promise<PodNetwork> {
    const made = create(name, wish, clock);
    await made.start();
    return made;
  }

  async function startPod(uid: string, from = network): Promise<readonly string[]> {
    const link = await from.join(uid, uid, 'default');
    assert.ok(link, from.summary);
    await mkdir(path.join(dir, 'pods', uid), { recursive: true });
    await sandboxes.start({
      ...{ uid, namespace: 'default', name: uid, env: {}, mounts: [], kvm: 'fails', network: link },
      argv: [process.execPath, '-e', server],
      logFile: path.join(dir, 'logs', `${uid}.log`),
    });
    const addresses = from.addressesOf(uid);
    for (const address of addresses) await eventually(async () => assert.match(await ask(address), /^from /), 15_000);
    return addresses;
  }

  async function end(uid: string): Promise<void> {
    await sandboxes.kill(uid);
    await eventually(async () => assert.ok(!['running', 'starting'].includes((await sandboxes.inspect(uid)).kind)));
    await sandboxes.remove(uid);
  }

  const urlOf = (address: string) => `http://${address.includes(':') ? `[${address}]` : address}:8080/`;

  /** What the server at this address says, of whom it is asked, or of what it is told to ask. */
  function ask(address: string, target?: string): Promise<string> {
    const url = `${urlOf(address)}${target ? `?ask=${encodeURIComponent(target)}` : ''}`;
    return new Promise((resolve, reject) => {
      const asked = http.get(url, { agent: false, timeout: 3_000 }, (answer) => {
        let text = '';
        answer.on('data', (chunk) => {
          text += chunk;
        });
        answer.on('end', () => resolve(text));
      });
      asked.on('timeout', () => asked.destroy(new Error('timeout')));
      asked.on('error', reject);
    });
  }

  async function squat() {
    const squatter = createSocket('udp4').bind(53, '0.0.0.0');
    await new Promise((resolve) => squatter.once('listening', resolve));
    return squatter;
  }

  const rules = () => execFileSync('nft', ['list', 'ruleset'], { encoding: 'utf8' });
  const bridges = () => world?.machine.ip('-br link').match(/vn-[0-9a-f]{8}/g) ?? [];
  const forwarding = () => readFileSync('/proc/sys/net/ipv4/conf/up0/forwarding', 'utf8').trim();
  const pidOfDns = async (name: string) =>
    Number((await readFile(path.join(dir, name, 'dnsmasq.pid'), 'utf8')).split(' ')[0]);

  test('pods have addresses of both families; the machine reaches them, and they each other', async () => {
    const one = await startPod('a1');
    const two = await startPod('a2');
    assert.equal(one.length, 2, network.summary);
    for (const [at, address] of one.entries()) {
      assert.equal(await ask(two[at] ?? '', urlOf(address)), `from ${two[at]}`);
    }
  });

  test('they reach outside behind the machine, by names too, and have names among themselves', async () => {
    const [ip = '', ip6 = ''] = network.addressesOf('a1');
    await eventually(async () => assert.equal(await ask(ip, 'http://outside.test:8080'), 'from 198.51.100.2'), 10_000);
    assert.equal(await ask(ip, urlOf(world?.outsideIp6 ?? '')), 'from fd77::2');
    assert.match(await ask(ip, 'http://a2.default.vm.internal:8080'), /^from /);
    assert.match(await ask(ip6, 'http://a2:8080'), /^from /, 'names of its own namespace are short');
    assert.match(await ask(ip, 'http://a3.default.vm.internal:8080'), /^failed ENOTFOUND/);
  });

  test('of the machine they reach no port but DNS, by none of its addresses; and nobody outside reaches them', async () => {
    const [ip = ''] = network.addressesOf('a1');
    const listener = http.createServer((_, response) => response.end('secret')).listen(8080, '0.0.0.0');
    await new Promise((resolve) => listener.once('listening', resolve));
    const gateway = ip.replace(/\d+$/, '1');
    for (const address of ['198.51.100.2', gateway]) {
      assert.equal(await ask('198.51.100.2'), 'secret');
      assert.match(await ask(ip, urlOf(address)), /^failed (timeout|ETIMEDOUT|ECONNREFUSED)/, address);
    }
    listener.close();
    assert.ok(world);
    world.outside.ip(`route add ${ip}/32 via 198.51.100.2`);
    assert.match(
      await ask(world.outsideIp, urlOf(ip)).catch(() => ask('198.51.100.1', urlOf(ip))),
      /^failed (timeout|ETIMEDOUT)/,
    );
  });

  test('a second node of the machine has a network of its own, from which the first one’s pods are not reached', async () => {
    const other = await started('two');
    assert.equal(bridges().length, 2);
    const [theirs = ''] = await startPod('b1', other);
    const [ours = ''] = network.addressesOf('a1');
    assert.match(await ask(theirs, urlOf(ours)), /^failed (timeout|ETIMEDOUT)/);
    await end('b1');
    await other.release('b1');
    await other.stop();
    assert.equal(bridges().length, 1);
    assert.equal(forwarding(), '1', 'the first one needs it');
    assert.match(await ask(ours, urlOf(world?.outsideIp ?? '')), /^from 198/);
  });

  test('a node that was killed and comes back has the same pods at the same addresses, with DNS', async () => {
    const addresses = network.addressesOf('a1');
    process.kill(await pidOfDns('one'), 'SIGKILL');
    // The object of before is left alone, as a killed process leaves everything.
    network = await started('one');
    assert.deepEqual(network.addressesOf('a1'), addresses);
    const [ip = ''] = addresses;
    assert.match(await ask(ip, 'http://a2.default.vm.internal:8080'), /^from /);
    await startPod('a4');
    assert.equal(bridges().length, 1);
  });

  test('also with --pod-network=none pods that run keep it, and new ones have none', async () => {
    network = await started('one', 'none');
    assert.match(await ask(network.addressesOf('a1')[0] ?? ''), /^from /);
    assert.equal(await network.join('late', 'late', 'default'), undefined);
    network = await started('one');
  });

  test('what pods that run began with and cannot be had is tried again until it is', async () => {
    const names = path.join(dir, 'shared', namesOf(path.join(dir, 'one')).bridge);
    await rename(names, `${names}.aside`);
    await writeFile(names, 'in the way');
    const clock = new FakeClock();
    network = await started('one', 'auto', clock);
    assert.match(network.summary, /^no pod network.*EEXIST.*\(tried again every 20 s for pods that run\)/);
    await clock.pass(20_000);
    await rm(names);
    await rm(`${names}.aside`, { recursive: true });
    await eventually(() => {
      clock.advance(20_000);
      assert.match(network.summary, /^pod network /);
    }, 30_000);
    const [ip = ''] = network.addressesOf('a1');
    assert.match(await ask(ip, 'http://a2.default.vm.internal:8080'), /^from /);
    network = await started('one');
  });

  test('or until they have ended: then nothing of it is left', async () => {
    const clock = new FakeClock();
    const { bridge } = namesOf(path.join(dir, 'eleven'));
    await startPod('e1', await started('eleven'));
    await rm(path.join(dir, 'shared', bridge), { recursive: true });
    await writeFile(path.join(dir, 'shared', bridge), 'in the way');
    const later = await started('eleven', 'auto', clock);
    assert.match(later.summary, /tried again/);
    assert.match(bridges().join(), new RegExp(bridge), 'pods that run keep it');
    await end('e1');
    await eventually(() => {
      clock.advance(20_000);
      assert.doesNotMatch(bridges().join(), new RegExp(bridge));
    }, 30_000);
  });

  test('a bridge that somebody removed is made again for the next pod', async () => {
    await end('a4');
    await network.release('a4');
    world?.machine.ip(`link delete ${bridges()[0]}`);
    await startPod('a5');
    assert.match(await ask(network.addressesOf('a1')[0] ?? ''), /^from /, 'those that run are plugged in again');
  });

  test('rules that went with a firewall that was loaded anew are there again for the next pod', async () => {
    const before = await tables();
    assert.match(before, /virt_node_/);
    execFileSync('nft', ['flush', 'ruleset']);
    await startPod('a6');
    assert.equal(await tables(), before);
    await end('a6');
    await network.release('a6');
  });

  test('a range that the machine has by now is asked for in vain, and nothing of it is left', async () => {
    const asked = create('three', '198.51.100.0/24');
    await assert.rejects(asked.start(), /198\.51\.100\.0\/24 is in use on this machine/);
    world?.machine.ip('route add blackhole 10.0.0.0/8');
    const three = await started('three');
    assert.match(three.summary, /pod network 172\.29\./);
    await three.stop();
    world?.machine.ip('route del blackhole 10.0.0.0/8');
    assert.equal(bridges().length, 1);
  });

  test('where port 53 is taken it says so, and there is none', () => {
    assert.equal(readdirSync(path.join(dir, 'shared')).filter((name) => name.startsWith('vn-')).length, 1);
    assert.match(
      whilePortWasTaken,
      /^no pod network, guests have user networking: dnsmasq does not answer at .*port 53/,
    );
    assert.equal(bridges().length, 1);
  });

  test('a node that stops leaves it to pods that run; when they have ended all of it goes', async () => {
    const dns = await pidOfDns('one');
    await network.stop();
    assert.equal(bridges().length, 1);
    const [, two = ''] = [await pidOfDns('one'), (await started('one')).addressesOf('a2')[0]];
    assert.equal(await ask(two, urlOf(world?.outsideIp ?? '')), 'from 198.51.100.2');
    network = networks.at(-1) ?? network;
    for (const uid of await sandboxes.list()) {
      await end(uid);
      await network.release(uid);
    }
    await network.stop();
    assert.ok(!existsSync(`/proc/${dns}`));
    assert.deepEqual(bridges(), []);
    await eventually(() => assert.doesNotMatch(world?.machine.ip('-br link') ?? '', /vp[0-9a-f]{12}/));
    assert.equal(forwarding(), '0');
    assert.equal(readFileSync('/proc/sys/net/ipv6/conf/up0/force_forwarding', 'utf8').trim(), '0');
    assert.deepEqual(existsSync(path.join(dir, 'one/network/leases')), false);
    assert.equal(await tables(), '');
  });

  test('a machine that became a router meanwhile stays one; a damaged record of the range is chosen anew', async () => {
    const of = (link: string) => `/proc/sys/net/ipv4/conf/${link}/forwarding`;
    await mkdir(path.join(dir, 'five/network'), { recursive: true });
    await writeFile(path.join(dir, 'five/network/network.json'), '{"ipv4":"10.2');
    const five = await started('five');
    assert.match(five.summary, /^pod network /);
    assert.equal(readFileSync(of('up0'), 'utf8').trim(), '1');
    writeFileSync(of('all'), '1');
    await five.stop();
    assert.equal(readFileSync(of('up0'), 'utf8').trim(), '1');
    writeFileSync(of('all'), '0');
    assert.deepEqual(bridges(), []);
  });

  test('what the machine routes by its owner’s will from later on is not kept back', async () => {
    const six = await started('six');
    assert.match(rules(), /iifname "up0" meta nfproto ipv4 oifname != "vn-\*" drop/);
    writeFileSync('/proc/sys/net/ipv4/conf/all/forwarding', '1');
    await six.join('r1', 'r1', 'default');
    assert.doesNotMatch(rules(), /nfproto ipv4 oifname != "vn-\*"/);
    assert.match(rules(), /nfproto ipv6 oifname != "vn-\*"/);
    writeFileSync('/proc/sys/net/ipv4/conf/all/forwarding', '0');
    await six.join('r2', 'r2', 'default');
    assert.match(rules(), /nfproto ipv4 oifname != "vn-\*" drop/);
    assert.equal(forwarding(), '1');
    await six.stop();
  });

  test('a VPN that comes later is named when it is in the way, and later pods send no more than it takes', async () => {
    const clock = new FakeClock();
    const seven = await started('seven', 'auto', clock);
    assert.equal((await seven.join('m1', 'm1', 'default'))?.mtu, 1500);
    world?.machine.ip('route add 10.201.0.0/16 dev up0');
    world?.machine.ip('link set up0 mtu 1400');
    await eventually(async () => {
      clock.advance(20_000);
      assert.match((await seven.warnings()).join(), /the machine has a route to 10\.201\.0\.0\/16, which pods/);
      assert.equal((await seven.join('m2', 'm2', 'default'))?.mtu, 1400);
    }, 30_000);
    world?.machine.ip('route del 10.201.0.0/16 dev up0');
    world?.machine.ip('link set up0 mtu 1500');
    await eventually(async () => {
      clock.advance(20_000);
      assert.deepEqual(await seven.warnings(), []);
    }, 30_000);
    await seven.stop();
  });

  test('a firewall that rejects all at its end is named, until it lets the bridge pass', async () => {
    const eight = await started('eight');
    const nft = (...words: string[]) => execFileSync('nft', words);
    nft('add table inet fw');
    nft('add chain inet fw out { type filter hook forward priority 10; }');
    nft('add rule inet fw out ct state established accept');
    nft('add rule inet fw out tcp dport 25 reject');
    assert.deepEqual(await eight.warnings(), []);
    nft('add rule inet fw out counter reject with icmpx type admin-prohibited');
    assert.match(
      (await eight.warnings()).join(),
      /^a firewall drops .*\(chain inet fw out\): guests may not reach outside/,
    );
    nft(`insert rule inet fw out iifname "${bridges()[0]}" accept`);
    assert.deepEqual(await eight.warnings(), []);
    nft('delete table inet fw');
    await eight.stop();
  });

  test('a pod that comes while the node stops brings nothing back, and gets no network of the machine', async () => {
    const nine = await started('nine');
    world?.machine.ip(`link delete ${bridges()[0]}`);
    const [joined, , late] = await Promise.allSettled([
      nine.join('s1', 's1', 'default'),
      nine.stop(),
      nine.join('s2', 's2', 'default'),
    ]);
    assert.equal(joined.status, 'fulfilled');
    assert.match(String(late.status === 'rejected' && late.reason), /POD_NETWORK|the node is being stopped/);
    assert.deepEqual([bridges(), await tables()], [[], '']);
  });

  test('--pod-network=none takes away a bridge that a killed node left', async () => {
    const { bridge } = namesOf(path.join(dir, 'ten'));
    world?.machine.ip(`link add name ${bridge} type bridge`);
    assert.equal(
      (await started('ten', 'none')).summary,
      'no pod network, guests have user networking: --pod-network=none',
    );
    assert.deepEqual(bridges(), []);
  });

  async function tables(): Promise<string> {
    const child = spawn('nft', ['list', 'tables'], { stdio: ['ignore', 'pipe', 'ignore'] });
    let text = '';
    child.stdout.on('data', (chunk) => {
      text += chunk;
    });
    await new Promise((resolve) => child.once('close', resolve));
    return text;
  }
});
