import assert from 'node:assert/strict';
import { existsSync, mkdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { after, before, describe, it } from 'node:test';
import { eventually } from '../../fixtures/eventually.ts';
import { type LauncherProgram, launcherProgram } from '../../fixtures/launcher-process.ts';
import { ScriptedLauncher, scriptedDomain } from '../../fixtures/scripted-launcher.ts';
import { key, node, statusOf, uid, useTestNodes } from './node.ts';

useTestNodes();

describe('what is known after connecting', () => {
  it('is absent for a key that was never heard of', async () => {
    const { cache } = await node.run();
    assert.deepEqual(cache.view(key), { kind: 'absent' });
    assert.deepEqual([...cache.keys()], []);
    await eventually(() => assert.equal(cache.synced, true));
  });

  it('is the launcher’s domain, with the UID of its channel', async () => {
    const launcher = await node.launcher(key, uid);
    const domain = scriptedDomain(key, '');
    launcher.domain = domain;
    const { cache, clients } = await node.run();
    await clients.connect(node.targetOf(key, uid));
    assert.equal(statusOf(cache, key, uid), 'Running');
    const view = cache.view(key);
    assert.equal(view.kind === 'present' && view.domain.Spec.Metadata.KubeVirt.UID, uid);
  });

  it('is gone without a last domain when the launcher has none yet', async () => {
    await node.launcher(key, uid, '');
    const { cache, clients } = await node.run();
    await clients.connect(node.targetOf(key, uid));
    const view = cache.view(key, uid);
    assert.equal(view.kind === 'gone' && view.proof, 'launcher-says-none');
    assert.equal(view.kind === 'gone' && view.lastDomain, undefined);
  });

  it('is unknown when the launcher hangs, and present as soon as it answers again', async () => {
    const launcher = await node.launcher(key, uid);
    const { cache, clients } = await node.run();
    launcher.fail('getDomain', 'libvirt is away');
    await clients.connect(node.targetOf(key, uid));
    assert.equal(cache.view(key, uid).kind, 'unknown');
    launcher.on('getDomain', () => ({ domain: JSON.stringify(scriptedDomain(key, uid)) }));
    await eventually(() => assert.equal(statusOf(cache, key, uid), 'Running'));
  });

  it('is unknown when the launcher shows the domain of another VMI', async () => {
    await node.launcher(key, uid, scriptedDomain('default/victim', 'uid-victim'));
    const { cache, clients } = await node.run();
    await clients.connect(node.targetOf(key, uid));
    assert.equal(cache.view(key, uid).kind, 'unknown');
    assert.deepEqual(cache.view('default/victim'), { kind: 'absent' });
  });

  it('takes a domain with a disk without alias and an interface without MAC (upstream fault 3)', async () => {
    const domain = JSON.parse(JSON.stringify(scriptedDomain(key, uid)));
    domain.Spec.Devices = { Disks: [{ Source: { File: '/x' } }], Interfaces: [{}], HostDevices: [{}], Channels: [{}] };
    await node.launcher(key, uid, JSON.stringify(domain));
    const { cache, clients } = await node.run();
    await clients.connect(node.targetOf(key, uid));
    const view = cache.view(key);
    assert.equal(view.kind === 'present' && view.domain.Spec.Devices.Disks?.[0]?.Alias, null);
  });
});

describe('order', () => {
  it('an answer that was asked before an event does not replace it', async () => {
    const launcher = await node.launcher(key, uid);
    const { cache, clients } = await node.run();
    await clients.connect(node.targetOf(key, uid));
    let answerNow = () => {};
    launcher.on('getDomain', () => {
      const old = JSON.stringify(scriptedDomain(key, uid, 'Running'));
      return new Promise((resolve) => {
        answerNow = () => resolve({ domain: old });
      });
    });
    const asked = launcher.count('getDomain');
    const refreshing = cache.refresh(key, uid);
    await eventually(() => assert.equal(launcher.count('getDomain'), asked + 1));
    await node.notifier(uid).domainEvent('MODIFIED', scriptedDomain(key, uid, 'Shutoff', 'Shutdown'));
    answerNow();
    await refreshing;
    assert.equal(statusOf(cache, key, uid), 'Shutoff');
  });

  it('a lost deletion is found by the next question, asked twice', async () => {
    const launcher = await node.launcher(key, uid);
    const { cache, clients } = await node.run({ resyncMs: 50 });
    await clients.connect(node.targetOf(key, uid));
    launcher.domain = undefined;
    await eventually(() => assert.equal(cache.view(key, uid).kind, 'gone'));
    const view = cache.view(key, uid);
    assert.equal(view.kind === 'gone' && view.lastDomain?.Status.Status, 'Running');
  });

  it('one answer "no domain" where there was one is not believed', async () => {
    const launcher = await node.launcher(key, uid);
    const { cache, clients } = await node.run();
    await clients.connect(node.targetOf(key, uid));
    let answers = 0;
    launcher.on('getDomain', () => ({ domain: answers++ === 0 ? '' : JSON.stringify(scriptedDomain(key, uid)) }));
    assert.equal((await cache.refresh(key, uid)).kind, 'present');
    assert.equal(answers, 2);
  });

  it('after a start one answer "no domain" of a remembered launcher is not believed', async () => {
    const launcher = await node.launcher(key, uid);
    const first = await node.run();
    await first.clients.connect(node.targetOf(key, uid));
    await first.stop();
    let answers = 0;
    launcher.on('getDomain', () => ({ domain: answers++ === 0 ? '' : JSON.stringify(scriptedDomain(key, uid)) }));
    const { cache } = await node.run();
    await eventually(() => assert.equal(cache.synced, true));
    assert.equal(statusOf(cache, key, uid), 'Running');
  });

  it('the same answer twice wakes nobody', async () => {
    await node.launcher(key, uid);
    const { cache, clients, changes } = await node.run();
    await clients.connect(node.targetOf(key, uid));
    const before = changes.length;
    const seen = cache.view(key, uid);
    await cache.refresh(key, uid);
    const now = cache.view(key, uid);
    assert.equal(changes.length, before);
    assert.ok(seen.kind === 'present' && now.kind === 'present' && now.seenMs > seen.seenMs);
  });
});

describe('restart of the agent', () => {
  it('asks remembered launchers again, without any VMI', async () => {
    await node.launcher(key, uid);
    const first = await node.run();
    await first.clients.connect(node.targetOf(key, uid));
    await first.stop();
    const { cache } = await node.run();
    await eventually(() => assert.equal(cache.synced, true));
    assert.equal(statusOf(cache, key, uid), 'Running');
    assert.equal((await node.notifier(uid).domainEvent('MODIFIED', scriptedDomain(key, uid, 'Paused'))).success, true);
    assert.equal(statusOf(cache, key, uid), 'Paused');
  });

  it('knows nothing of a launcher before it was asked: unknown, not absent', async () => {
    const launcher = await node.launcher(key, uid);
    const first = await node.run();
    await first.clients.connect(node.targetOf(key, uid));
    await first.stop();
    launcher.hang('getDomain');
    const { cache } = await node.run();
    assert.equal(cache.view(key, uid).kind, 'unknown');
    assert.equal(cache.synced, false);
  });

  it('adopts many launchers side by side; hung ones cost only their own key', async () => {
    const ids = Array.from({ length: 20 }, (_, index) => `uid-${index}`);
    const launchers = await Promise.all(ids.map((id) => node.launcher(`default/${id}`, id)));
    const first = await node.run();
    await Promise.all(ids.map((id) => first.clients.connect(node.targetOf(`default/${id}`, id))));
    await first.stop();
    for (const launcher of launchers.slice(0, 5)) launcher.hang('getDomain');
    const { cache } = await node.run();
    await eventually(() => {
      for (const id of ids.slice(5)) assert.equal(cache.view(`default/${id}`).kind, 'present');
    }, 4_500);
    for (const id of ids.slice(0, 5)) assert.equal(cache.view(`default/${id}`).kind, 'unknown');
  });

  it('a pods directory that is empty because its mount is missing proves nothing', async () => {
    await node.launcher(key, uid);
    const first = await node.run();
    await first.clients.connect(node.targetOf(key, uid));
    await first.stop();
    renameSync(node.podsDir, `${node.podsDir}.away`);
    mkdirSync(node.podsDir);
    const { cache } = await node.run();
    await eventually(() => assert.equal(cache.synced, true));
    assert.equal(cache.view(key, uid).kind, 'unknown');
    rmSync(node.podsDir, { recursive: true });
    renameSync(`${node.podsDir}.away`, node.podsDir);
    await eventually(() => assert.equal(statusOf(cache, key, uid), 'Running'));
  });

  it('a launcher that was hung at start is followed when it wakes up (upstream fault 9)', async () => {
    const launcher = await node.launcher(key, uid);
    const first = await node.run();
    await first.clients.connect(node.targetOf(key, uid));
    await first.stop();
    launcher.fail('getDomain', 'hung');
    const { cache } = await node.run();
    await eventually(() => assert.equal(cache.synced, true));
    launcher.on('getDomain', () => ({ domain: JSON.stringify(scriptedDomain(key, uid)) }));
    await eventually(() => assert.equal(statusOf(cache, key, uid), 'Running'));
    assert.equal((await node.notifier(uid).domainEvent('MODIFIED', scriptedDomain(key, uid, 'Paused'))).success, true);
  });
});

describe('the end of a launcher', () => {
  let program: LauncherProgram;
  before(async () => {
    program = await launcherProgram();
  });
  after(() => program.dispose());

  it('is seen at once by kill -9, as gone with proof, and upstream’s mark is left', async () => {
    const launcher = await program.start(node.socketOf(uid));
    await launcher.setDomain(scriptedDomain(key, uid));
    const { cache, clients } = await node.run();
    await clients.connect(node.targetOf(key, uid));
    assert.equal(statusOf(cache, key, uid), 'Running');
    const killedMs = performance.now();
    await launcher.kill();
    await eventually(() => assert.equal(cache.view(key, uid).kind, 'gone'));
    // The watchdog alone would take up to 11 s, upstream 33 to 44 s.
    assert.ok(performance.now() - killedMs < 5_000, 'noticed by the connection');
    const view = cache.view(key, uid);
    assert.equal(view.kind === 'gone' && view.proof, 'launcher-dead');
    assert.equal(view.kind === 'gone' && view.lastDomain?.Status.Status, 'Running');
    assert.ok(existsSync(path.join(path.dirname(node.socketOf(uid)), 'launcher-unresponsive')));
    assert.ok(cache.ghostRecords.byUid(uid), 'the record stays until the clean-up is complete');
  });

  it('a launcher that is stopped (SIGSTOP) is unknown, never gone, and comes back', async () => {
    const launcher = await program.start(node.socketOf(uid));
    await launcher.setDomain(scriptedDomain(key, uid));
    const { cache, clients } = await node.run();
    await clients.connect(node.targetOf(key, uid));
    launcher.signal('SIGSTOP');
    assert.equal((await cache.refresh(key, uid)).kind, 'unknown');
    launcher.signal('SIGCONT');
    await eventually(() => assert.equal(statusOf(cache, key, uid), 'Running'));
  });

  it('upstream fault 7: a death is noticed at once while other launchers come and go', async () => {
    const victim = await program.start(node.socketOf(uid));
    await victim.setDomain(scriptedDomain(key, uid));
    const { cache, clients } = await node.run();
    await clients.connect(node.targetOf(key, uid));
    let churning = true;
    const churn = (async () => {
      for (let round = 0; churning; round++) {
        const id = `churn-${round}`;
        const other = await node.launcher(`default/${id}`, id);
        await clients.connect(node.targetOf(`default/${id}`, id));
        await other.stop();
      }
    })();
    const killedMs = performance.now();
    await victim.kill();
    await eventually(() => assert.equal(cache.view(key, uid).kind, 'gone'));
    const tookMs = performance.now() - killedMs;
    churning = false;
    await churn;
    assert.ok(tookMs < 5_000, `took ${tookMs} ms`);
  });

  it('upstream fault 5: a new VMI starts with the name of one whose launcher died', async () => {
    const dead = await program.start(node.socketOf(uid));
    await dead.setDomain(scriptedDomain(key, uid));
    const { cache, clients } = await node.run();
    await clients.connect(node.targetOf(key, uid));
    await dead.kill();
    const next = await node.launcher(key, 'uid-2', scriptedDomain(key, 'uid-2', 'Paused'));
    await clients.connectVerified(node.targetOf(key, 'uid-2'));
    assert.equal(next.count('ping'), 1);
    assert.equal(statusOf(cache, key, 'uid-2'), 'Paused');
    await eventually(() => assert.equal(cache.view(key, uid).kind, 'gone'));
    assert.deepEqual(cache.otherUids(key, 'uid-2'), [uid]);
    await clients.close(key, uid);
    cache.forget(key, uid);
    assert.deepEqual(cache.otherUids(key, 'uid-2'), []);
    assert.equal(cache.ghostRecords.byUid(uid), undefined);
    assert.ok(cache.ghostRecords.byUid('uid-2'));
  });

  it('while the agent was away is proven after its start, even when the pods directory is empty', async () => {
    const launcher = await program.start(node.socketOf(uid));
    await launcher.setDomain(scriptedDomain(key, uid));
    const first = await node.run();
    await first.clients.connect(node.targetOf(key, uid));
    await first.stop();
    await launcher.kill();
    rmSync(node.podsDir, { recursive: true });
    mkdirSync(node.podsDir);
    const { cache } = await node.run();
    await eventually(() => assert.equal(cache.view(key, uid).kind, 'gone'));
  });

  it('is proven by the refused connection alone when upstream wrote the record', async () => {
    const launcher = await program.start(node.socketOf(uid));
    await launcher.kill();
    const directory = path.join(node.privateDir, 'ghost-records');
    mkdirSync(directory, { recursive: true });
    const record = { name: 'vm1', namespace: 'default', socketFile: node.socketOf(uid), uid };
    writeFileSync(path.join(directory, uid), JSON.stringify(record));
    const { cache } = await node.run();
    await eventually(() => assert.equal(cache.view(key, uid).kind, 'gone'));
    const view = cache.view(key, uid);
    assert.equal(view.kind === 'gone' && view.proof, 'launcher-dead');
  });

  it('is not concluded while its process runs without listening', async () => {
    const launcher = await node.launcher(key, uid);
    const { cache, clients } = await node.run();
    await clients.connect(node.targetOf(key, uid));
    await launcher.stop();
    await eventually(() => assert.equal(cache.view(key, uid).kind, 'unknown'));
  });

  for (const [what, domain, kind, proof] of [
    ['has the domain still', scriptedDomain(key, uid, 'Paused'), 'present', undefined],
    ['has no domain', undefined, 'gone', 'launcher-says-none'],
  ] as const) {
    it(`and a new process at the same path that ${what}: it is asked, and its word counts`, async () => {
      const old = await program.start(node.socketOf(uid));
      await old.setDomain(scriptedDomain(key, uid));
      const { cache, clients } = await node.run({ watchdogMs: 100 });
      await clients.connect(node.targetOf(key, uid));
      // The new one takes the path first, as after a rename: there is no moment in which nobody listens.
      const next = await program.start(`${node.socketOf(uid)}.next`);
      await next.setDomain(domain);
      renameSync(`${node.socketOf(uid)}.next`, node.socketOf(uid));
      await old.kill();
      await eventually(() => {
        assert.equal(clients.peek(uid)?.peer.pid, next.pid);
        assert.equal(cache.view(key, uid).kind, kind);
      });
      const view = cache.view(key, uid);
      assert.equal(view.kind === 'gone' ? view.proof : undefined, proof);
      const event = scriptedDomain(key, uid, 'ShuttingDown');
      await next.setDomain(event);
      assert.equal((await next.sendEvent(node.pipeOf(uid), 'MODIFIED', event)).success, true);
      await eventually(() => assert.equal(statusOf(cache, key, uid), 'ShuttingDown', 'its own events are heard'));
      assert.equal(cache.ghostRecords.byUid(uid)?.pid, next.pid, 'and it is the one that is remembered');
    });
  }

  it('while the agent was away is proven although another process has its pid by now', async () => {
    const launcher = await program.start(node.socketOf(uid));
    await launcher.kill();
    const directory = path.join(node.privateDir, 'ghost-records');
    mkdirSync(directory, { recursive: true });
    const socketFile = node.socketOf(uid);
    const record = { name: 'vm1', namespace: 'default', socketFile, uid, pid: process.pid, startTime: '12' };
    writeFileSync(path.join(directory, uid), JSON.stringify(record));
    const { cache } = await node.run();
    await eventually(() => assert.equal(cache.view(key, uid).kind, 'gone'));
  });

  it('the same VMI with another pod is followed at its new socket', async () => {
    const old = await program.start(node.socketOf(uid));
    await old.setDomain(scriptedDomain(key, uid));
    const { cache, clients } = await node.run();
    await clients.connect(node.targetOf(key, uid));
    await old.kill();
    await eventually(() => assert.equal(cache.view(key, uid).kind, 'gone'));
    const next = await ScriptedLauncher.start({ socketFile: node.socketOf('uid-1-again') });
    node.cleanup(() => next.stop());
    next.domain = scriptedDomain(key, uid, 'Paused');
    await clients.connect({ ...node.targetOf(key, uid), activePods: { 'pod-uid-1-again': 'node1' } });
    assert.equal(statusOf(cache, key, uid), 'Paused');
    assert.equal(cache.ghostRecords.byUid(uid)?.socketFile, next.socketFile);
  });
});
