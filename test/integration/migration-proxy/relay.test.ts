import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { chmodSync, mkdirSync, mkdtempSync, rmSync, statSync } from 'node:fs';
import { connect, createServer, type Socket } from 'node:net';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { RelayedProxies } from '../../../src/agent/migration-proxy/index.ts';
import { errorMessage, silentLogger, systemClock } from '../../../src/base/index.ts';
import { isProcessAlive, type ProcessId, processIdOf } from '../../../src/host/index.ts';
import { TestAuthority } from '../../fixtures/certificates.ts';
import { eventually } from '../../fixtures/eventually.ts';
import { closed, ProxyNode, TestMove, withoutProxies } from '../../fixtures/migration-proxy-node.ts';
import { RelayBundle, RelayProgram, relayCapabilities } from '../../fixtures/relay-program.ts';
import { RootedLauncher } from '../../fixtures/rooted-launcher.ts';

type Test = { after: (work: () => unknown) => void };

const nobody = 65_534;
/** As another user: connects to a socket, and prints what it is told until that ends. */
const stranger = `
  use Socket;
  $) = "${nobody} ${nobody}"; $( = ${nobody}; $< = $> = ${nobody};
  socket(my $s, PF_UNIX, SOCK_STREAM, 0); connect($s, pack_sockaddr_un($ARGV[0])) or die "no connection: $!";
  print "connected\\n"; print while <$s>;
`;
/** As another user: listens on a socket, and prints what it is told. */
const impostor = `
  use Socket;
  $) = "${nobody} ${nobody}"; $( = ${nobody}; $< = $> = ${nobody}; $| = 1;
  socket(my $s, PF_UNIX, SOCK_STREAM, 0); bind($s, pack_sockaddr_un($ARGV[0])) or die "no socket: $!"; listen($s, 9);
  print "listens\\n";
  while (accept(my $c, $s)) { print "met\\n"; print while <$c>; }
`;

/** What is said without a capability. */
const needs: Readonly<Record<string, RegExp>> = {
  CHOWN: /EPERM: .*chown/,
  DAC_OVERRIDE: /listen EACCES/,
  FOWNER: /EPERM: .*chmod/,
  // Both run on.
  KILL: /\+ {3}true,\n\+ {3}true\n/,
  SETGID: /Cannot set gid/,
  SETUID: /Cannot set uid/,
  SYS_CHROOT: /Cannot chroot/,
  SYS_PTRACE: /Cannot chroot\(\/proc\/\d+\/root/,
};

describe('the relay of migrations', { skip: withoutProxies }, () => {
  let authority: TestAuthority;
  let bundle: RelayBundle;
  before(async () => {
    authority = await TestAuthority.make();
    bundle = await RelayBundle.make();
  });
  after(async () => {
    bundle?.remove();
    await authority?.remove();
  });

  function relayIn(t: Test): RelayProgram {
    const dir = mkdtempSync('/tmp/relay-');
    const relay = new RelayProgram(bundle, path.join(dir, 'migration-relay'));
    t.after(async () => {
      await relay.endContainer();
      rmSync(dir, { recursive: true, force: true });
    });
    return relay;
  }

  async function served(t: Test, capabilities?: readonly string[]) {
    const relay = relayIn(t);
    await relay.start(capabilities);
    return relay;
  }

  async function world(t: Test) {
    const [source, target] = [await RootedLauncher.start(t), await RootedLauncher.start(t)];
    const relays = [await served(t), await served(t)] as const;
    const nodes = await Promise.all(relays.map((relay) => ProxyNode.make(t, authority, { relay: relay.directory })));
    const [from, to] = nodes as [ProxyNode, ProxyNode];
    const move = new TestMove(from, to, [source.pid, target.pid]);
    const name = `${move.uid}-49152-source.sock`;
    const arrived: Socket[] = [];
    await target.serve(target.socket(name), (socket) => arrived.push(socket));
    const stream = async () => {
      const socket = connect(source.socket(name));
      socket.on('error', () => undefined);
      socket.write('begin');
      await eventually(() => assert.ok(arrived.at(-1)), 30_000);
      return socket;
    };
    const pids = () => relays.flatMap((relay) => relay.pids);
    return { source, target, relays, from, to, move, arrived, stream, pids };
  }

  /** A relay and its agent, for what needs no second node. */
  async function single(t: Test) {
    const launcher = await RootedLauncher.start(t);
    const relay = await served(t);
    const node = await ProxyNode.make(t, authority, { relay: relay.directory });
    const move = new TestMove(node, node, [launcher.pid, launcher.pid]);
    return { launcher, relay, node, move };
  }

  test('streams go on while both agents are away, and the next ones find them as they were', async (t) => {
    const { from, to, move, arrived, stream, pids } = await world(t);
    assert.deepEqual([from.proxies.unavailable, from.proxies.supported], [undefined, true]);
    assert.ok(from.proxies.outliveAgent);
    await move.open([0, 49_152]);
    const socket = await stream();
    const [ports, started] = [to.proxies.targetPorts(move.uid), pids()];
    assert.equal(started.length, 2);
    let got = 0;
    arrived[0]?.on('data', (data: Buffer) => {
      got += data.length;
    });
    const piece = randomBytes(1_000_000);
    const send = () => new Promise((resolve) => socket.write(piece, resolve));
    for (const node of [from, to]) await node.proxies.stop();
    for (let i = 0; i < 5; i++) await send();
    await eventually(() => assert.equal(got, 5 + 5 * piece.length), 30_000);
    for (const node of [from, to]) await node.restart();
    assert.deepEqual(to.proxies.targetPorts(move.uid), ports);
    assert.deepEqual([from.proxies.hasSource(move.uid), from.proxies.open], [true, 1]);
    assert.equal(from.proxies.migrationOf('source', move.uid), move.migrationUid);
    await eventually(() => assert.ok((to.proxies.figures()[0]?.bytes ?? 0) > 5 * piece.length), 30_000);
    // The rules ask for it again: it is there.
    await move.open([0, 49_152]);
    assert.deepEqual(pids(), started);
    await send();
    await eventually(() => assert.equal(got, 5 + 6 * piece.length), 30_000);
    const end = closed(socket);
    await to.proxies.closeTarget(move.uid);
    await end;
    await from.proxies.closeSource(move.uid);
    assert.deepEqual([from.records, to.records, pids()], [[], [], []]);
    assert.deepEqual([from.proxies.open, to.proxies.targetPorts(move.uid)], [0, undefined]);
  });

  test('a relay that is killed alone is missed in words, and nothing that it kept is forgotten; the next one takes it up', async (t) => {
    const { relays, from, to, move, arrived, stream, pids } = await world(t);
    await move.open([0, 49_152]);
    const socket = await stream();
    const [ports, started] = [to.proxies.targetPorts(move.uid), pids()];
    for (const relay of relays) await relay.kill();
    await eventually(() => assert.match(to.proxies.unavailable ?? '', /relay of this node does not answer/), 30_000);
    assert.ok(to.proxies.supported);
    const more = once(arrived[0] ?? socket, 'data');
    socket.write('more');
    await more;
    assert.deepEqual([to.proxies.targetPorts(move.uid), from.proxies.hasSource(move.uid)], [ports, true]);
    await assert.rejects(to.proxies.closeTarget(move.uid), { code: 'UNAVAILABLE' });
    await assert.rejects(move.openTarget(), { code: 'UNAVAILABLE', message: /relay of this node does not answer/ });
    for (const relay of relays) await relay.start();
    await eventually(() => assert.equal(to.proxies.unavailable, undefined), 30_000);
    await eventually(() => assert.equal(from.proxies.unavailable, undefined), 30_000);
    assert.deepEqual([pids(), to.proxies.targetPorts(move.uid)], [started, ports]);
    const end = closed(socket);
    await to.proxies.closeTarget(move.uid);
    await end;
  });

  test('a relay whose container ends takes its streams with it, which its agent sees without it', async (t) => {
    const { relays, from, move, stream } = await world(t);
    await move.open([0, 49_152]);
    const socket = await stream();
    const changed: string[] = [];
    from.proxies.onChange((key) => changed.push(key));
    const end = closed(socket);
    await relays[0].endContainer();
    await end;
    await eventually(() => assert.deepEqual([changed, from.proxies.open], [[move.key], 0]), 30_000);
    await from.proxies.closeSource(move.uid);
    await relays[0].start();
    await eventually(() => assert.equal(from.proxies.unavailable, undefined), 30_000);
    await move.openSource();
    (await stream()).destroy();
  });

  test('an agent without its relay starts, says so, and refuses each migration before it begins', async (t) => {
    const [launcher, relay] = [await RootedLauncher.start(t), relayIn(t)];
    const node = await ProxyNode.make(t, authority, { relay: relay.directory });
    const words = /does not answer \(.*ENOENT.*DaemonSet virt-handler-migration-relay/;
    assert.match(node.proxies.unavailable ?? '', words);
    const move = new TestMove(node, node, [launcher.pid, launcher.pid]);
    await assert.rejects(move.openTarget(), { code: 'UNAVAILABLE', message: words });
    await node.proxies.closeTarget(move.uid);
    await relay.start();
    await eventually(() => assert.equal(node.proxies.unavailable, undefined), 30_000);
    await move.openTarget();
    assert.equal(node.proxies.address, '127.0.0.1');
  });

  test('what the relay refuses comes back in its words, and leaves nothing', async (t) => {
    const { node, launcher, move } = await single(t);
    await move.openTarget();
    await assert.rejects(move.openSource({ address: '10.0.0.1\n  bind :1' }), { code: 'BAD_REQUEST' });
    await node.proxies.closeTarget(move.uid);
    mkdirSync(path.join(launcher.socket(`${move.uid}-source.sock`), 'in-the-way'), { recursive: true });
    await assert.rejects(move.openSource({ ports: { '1': 0 } }), { code: 'SOCKET_BLOCKED' });
    await launcher.end();
    await assert.rejects(move.openTarget(), { code: 'LAUNCHER_GONE' });
    assert.deepEqual([node.records, node.proxies.open], [[], 0]);
  });

  test('an order that is given up, or whose agent goes, leaves nothing', async (t) => {
    const { node, relay, move, launcher } = await single(t);
    const ended = new AbortController();
    const opening = move.openTarget([0], ended.signal);
    ended.abort(new Error('given up'));
    await assert.rejects(opening, /given up/);
    assert.deepEqual([node.records, node.proxies.open], [[], 0]);
    const other = new RelayedProxies(
      { directory: relay.directory, address: '' },
      { clock: systemClock, log: silentLogger },
    );
    await other.start();
    const tls = await node.credentials.forSide('target');
    const { key, uid } = move;
    const processId = processIdOf(launcher.pid);
    assert.ok(processId);
    const duty = { side: 'target', key, uid, migrationUid: 'other', launcher: processId, ports: { '0': 0 } } as const;
    // It has the order and the end of the one that gave it when it goes on.
    relay.process.kill('SIGSTOP');
    const lost = other.open(duty, tls, new AbortController().signal);
    await other.stop();
    await assert.rejects(lost, { code: 'NO_ANSWER' });
    relay.process.kill('SIGCONT');
    await move.openTarget([0]);
    assert.equal(relay.log().split('a migration proxy serves').length, 2, relay.log());
    assert.equal(relay.pids.length, 1);
  });

  test('what is no request ends its own connection only, and is told nothing but the state', async (t) => {
    const { node, relay, move } = await single(t);
    await move.openTarget();
    for (const words of [
      'no json\n',
      '{}\n',
      '{"id":1,"call":"open"}\n',
      'x'.repeat(1_100_000),
      '\0\n',
      '{"id":1,"call":"close","side":"target"}\n',
    ]) {
      const socket = connect(relay.socket);
      let got = '';
      socket.on('data', (data) => {
        got += data;
      });
      const end = closed(socket);
      socket.write(words);
      await end;
      assert.ok(
        got.split('\n').every((line) => line === '' || JSON.parse(line).version === 1),
        got,
      );
      assert.doesNotMatch(got, /PRIVATE KEY|CERTIFICATE/);
    }
    assert.doesNotMatch(relay.log(), /PRIVATE KEY|CERTIFICATE/);
    assert.equal(node.proxies.unavailable, undefined);
    await node.proxies.closeTarget(move.uid);
    assert.deepEqual(relay.pids, []);
  });

  test('the socket is root’s alone, and a process of another user that reaches it all the same is told nothing', async (t) => {
    const { node, relay, move } = await single(t);
    const modes = [relay.directory, relay.socket].map((file) => statSync(file).mode & 0o777);
    assert.deepEqual(modes, [0o700, 0o600]);
    for (const file of [path.dirname(relay.directory), relay.directory, relay.socket]) chmodSync(file, 0o777);
    const child = spawn('perl', ['-e', stranger, relay.socket], { stdio: ['ignore', 'pipe', 'inherit'] });
    let got = '';
    child.stdout.on('data', (data) => {
      got += data;
    });
    await once(child, 'exit');
    assert.equal(got, 'connected\n');
    await eventually(() => assert.match(relay.log(), new RegExp(`is user ${nobody}`)), 30_000);
    await move.openTarget();
    assert.equal(node.proxies.open, 1);
  });

  test('a socket of another user is no relay: it is sent no key, and its user is named', async (t) => {
    const [launcher, relay] = [await RootedLauncher.start(t), relayIn(t)];
    mkdirSync(relay.directory);
    for (const file of [path.dirname(relay.directory), relay.directory]) chmodSync(file, 0o777);
    const child = spawn('perl', ['-e', impostor, relay.socket], { stdio: ['ignore', 'pipe', 'inherit'] });
    t.after(() => child.kill());
    let got = '';
    child.stdout.on('data', (data) => {
      got += data;
    });
    await eventually(() => assert.equal(got, 'listens\n'), 30_000);
    const node = await ProxyNode.make(t, authority, { relay: relay.directory });
    await eventually(() => assert.match(got, /met/), 30_000);
    await assert.rejects(new TestMove(node, node, [1, launcher.pid]).openTarget(), {
      code: 'UNAVAILABLE',
      message: new RegExp(`is user ${nobody}`),
    });
    assert.match(got, /^listens\n(met\n)+$/);
  });

  test('a relay of another version is refused in words', async (t) => {
    const relay = relayIn(t);
    mkdirSync(relay.directory);
    const server = createServer((socket) => socket.end('{"version":2,"whatever":[]}\n'));
    t.after(() => server.close());
    await once(server.listen(relay.socket), 'listening');
    const node = await ProxyNode.make(t, authority, { relay: relay.directory });
    await eventually(
      () => assert.match(node.proxies.unavailable ?? '', /speaks version 2, this agent version 1: delete its pod/),
      30_000,
    );
  });

  test('a relay that is told to leave takes no migration any more, and waits for those that run', async (t) => {
    const { node, relay, move } = await single(t);
    await move.openTarget();
    const exited = once(relay.process, 'exit');
    relay.process.kill('SIGTERM');
    await eventually(() => assert.match(node.proxies.unavailable ?? '', /relay of this node is leaving/), 30_000);
    await assert.rejects(move.openSource(), { code: 'UNAVAILABLE' });
    assert.equal(relay.process.exitCode, null);
    await node.proxies.closeTarget(move.uid);
    assert.deepEqual(await exited, [0, null]);
  });

  test('a second relay does not take the place of one that serves', async (t) => {
    const { node, relay, move } = await single(t);
    await move.openTarget();
    const { pids } = relay;
    const second = new RelayProgram(bundle, relay.directory);
    await assert.rejects(second.start(), /another migration relay answers/);
    assert.deepEqual([relay.pids, node.proxies.unavailable], [pids, undefined]);
  });

  for (const name of relayCapabilities) {
    test(`without ${name} it cannot do its work: the manifest gives no right that is not used`, async (t) => {
      const [source, target] = [await RootedLauncher.start(t), await RootedLauncher.start(t)];
      const relay = await served(
        t,
        relayCapabilities.filter((each) => each !== name),
      );
      const node = await ProxyNode.make(t, authority, { relay: relay.directory });
      const move = new TestMove(node, node, [source.pid, target.pid]);
      const started: ProcessId[] = [];
      t.after(() => {
        for (const each of started.filter((each) => isProcessAlive(each))) process.kill(each.pid, 'SIGKILL');
      });
      const work = async () => {
        await move.open([0]);
        started.push(...relay.processes);
        await node.proxies.closeSource(move.uid);
        await node.proxies.closeTarget(move.uid);
        assert.deepEqual(
          started.map((each) => isProcessAlive(each)),
          [false, false],
        );
      };
      const words = await work().then(() => 'it works', errorMessage);
      assert.match(words, needs[name] ?? /a reason is missing/);
    });
  }
});
