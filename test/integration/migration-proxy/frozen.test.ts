import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { connect, type Socket } from 'node:net';
import { after, before, describe, test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { ControlConnection } from '../../../src/agent/migration-proxy/control-connection.ts';
import { TestAuthority } from '../../fixtures/certificates.ts';
import { eventually } from '../../fixtures/eventually.ts';
import { closed, ProxyNode, TestMove, withoutProxies } from '../../fixtures/migration-proxy-node.ts';
import { OwnNetwork } from '../../fixtures/own-network.ts';
import { RelayBundle, RelayProgram } from '../../fixtures/relay-program.ts';
import { RootedLauncher } from '../../fixtures/rooted-launcher.ts';

type Test = { after: (work: () => unknown) => void };
type Side = 'source' | 'target';

const stallSeconds = 3;
/** A peer that alone would notice nothing in the time of a test. */
const patientSeconds = 600;
/** For what a busy machine does beside it. */
const noticedMs = (stallSeconds + 12) * 1000;

/** What freezes is noticed by the agent of the frozen side, or by the other end: each is shown alone. */
describe('streams that are frozen', { skip: withoutProxies }, () => {
  let authority: TestAuthority;
  let network: OwnNetwork;
  before(async () => {
    // Packets are dropped in it, and all that the test starts is in it.
    network = new OwnNetwork();
    network.enter();
    authority = await TestAuthority.make();
  });
  after(async () => {
    await authority?.remove();
    network?.remove();
  });

  async function world(t: Test, stall: Partial<Record<Side, number>>) {
    const [source, target] = [await RootedLauncher.start(t), await RootedLauncher.start(t)];
    const node = (side: Side) => ProxyNode.make(t, authority, { stallSeconds: stall[side] ?? patientSeconds });
    const [from, to] = [await node('source'), await node('target')];
    const move = new TestMove(from, to, [source.pid, target.pid]);
    await move.open([0, 49_152]);
    return { source, target, from, to, move, ...(await streamsOf(move, source, target)) };
  }

  /** The stream of memory with its two ends, and one of libvirt. */
  async function streamsOf({ uid }: TestMove, source: RootedLauncher, target: RootedLauncher) {
    const name = `${uid}-49152-source.sock`;
    const arrived: Socket[] = [];
    const words: Socket[] = [];
    await target.serve(target.socket(name), (socket) => arrived.push(socket));
    await target.serve(target.libvirtSocket, (socket) => words.push(socket));
    const opened = async (file: string, ends: Socket[]) => {
      const seen = ends.length;
      const near = connect(source.socket(file));
      near.on('error', () => undefined).write('begin');
      await eventually(() => assert.ok(ends.length > seen), 30_000);
      const far = ends.at(-1);
      assert.ok(far);
      return { near, far };
    };
    return { memory: () => opened(name, arrived), libvirt: () => opened(`${uid}-source.sock`, words) };
  }

  for (const side of ['source', 'target'] as const) {
    test(`the ${side}’s process is frozen: it is killed in time, both ends are told, and it is opened anew`, async (t) => {
      const { from, to, move, memory } = await world(t, { [side]: stallSeconds });
      const { near, far } = await memory();
      const node = side === 'source' ? from : to;
      const changed: string[] = [];
      node.proxies.onChange((key) => changed.push(key));
      const [pid = 0] = node.pids;
      far.once('end', () => far.destroy());
      const ends = [closed(near), closed(far)];
      process.kill(pid, 'SIGSTOP');
      const frozenMs = performance.now();
      await Promise.all(ends);
      assert.ok(performance.now() - frozenMs < noticedMs, `after ${performance.now() - frozenMs} ms`);
      await eventually(() => assert.deepEqual(node.records, []), 30_000);
      assert.throws(() => process.kill(pid, 0), { code: 'ESRCH' });
      assert.deepEqual(changed, [move.key]);
      await move.open([0, 49_152]);
      (await memory()).near.destroy();
    });
  }

  test('why the source’s streams were ended is known for that migration alone', async (t) => {
    const { from, to, move } = await world(t, { source: stallSeconds });
    const { uid, migrationUid } = move;
    assert.equal(from.proxies.sourceEnded(uid), undefined);
    for (const pid of from.pids) process.kill(pid, 'SIGSTOP');
    const reason = `stream frozen: the source's migration proxy did not answer for ${stallSeconds} s`;
    const ended = { side: 'source', uid, migrationUid, reason };
    await eventually(() => assert.deepEqual(from.proxies.sourceEnded(uid), ended), 30_000);
    assert.equal(to.proxies.sourceEnded(uid), undefined);
    await eventually(() => assert.equal(from.proxies.hasSource(uid), false), 30_000);
    await move.openSource();
    assert.deepEqual(from.proxies.sourceEnded(uid), ended);
    await from.proxies.closeSource(uid);
    const next = new TestMove(from, to, move.pids, uid);
    await next.openSource();
    assert.equal(from.proxies.sourceEnded(uid), undefined);
  });

  test('a process that goes on in time is left alone', async (t) => {
    const { from, to, memory } = await world(t, { source: patientSeconds, target: patientSeconds });
    const { near, far } = await memory();
    const before = [...from.pids, ...to.pids];
    for (const pid of before) process.kill(pid, 'SIGSTOP');
    near.write('more');
    for (const pid of before) process.kill(pid, 'SIGCONT');
    let got = '';
    far.on('data', (data: Buffer) => {
      got += data.toString();
    });
    await eventually(() => assert.equal(got, 'beginmore'), 30_000);
    assert.deepEqual([...from.pids, ...to.pids], before);
  });

  test('an agent that itself stood still takes no process for a frozen one', async (t) => {
    const { from, move } = await world(t, {});
    const [pid = 0] = from.pids;
    const control = await ControlConnection.open(from.state, `${move.uid}-source.sock`);
    t.after(() => control.close());
    process.kill(pid, 'SIGSTOP');
    const asked = control.figures(300);
    await setImmediate();
    process.kill(pid, 'SIGCONT');
    // This thread sleeps; the answer is there when it goes on, and its time is over.
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1_000);
    assert.deepEqual((await asked).map(({ role }) => role).sort(), ['0', '49152']);
  });

  test('a machine that stood still as a whole: the process gets the time for its answer once more, and only once', async (t) => {
    const { from, move } = await world(t, {});
    const [pid = 0] = from.pids;
    const control = await ControlConnection.open(from.state, `${move.uid}-source.sock`);
    t.after(() => control.close());
    process.kill(pid, 'SIGSTOP');
    const asked = control.figures(500);
    await setImmediate();
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1_700);
    // It is this one's turn first.
    setTimeout(() => process.kill(pid, 'SIGCONT'), 100);
    assert.deepEqual((await asked).map(({ role }) => role).sort(), ['0', '49152']);
    process.kill(pid, 'SIGSTOP');
    const again = control.figures(500);
    await setImmediate();
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1_700);
    await assert.rejects(again, { code: 'NO_ANSWER' });
    process.kill(pid, 'SIGCONT');
  });

  test('memory that does not move is seen, whatever libvirt says meanwhile; also when it moves again', async (t) => {
    const { from, to, move, memory, libvirt } = await world(t, { source: stallSeconds, target: stallSeconds });
    const { uid } = move;
    const { near, far } = await memory();
    const { near: words } = await libvirt();
    const said = setInterval(() => words.write('alive'), 200);
    t.after(() => clearInterval(said));
    const changed: string[] = [];
    from.proxies.onChange((key) => changed.push(key));
    await eventually(() => assert.ok(from.proxies.sourceStalledSeconds(uid) >= 10), 60_000);
    assert.deepEqual(changed, [move.key]);
    assert.equal(to.proxies.sourceStalledSeconds(uid), 0, 'it is the source’s word');
    near.write('more');
    await eventually(() => assert.equal(from.proxies.sourceStalledSeconds(uid), 0), 30_000);
    assert.deepEqual(changed, [move.key, move.key]);
    for (const end of [near, far]) end.destroy();
    await eventually(() => assert.equal(from.proxies.figures()[0]?.streams, 1), 30_000);
    assert.equal(from.proxies.sourceStalledSeconds(uid), 0);
  });

  for (const [what, write] of [
    ['memory is on its way', (socket: Socket) => sendWithoutEnd(socket)],
    ['all is silent', () => undefined],
  ] as const) {
    test(`the network swallows everything: streams end in time at both ends, while ${what}`, async (t) => {
      const { memory } = await world(t, { source: stallSeconds, target: stallSeconds });
      const { near, far } = await memory();
      far.once('end', () => far.destroy());
      const ends = [closed(near), closed(far)];
      const frozenMs = performance.now();
      const heal = swallow();
      t.after(heal);
      write(near);
      await Promise.all(ends);
      assert.ok(performance.now() - frozenMs < noticedMs, `after ${performance.now() - frozenMs} ms`);
      heal();
    });
  }

  test('a relay replaces what is frozen by its own flag, and its agent knows why', async (t) => {
    const bundle = await RelayBundle.make();
    t.after(() => bundle.remove());
    const launcher = await RootedLauncher.start(t);
    const relay = await RelayProgram.temporary(t, bundle, ['--migration-stall-seconds', '5']);
    const node = await ProxyNode.make(t, authority, { relay: relay.directory });
    const move = new TestMove(node, node, [launcher.pid, launcher.pid]);
    await move.open([0, 49_152]);
    const { uid, migrationUid } = move;
    const [, source] = [...relay.pids].sort((a, b) => a - b);
    process.kill(source ?? 0, 'SIGSTOP');
    const reason = "stream frozen: the source's migration proxy did not answer for 5 s";
    const ended = { side: 'source', uid, migrationUid, reason };
    await eventually(() => assert.deepEqual(node.proxies.sourceEnded(uid), ended), 30_000);
    await eventually(() => assert.equal(node.proxies.hasSource(uid), false), 30_000);
    assert.ok(node.proxies.targetPorts(uid), 'the other side is not touched');
  });
});

function sendWithoutEnd(socket: Socket): void {
  const piece = randomBytes(1_000_000);
  const write = () => socket.writable && socket.write(piece, (error) => error ?? write());
  write();
}

/** Drops what TCP sends, in the network that this test is in. */
function swallow(): () => void {
  const nft = (words: string) => execFileSync('nft', [words]);
  nft(
    'add table inet swallow; add chain inet swallow input { type filter hook input priority 0; }; add rule inet swallow input meta l4proto tcp drop',
  );
  let isHealed = false;
  return () => {
    if (!isHealed) nft('delete table inet swallow');
    isHealed = true;
  };
}
