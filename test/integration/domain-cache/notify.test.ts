import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { existsSync, lstatSync, mkdirSync, readFileSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import path from 'node:path';
import { after, before, describe, it } from 'node:test';
import { channelLimits } from '../../../src/domain-cache/index.ts';
import { eventually, stays } from '../../fixtures/eventually.ts';
import { type LauncherProgram, launcherProgram } from '../../fixtures/launcher-process.ts';
import { scriptedDomain } from '../../fixtures/scripted-launcher.ts';
import { type AgentRun, key, node, statusOf, type TestNode, uid, useTestNodes } from './node.ts';

useTestNodes();

async function attached(options: Parameters<TestNode['run']>[0] = {}): Promise<AgentRun> {
  await node.launcher(key, uid);
  const run = await node.run(options);
  await run.clients.connect(node.targetOf(key, uid));
  return run;
}

describe('the notify pipe of a launcher', () => {
  it('answers versions and takes domain events', async () => {
    const { cache, changes } = await attached();
    const notifier = node.notifier(uid);
    assert.deepEqual(await notifier.versions(), [1]);
    const before = changes.length;
    assert.deepEqual(await notifier.domainEvent('ADDED', scriptedDomain(key, uid, 'Paused', 'User')), {
      success: true,
      message: '',
    });
    assert.equal(statusOf(cache, key, uid), 'Paused');
    assert.equal(changes.length, before + 1);
  });

  it('a deletion event is proof that the domain is gone when its guest had ended, else the launcher is asked', async () => {
    const launcher = await node.launcher(key, uid);
    const { cache, clients } = await node.run();
    await clients.connect(node.targetOf(key, uid));
    const notifier = node.notifier(uid);
    const deletion = scriptedDomain(key, uid, 'NoState', 'NonExistent');
    deletion.ObjectMeta.deletionTimestamp = '2026-01-01T00:00:00Z';
    await notifier.domainEvent('MODIFIED', deletion);
    assert.equal(statusOf(cache, key, uid), 'Running', 'a guest that lives does not vanish by an event');
    launcher.domain = scriptedDomain(key, uid, 'Shutoff', 'Shutdown');
    await notifier.domainEvent('MODIFIED', launcher.domain);
    await notifier.domainEvent('MODIFIED', deletion);
    const view = cache.view(key, uid);
    assert.equal(view.kind === 'gone' && view.proof, 'launcher-says-none');
    assert.equal(view.kind === 'gone' && view.lastDomain?.Status.Status, 'Shutoff');
  });

  it('a late event does not bring back a guest that has ended; the launcher is asked, and its answer counts', async () => {
    const launcher = await node.launcher(key, uid);
    const { cache, clients } = await node.run();
    await clients.connect(node.targetOf(key, uid));
    const notifier = node.notifier(uid);
    launcher.domain = scriptedDomain(key, uid, 'Shutoff', 'Shutdown');
    await notifier.domainEvent('MODIFIED', scriptedDomain(key, uid, 'Shutoff', 'Shutdown'));
    const asked = launcher.count('getDomain');
    await notifier.domainEvent('MODIFIED', scriptedDomain(key, uid, 'Running'));
    assert.equal(statusOf(cache, key, uid), 'Shutoff');
    await eventually(() => assert.ok(launcher.count('getDomain') > asked));
    assert.equal(statusOf(cache, key, uid), 'Shutoff');
    launcher.domain = scriptedDomain(key, uid, 'Running');
    await notifier.domainEvent('MODIFIED', scriptedDomain(key, uid, 'Running'));
    await eventually(() => assert.equal(statusOf(cache, key, uid), 'Running'));
  });

  it('an unknown event type is ignored with success, an ERROR only makes us ask', async () => {
    const { cache } = await attached();
    const notifier = node.notifier(uid);
    assert.equal((await notifier.domainEvent('BOOKMARK', undefined)).success, true);
    assert.equal((await notifier.domainEvent('ERROR', undefined)).success, true);
    assert.equal(statusOf(cache, key, uid), 'Running');
  });

  it('is made where the launcher looks for it, with links taken relative to its root', async () => {
    const root = node.rootOf(uid);
    rmSync(path.join(root, 'var/run'), { recursive: true });
    mkdirSync(path.join(root, 'run/kubevirt'), { recursive: true });
    symlinkSync('/run', path.join(root, 'var/run'));
    await node.launcher(key, uid);
    const { clients } = await node.run({
      pipePath: () => ({ root, directory: 'var/run/kubevirt' }),
    });
    await clients.connect(node.targetOf(key, uid));
    assert.ok(lstatSync(path.join(root, 'run/kubevirt/domain-notify-pipe.sock')).isSocket());
    assert.equal(existsSync('/run/kubevirt/domain-notify-pipe.sock'), false);
  });

  it('replaces a link that waits in its place, and leaves its target alone', async () => {
    const precious = path.join(node.root, 'precious');
    writeFileSync(precious, 'data');
    symlinkSync(precious, node.pipeOf(uid));
    await attached();
    assert.ok(lstatSync(node.pipeOf(uid)).isSocket());
    assert.equal(readFileSync(precious, 'utf8'), 'data');
  });

  it('works below a path that is longer than a socket address', async () => {
    node.privateDir = path.join(node.root, 'p'.repeat(40));
    const root = path.join(node.root, 'r'.repeat(100));
    const directory = 'var/run/kubevirt';
    mkdirSync(path.join(root, directory), { recursive: true });
    const { cache } = await attached({ pipePath: () => ({ root, directory }) });
    const notifier = node.notifier(uid, path.join(root, directory, 'domain-notify-pipe.sock'));
    await notifier.domainEvent('MODIFIED', scriptedDomain(key, uid, 'Paused'));
    assert.equal(statusOf(cache, key, uid), 'Paused');
  });

  it('a launcher root that cannot be used fails the connection with the reason, not the agent', async () => {
    await node.launcher(key, uid);
    const { clients } = await node.run({ pipePath: () => ({ root: node.root, directory: 'not/there' }) });
    await assert.rejects(clients.connect(node.targetOf(key, uid)), { code: 'PIPE_FAILED' });
    assert.equal(clients.peek(uid), undefined);
  });

  it('is there after the clean-up until the launcher has said its last word, else that one waits for 45 s', async () => {
    const { cache, clients } = await attached();
    await clients.close(key, uid);
    cache.forget(key, uid);
    assert.deepEqual(cache.ghostRecords.all(), []);
    const domain = scriptedDomain(key, uid, 'NoState', 'NonExistent');
    domain.ObjectMeta.deletionTimestamp = '2026-01-01T00:00:00Z';
    assert.equal((await node.notifier(uid).domainEvent('MODIFIED', domain)).success, true);
    assert.deepEqual(cache.view(key), { kind: 'absent' });
    await eventually(() => assert.equal(existsSync(node.pipeOf(uid)), false));
  });
});

it('a launcher that is connected to again after a clean-up keeps its new pipe', async () => {
  const { cache, clients } = await attached();
  const ended = scriptedDomain(key, uid, 'NoState', 'NonExistent');
  ended.ObjectMeta.deletionTimestamp = '2026-01-01T00:00:00Z';
  await node.notifier(uid).domainEvent('MODIFIED', ended);
  await clients.close(key, uid);
  await clients.connect(node.targetOf(key, uid));
  // Longer than the old pipe would have lingered.
  await stays(() => assert.ok(existsSync(node.pipeOf(uid))), 500);
  const answer = await node.notifier(uid).domainEvent('MODIFIED', scriptedDomain(key, uid, 'Paused'));
  assert.equal(answer.success, true);
  assert.equal(statusOf(cache, key, uid), 'Paused');
});

describe('upstream fault 4: no launcher can end another VMI', () => {
  const victimKey = 'default/victim';
  const victimUid = 'uid-victim';

  async function withVictim() {
    const run = await attached();
    await node.launcher(victimKey, victimUid);
    await run.clients.connect(node.targetOf(victimKey, victimUid));
    return run;
  }

  it('an event for another VMI on the own channel is refused', async () => {
    const { cache } = await withVictim();
    const lie = scriptedDomain(victimKey, victimUid, 'Shutoff', 'Destroyed');
    const answer = await node.notifier(uid).domainEvent('MODIFIED', lie);
    assert.equal(answer.success, false);
    assert.equal(statusOf(cache, victimKey, victimUid), 'Running');
    assert.equal(statusOf(cache, key, uid), 'Running');
  });

  it('an event with the own name and a stale UID is refused and blocks nothing', async () => {
    const { cache } = await withVictim();
    const answer = await node.notifier(uid).domainEvent('MODIFIED', scriptedDomain(key, 'uid-of-before', 'Shutoff'));
    assert.equal(answer.success, false);
    assert.equal(statusOf(cache, key, uid), 'Running');
    assert.deepEqual(cache.otherUids(key, uid), []);
  });

  it('a Kubernetes event about another VMI is refused, about the own one it is handed on', async () => {
    const { events } = await withVictim();
    const notifier = node.notifier(uid);
    const about = (involvedUid: string) => ({
      involvedObject: { namespace: 'default', name: involvedUid === uid ? 'vm1' : 'victim', uid: involvedUid },
      type: 'Warning',
      reason: 'GuestPanicked',
      message: 'x'.repeat(5_000),
    });
    assert.deepEqual(await notifier.kubernetesEvent(about(victimUid)), { success: false, message: 'VMI not found' });
    assert.equal((await notifier.kubernetesEvent(about(uid))).success, true);
    assert.equal(events.length, 1);
    assert.deepEqual(
      { ...events[0]?.event, message: 1024 },
      { type: 'Warning', reason: 'GuestPanicked', message: 1024 },
    );
    assert.equal(events[0]?.event.message.length, 1024);
  });

  it('bad JSON is answered with success=false and the reason', async () => {
    await withVictim();
    const notifier = node.notifier(uid);
    for (const body of ['{', 'null', '[]', '['.repeat(50_000), '{"ObjectMeta":{"name":[]}}']) {
      const answer = await notifier.domainEvent('MODIFIED', Buffer.from(body));
      assert.equal(answer.success, false, body.slice(0, 20));
      assert.notEqual(answer.message, '');
    }
    assert.equal((await notifier.domainEvent('MODIFIED', scriptedDomain(key, uid))).success, true);
  });
});

describe('who is heard', () => {
  let program: LauncherProgram;
  before(async () => {
    program = await launcherProgram();
  });
  after(() => program.dispose());

  it('another process of the pod is refused on the launcher’s own pipe', async () => {
    const launcher = await program.start(node.socketOf(uid));
    await launcher.setDomain(scriptedDomain(key, uid));
    const { cache, clients } = await node.run();
    await clients.connect(node.targetOf(key, uid));
    const lie = scriptedDomain(key, uid, 'Shutoff', 'Destroyed');
    await assert.rejects(node.notifier(uid).domainEvent('MODIFIED', lie));
    assert.equal(statusOf(cache, key, uid), 'Running');
    assert.equal((await launcher.sendEvent(node.pipeOf(uid), 'MODIFIED', lie)).success, true);
    assert.equal(statusOf(cache, key, uid), 'Shutoff');
  });

  it('on the shared socket a launcher has its own identity, and a stranger none', async () => {
    const launcher = await program.start(node.socketOf(uid));
    await launcher.setDomain(scriptedDomain(key, uid));
    const { cache, clients } = await node.run();
    await clients.connect(node.targetOf(key, uid));
    const shared = path.join(node.shareDir, 'domain-notify.sock');
    const paused = scriptedDomain(key, uid, 'Paused');
    await assert.rejects(node.notifier(uid, shared).domainEvent('MODIFIED', paused));
    assert.equal((await launcher.sendEvent(shared, 'MODIFIED', paused)).success, true);
    assert.equal(statusOf(cache, key, uid), 'Paused');
    const other = await launcher.sendEvent(shared, 'MODIFIED', scriptedDomain('default/vm2', 'uid-2'));
    assert.equal(other.success, false);
  });

  it('the shared socket is made again when it was removed', async () => {
    const { cache } = await attached({ watchdogMs: 50 });
    const shared = path.join(node.shareDir, 'domain-notify.sock');
    rmSync(shared);
    await eventually(() => assert.ok(statSync(shared).isSocket()));
    assert.equal(statusOf(cache, key, uid), 'Running');
  });
});

describe('garbage and floods', () => {
  async function sendRaw(socketFile: string, bytes: Buffer): Promise<void> {
    const socket: Socket = connect(socketFile);
    socket.on('error', () => undefined);
    await once(socket, 'connect');
    const closed = once(socket, 'close');
    socket.end(bytes);
    socket.resume();
    await closed;
  }

  it('garbage on every socket costs only its connection', async () => {
    const { cache } = await attached();
    const sockets = [node.pipeOf(uid), path.join(node.shareDir, 'domain-notify.sock')];
    const preface = Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n');
    for (const socketFile of sockets) {
      await sendRaw(socketFile, Buffer.alloc(0));
      await sendRaw(socketFile, randomBytes(64 * 1024));
      await sendRaw(socketFile, Buffer.from('GET / HTTP/1.1\r\nHost: x\r\n\r\n'));
      await sendRaw(socketFile, Buffer.concat([preface, randomBytes(1024)]));
      await sendRaw(socketFile, preface.subarray(0, 10));
    }
    const answer = await node.notifier(uid).domainEvent('MODIFIED', scriptedDomain(key, uid, 'Paused'));
    assert.equal(answer.success, true);
    assert.equal(statusOf(cache, key, uid), 'Paused');
  });

  it('connections that stay silent do not keep the launcher out', async () => {
    await attached();
    const silent = Array.from({ length: channelLimits.connections * 3 }, () => connect(node.pipeOf(uid)));
    for (const socket of silent) socket.on('error', () => undefined);
    node.cleanup(() => {
      for (const socket of silent) socket.destroy();
    });
    await Promise.all(silent.map((socket) => once(socket, 'connect')));
    const answer = await node.notifier(uid).domainEvent('MODIFIED', scriptedDomain(key, uid));
    assert.equal(answer.success, true);
  });

  it('events above the rate are not read; the state is asked for instead', async () => {
    const limits = { ...channelLimits, events: { perSecond: 0.001, burst: 3 } };
    const { cache } = await attached({ channelLimits: limits });
    const notifier = node.notifier(uid);
    for (let sent = 0; sent < 10; sent++) {
      assert.equal((await notifier.domainEvent('MODIFIED', scriptedDomain(key, uid, 'Paused'))).success, true);
    }
    assert.equal(statusOf(cache, key, uid), 'Paused');
    await eventually(() => assert.equal(statusOf(cache, key, uid), 'Running'));
  });

  it('who floods on is shut out for a while, others are not touched', async () => {
    const limits = {
      ...channelLimits,
      events: { perSecond: 0.001, burst: 1 },
      refusedBeforePenalty: 20,
      penaltyMs: 300,
    };
    const { cache, clients } = await attached({ channelLimits: limits });
    await node.launcher('default/vm2', 'uid-2');
    await clients.connect(node.targetOf('default/vm2', 'uid-2'));
    const notifier = node.notifier(uid);
    const flood = Array.from({ length: 40 }, () => notifier.domainEvent('MODIFIED', scriptedDomain(key, uid)));
    const results = await Promise.allSettled(flood);
    assert.ok(results.some(({ status }) => status === 'rejected'));
    const calm = scriptedDomain('default/vm2', 'uid-2', 'Paused');
    assert.equal((await node.notifier('uid-2').domainEvent('MODIFIED', calm)).success, true);
    assert.equal(statusOf(cache, 'default/vm2'), 'Paused');
    await eventually(async () => {
      assert.equal((await node.notifier(uid).domainEvent('MODIFIED', scriptedDomain(key, uid))).success, true);
    });
  });

  it('a message above the limit is refused, the next one is heard', async () => {
    const { cache } = await attached();
    const notifier = node.notifier(uid);
    await assert.rejects(notifier.domainEvent('MODIFIED', Buffer.alloc(3 * 1024 * 1024, 0x20)));
    assert.equal((await notifier.domainEvent('MODIFIED', scriptedDomain(key, uid, 'Paused'))).success, true);
    assert.equal(statusOf(cache, key, uid), 'Paused');
  });
});

describe('a launcher without root rights', () => {
  it('gets a pipe that it, and nobody else, may connect to', { skip: process.getuid?.() !== 0 }, async () => {
    const program = await launcherProgram();
    node.cleanup(() => program.dispose());
    const launcher = await program.start(node.socketOf(uid), { user: 107 });
    await launcher.setDomain(scriptedDomain(key, uid));
    const { clients } = await node.run();
    const { peer } = await clients.connect(node.targetOf(key, uid));
    assert.equal(peer.uid, 107);
    const { uid: owner, gid, mode } = statSync(node.pipeOf(uid));
    assert.deepEqual({ owner, gid, mode: mode & 0o777 }, { owner: 107, gid: 107, mode: 0o600 });
    assert.equal((await launcher.sendEvent(node.pipeOf(uid), 'MODIFIED', scriptedDomain(key, uid))).success, true);
  });
});

it('the real root of a process is used when nothing else is told', { skip: process.getuid?.() !== 0 }, async () => {
  const program = await launcherProgram();
  node.cleanup(() => program.dispose());
  const launcher = await program.start(node.socketOf(uid), { ownRun: true });
  await launcher.setDomain(scriptedDomain(key, uid));
  const { cache, clients } = await node.run({ pipePath: undefined });
  const { peer } = await clients.connect(node.targetOf(key, uid));
  assert.ok(lstatSync(`/proc/${peer.pid}/root/run/kubevirt/domain-notify-pipe.sock`).isSocket());
  const paused = scriptedDomain(key, uid, 'Paused');
  const answer = await launcher.sendEvent('/var/run/kubevirt/domain-notify-pipe.sock', 'MODIFIED', paused);
  assert.equal(answer.success, true);
  assert.equal(statusOf(cache, key, uid), 'Paused');
  assert.equal(existsSync('/run/kubevirt/domain-notify-pipe.sock'), false);
});
