import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { randomBytes, X509Certificate } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, readlinkSync, rmSync, writeFileSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import tls from 'node:tls';
import { bundleProgram } from '../../../scripts/bundle.mjs';
import { clientCommonName, readAuthorities } from '../../../src/tls/index.ts';
import { TestAuthority } from '../../fixtures/certificates.ts';
import { eventually } from '../../fixtures/eventually.ts';
import type { ProxyAgentStart } from '../../fixtures/migration-proxy-main.ts';
import { closed, ProxyNode, TestMove, withoutProxies } from '../../fixtures/migration-proxy-node.ts';
import { RootedLauncher } from '../../fixtures/rooted-launcher.ts';

describe('the life of a migration’s proxies', { skip: withoutProxies }, () => {
  let authority: TestAuthority;
  before(async () => {
    authority = await TestAuthority.make();
  });
  after(() => authority.remove());

  async function world(t: { after: (work: () => unknown) => void }, options?: { stallSeconds: number }) {
    const [source, target] = [await RootedLauncher.start(t), await RootedLauncher.start(t)];
    const [from, to] = [await ProxyNode.make(t, authority, options), await ProxyNode.make(t, authority)];
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
    return { source, target, from, to, move, name, arrived, stream };
  }

  test('streams go on while both agents are away, and the next ones adopt them', async (t) => {
    const { from, to, move, arrived, stream } = await world(t);
    await move.open([0, 49_152]);
    const socket = await stream();
    const [ports, pids] = [to.proxies.targetPorts(move.uid), [...from.pids, ...to.pids]];
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
    assert.deepEqual([...from.pids, ...to.pids], pids);
    assert.deepEqual(to.proxies.targetPorts(move.uid), ports);
    assert.ok(from.proxies.hasSource(move.uid));
    // The rules ask for it again: it is there.
    await move.open([0, 49_152]);
    assert.deepEqual([...from.pids, ...to.pids], pids);
    await send();
    await eventually(() => assert.equal(got, 5 + 6 * piece.length), 30_000);
    const end = closed(socket);
    await to.proxies.closeTarget(move.uid);
    await end;
    await from.proxies.closeSource(move.uid);
    assert.deepEqual([from.records, to.records], [[], []]);
  });

  test('an agent that is killed in mid-stream is no end: the next one has its streams', async (t) => {
    const { to, from, target, move, arrived, stream } = await world(t);
    const { uid } = move;
    const program = path.join(mkdtempSync(path.resolve('.build', 'killed-agent-')), 'agent.mjs');
    t.after(() => rmSync(path.dirname(program), { recursive: true }));
    await bundleProgram('../../test/fixtures/migration-proxy-main', program);
    await to.proxies.stop();
    const agent = spawn(process.execPath, [program], { stdio: ['pipe', 'pipe', 'inherit'] });
    const start: ProxyAgentStart = {
      ...{ directory: to.state, authorities: authority.pair.cert, certificates: to.certificates },
      proxy: { key: move.key, uid, migrationUid: move.migrationUid, launcherPid: target.pid, roles: [0, 49_152] },
    };
    agent.stdin.end(JSON.stringify(start));
    const [line] = await once(agent.stdout, 'data');
    const ports = JSON.parse(String(line));
    await move.openSource({ ports });
    const socket = await stream();
    agent.kill('SIGKILL');
    await once(agent, 'exit');
    const more = once(arrived[0] ?? socket, 'data');
    socket.write('more');
    await more;
    await to.restart();
    assert.deepEqual(to.proxies.targetPorts(uid), ports);
    assert.equal(to.proxies.migrationOf('target', uid), move.migrationUid);
    await move.openTarget([0, 49_152]);
    assert.deepEqual([to.proxies.targetPorts(uid), from.proxies.hasSource(uid)], [ports, true]);
    const end = closed(socket);
    await to.proxies.closeTarget(uid);
    await end;
  });

  test('the last word through a target that is closed reaches the source: the proxy passes on what it has, and then ends', async (t) => {
    const { to, from, move, arrived, stream } = await world(t);
    await move.open([0, 49_152]);
    const socket = await stream();
    const [pid = 0] = to.pids;
    const words: Buffer[] = [];
    socket.on('data', (data: Buffer) => words.push(data));
    // A busy machine: the proxy gets no time until it is told to end.
    process.kill(pid, 'SIGSTOP');
    await new Promise((resolve) => arrived[0]?.write('the guest runs here', resolve));
    const end = to.proxies.closeTarget(move.uid);
    process.kill(pid, 'SIGCONT');
    await eventually(() => assert.equal(Buffer.concat(words).toString(), 'the guest runs here'), 10_000);
    socket.end();
    arrived[0]?.end();
    await end;
    assert.deepEqual(to.records, []);
    await from.proxies.closeSource(move.uid);
  });

  test('a stream that is not ended holds no target up: it is cut in the end', async (t) => {
    const { to, move, stream } = await world(t);
    await move.open([0, 49_152]);
    const cut = closed(await stream());
    await to.proxies.closeTarget(move.uid);
    await cut;
    assert.deepEqual([to.records, to.pids], [[], []]);
  });

  test('a stream whose other end is frozen ends', async (t) => {
    const { to, move, stream } = await world(t, { stallSeconds: 2 });
    await move.open([0, 49_152]);
    const socket = await stream();
    const [pid = 0] = to.pids;
    process.kill(pid, 'SIGSTOP');
    const end = closed(socket);
    const piece = randomBytes(1_000_000);
    const write = () => socket.writable && socket.write(piece, (error) => error ?? write());
    write();
    await end;
  });

  test('other roles, or another launcher, replace what is there; a refused agent keeps what is open', async (t) => {
    const { to, target, move } = await world(t);
    await move.openTarget([0, 49_152]);
    const [first] = to.pids;
    await move.openTarget([49_152, 0]);
    assert.deepEqual(to.pids, [first]);
    await move.openTarget();
    const [second] = to.pids;
    assert.notEqual(second, first);
    const other = await RootedLauncher.start(t);
    const { key, uid, migrationUid } = move;
    const proxy = { key, uid, migrationUid, launcherPid: other.pid, roles: [0, 49_152, 49_153] } as const;
    await to.proxies.openTarget(proxy, new AbortController().signal);
    assert.equal(to.pids.length, 1);
    assert.notEqual(to.pids[0], second);
    to.proxies.refuse('it leaves');
    await to.proxies.openTarget(proxy, new AbortController().signal);
    await assert.rejects(move.openTarget(), { code: 'UNAVAILABLE', message: 'it leaves' });
    assert.equal(to.proxies.open, 1);
    assert.ok(target.pid > 0);
  });

  test('a process that is killed is noticed, its peer’s streams end, and it can be opened again', async (t) => {
    const { from, move, stream } = await world(t);
    await move.open([0, 49_152]);
    const socket = await stream();
    const changed: string[] = [];
    from.proxies.onChange((key) => changed.push(key));
    const end = closed(socket);
    for (const pid of from.pids) process.kill(pid, 'SIGKILL');
    await end;
    await eventually(() => assert.deepEqual(changed, [move.key]), 30_000);
    assert.equal(from.proxies.hasSource(move.uid), false);
    await move.openSource();
    (await stream()).destroy();
  });

  test('streams of a launcher that has ended are closed, also when it ended while no agent was there', async (t) => {
    const { from, to, source, target, move } = await world(t);
    await move.open([0, 49_152]);
    await target.end();
    await eventually(() => assert.deepEqual([to.proxies.open, to.records], [0, []]), 30_000);
    const [pid = 0] = from.pids;
    await from.proxies.stop();
    await source.end();
    await from.restart();
    assert.deepEqual([from.proxies.open, from.records], [0, []]);
    assert.throws(() => process.kill(pid, 0), { code: 'ESRCH' });
    await assert.rejects(move.openTarget(), { code: 'LAUNCHER_GONE' });
  });

  test('records of others, and of processes that do not answer, are no one’s streams', async (t) => {
    const { to, move } = await world(t);
    await move.openTarget([0]);
    const [pid = 0] = to.pids;
    await to.proxies.stop();
    writeFileSync(path.join(to.state, 'torn.json'), '{"version":1,');
    rmSync(path.join(to.state, `${move.uid}-target.sock`));
    await to.restart();
    assert.deepEqual([to.proxies.open, to.records], [0, []]);
    await eventually(() => assert.throws(() => process.kill(pid, 0), { code: 'ESRCH' }), 30_000);
  });

  test('a process whose record is torn, or was never written, is ended by the next agent', async (t) => {
    for (const spoil of [(file: string) => writeFileSync(file, '{"version":1,'), (file: string) => rmSync(file)]) {
      const { to, move } = await world(t);
      await move.openTarget([0]);
      const [pid = 0] = to.pids;
      await to.proxies.stop();
      spoil(path.join(to.state, `${move.uid}-target.json`));
      await to.restart();
      assert.deepEqual([to.proxies.open, to.records], [0, []]);
      await eventually(() => assert.throws(() => process.kill(pid, 0), { code: 'ESRCH' }), 30_000);
    }
  });

  test('a start that is given up, or cannot succeed, leaves nothing', async (t) => {
    const { to, from, move } = await world(t);
    const ended = new AbortController();
    const opening = move.openTarget([0], ended.signal);
    await eventually(() => assert.equal(to.pids.length, 1), 30_000);
    ended.abort(new Error('given up'));
    await opening.catch(() => to.proxies.closeTarget(move.uid));
    await to.proxies.closeTarget(move.uid);
    assert.deepEqual([to.records, to.proxies.open], [[], 0]);
    const broken = await ProxyNode.make(t, authority, { find: () => '/bin/false' });
    await assert.rejects(new TestMove(from, broken, [1, process.pid]).openTarget([0]), { code: 'START_FAILED' });
    assert.deepEqual([broken.records, broken.proxies.open], [[], 0]);
  });

  test('a missing program and missing certificates are said in words', async (t) => {
    const without = await ProxyNode.make(t, authority, { find: () => undefined });
    assert.equal(without.proxies.supported, false);
    assert.match(without.proxies.unavailable ?? '', /install the package haproxy/);
    const { to, move } = await world(t);
    assert.deepEqual([to.proxies.supported, to.proxies.unavailable], [true, undefined]);
    rmSync(path.join(to.dir, 'server.crt'));
    await eventually(() =>
      assert.match(to.proxies.unavailable ?? '', /certificates of migrations are not there: .*server\.crt/),
    );
    await assert.rejects(move.openTarget(), { code: 'UNAVAILABLE' });
    assert.deepEqual([to.records, to.proxies.open], [[], 0]);
  });

  test('certificates and authorities that were exchanged count for the next processes', async (t) => {
    const next = await TestAuthority.make();
    t.after(() => next.remove());
    const { to, move } = await world(t);
    const shown = async () => {
      await move.openTarget([0]);
      const pair = await authority.issue({ commonName: clientCommonName });
      const socket = tls.connect({ port: move.port(0), host: '127.0.0.1', rejectUnauthorized: false, ...pair });
      await once(socket, 'secureConnect');
      const { fingerprint256 } = socket.getPeerCertificate();
      socket.destroy();
      await to.proxies.closeTarget(move.uid);
      return fingerprint256;
    };
    const first = await shown();
    const pair = await to.certify();
    to.authorities.set(readAuthorities(`${authority.pair.cert}${next.pair.cert}`));
    const second = await shown();
    assert.notEqual(second, first);
    assert.equal(second, new X509Certificate(pair.cert).fingerprint256);
  });

  test('each process has given up its rights and sees no file but those of its pod', async (t) => {
    const { from, to, move, target } = await world(t);
    await move.open([0, 49_152]);
    const facts = (pid: number) => [
      /^Uid:\t(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'latin1'))?.[1],
      /^CapEff:\t(\w+)/m.exec(readFileSync(`/proc/${pid}/status`, 'latin1'))?.[1],
      readlinkSync(`/proc/${pid}/root`),
    ];
    const none = '0'.repeat(16);
    assert.deepEqual(to.pids.map(facts), [['107', none, target.dir]]);
    assert.deepEqual(from.pids.map(facts), [['65534', none, path.join(from.state, 'empty')]]);
    assert.ok(to.pids.every((pid) => !readFileSync(`/proc/${pid}/cmdline`, 'latin1').includes('KEY')));
  });
});
