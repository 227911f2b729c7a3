import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, test } from 'node:test';
import type { Domain } from '../../../../src/api/index.ts';
import { silentLogger } from '../../../../src/base/index.ts';
import { awaitFinalNotice, finalNoticeLimits } from '../../../../src/launcher/lifecycle/final-notice.ts';
import { GracePeriod } from '../../../../src/launcher/lifecycle/grace.ts';
import { LauncherLife } from '../../../../src/launcher/lifecycle/life.ts';
import { MetadataCache } from '../../../../src/launcher/lifecycle/metadata.ts';
import { qemuEnded, qemuStarted, terminationRequested } from '../../../../src/launcher/lifecycle/phase.ts';
import { QemuWatch } from '../../../../src/launcher/lifecycle/qemu-watch.ts';
import { eventually } from '../../../fixtures/eventually.ts';
import { FakeClock, settle } from '../../../fixtures/fake-clock.ts';

describe('the grace period', () => {
  let clock: FakeClock;
  let acts: string[];
  let life: LauncherLife;
  let grace: GracePeriod;
  let metadata: MetadataCache;

  beforeEach(() => {
    clock = new FakeClock();
    acts = [];
    life = new LauncherLife({ log: silentLogger });
    life.move(qemuStarted);
    metadata = new MetadataCache({ file: '/dev/null/none' }, { log: silentLogger });
    grace = new GracePeriod(
      { graceSeconds: 45 },
      {
        life,
        metadata,
        qemu: { livingPid: 42 },
        power: { kill: async () => void acts.push('kill') },
        signalProcess: (pid, signal) => acts.push(`${signal} ${pid}`),
        log: silentLogger,
        clock,
      },
    );
    grace.start();
  });

  test('marks at once, kills after its time, then signals QEMU harder and harder', () => {
    life.move(terminationRequested);
    life.move(terminationRequested);
    assert.equal(metadata.metadata.GracePeriod?.MarkedForGracefulShutdown, true);
    clock.advance(44_999);
    assert.deepEqual(acts, []);
    clock.advance(1);
    assert.deepEqual(acts, ['kill']);
    clock.advance(15_000);
    assert.deepEqual(acts, ['kill', 'kill', 'SIGTERM 42', 'kill', 'SIGKILL 42', 'kill', 'SIGKILL 42']);
    grace.stop();
    assert.equal(clock.timers, 0);
  });

  test('a request that came before it was started is followed all the same', () => {
    grace.stop();
    life.move(terminationRequested);
    const late = new GracePeriod(
      { graceSeconds: 1 },
      {
        life,
        metadata,
        qemu: { livingPid: undefined },
        power: { kill: async () => void acts.push('kill') },
        signalProcess: () => assert.fail(),
        log: silentLogger,
        clock,
      },
    );
    late.start();
    assert.equal(metadata.metadata.GracePeriod?.MarkedForGracefulShutdown, true);
    clock.advance(1000);
    assert.deepEqual(acts, ['kill']);
    late.stop();
  });

  test('does nothing to a QEMU that has ended meanwhile', () => {
    life.move(terminationRequested);
    life.move(qemuEnded);
    clock.advance(60_000);
    assert.deepEqual(acts, []);
    assert.equal(clock.timers, 0);
  });
});

describe('the final notice', () => {
  const gone = { ObjectMeta: { deletionTimestamp: 't' } } as Domain;
  const present = { ObjectMeta: {}, Status: { Status: 'Shutoff', Reason: 'Shutdown' } } as Domain;

  function scene() {
    const clock = new FakeClock();
    const watchers = new Set<(domain: Domain) => void>();
    const notifier = {
      delivered: present as Domain | undefined,
      isBehind: false,
      onDelivered(watcher: (domain: Domain) => void) {
        watchers.add(watcher);
        return () => watchers.delete(watcher);
      },
    };
    const state = { terminating: false, kills: 0, result: '' };
    const power = { kill: async () => void state.kills++ };
    const deps = { notifier, power, isTerminating: () => state.terminating, log: silentLogger, clock };
    const result = awaitFinalNotice(finalNoticeLimits, deps).then((value) => {
      state.result = value;
    });
    const deliver = (domain: Domain) => {
      for (const watcher of [...watchers]) watcher(domain);
    };
    return { clock, notifier, state, result, deliver, watchers };
  }

  test('ends when the deletion has been acknowledged', async () => {
    const { state, deliver, result, clock, watchers } = scene();
    deliver(present);
    deliver(gone);
    await result;
    assert.equal(state.result, 'deleted');
    assert.deepEqual([clock.timers, watchers.size], [0, 0]);
  });

  test('kills after 15 s and leaves after 45 s when the agent knows and does nothing', async () => {
    const { clock, state, result } = scene();
    clock.advance(14_000);
    assert.equal(state.kills, 0);
    clock.advance(2000);
    assert.equal(state.kills, 1);
    clock.advance(30_000);
    await result;
    assert.deepEqual([state.result, state.kills], ['timed-out', 1]);
  });

  test('waits as long as it takes for the order to end, when the guest has moved away', async () => {
    const { clock, state, notifier, deliver, result } = scene();
    const Status = { Status: 'Shutoff', Reason: 'Migrated' };
    notifier.delivered = { ...present, Status } as Domain;
    clock.advance(24 * 3_600_000);
    assert.deepEqual([state.result, state.kills], ['', 0]);
    deliver(gone);
    await result;
    assert.equal(state.result, 'deleted');
  });

  test('leaves in the usual time after a guest that has moved away, when the pod is deleted', async () => {
    const { clock, state, notifier, result } = scene();
    const Status = { Status: 'Shutoff', Reason: 'Migrated' };
    notifier.delivered = { ...present, Status } as Domain;
    clock.advance(3_600_000);
    state.terminating = true;
    clock.advance(46_000);
    await result;
    assert.equal(state.result, 'timed-out');
  });

  test('waits minutes for an agent that is away, and counts from its return', async () => {
    const { clock, state, notifier, deliver, result } = scene();
    notifier.isBehind = true;
    clock.advance(300_000);
    assert.deepEqual([state.result, state.kills], ['', 0]);
    notifier.isBehind = false;
    clock.advance(10_000);
    deliver(gone);
    await result;
    assert.equal(state.result, 'deleted');
  });

  test('does not wait for ever, nor at all longer when the pod is being deleted', async () => {
    const away = scene();
    away.notifier.isBehind = true;
    away.clock.advance(700_000);
    await away.result;
    assert.equal(away.state.result, 'timed-out');
    const deleted = scene();
    deleted.notifier.isBehind = true;
    deleted.state.terminating = true;
    deleted.clock.advance(46_000);
    await deleted.result;
    assert.equal(deleted.state.result, 'timed-out');
  });
});

describe('the watch on QEMU', () => {
  let dir: string;
  let pidFile: string;
  let child: ChildProcess;
  let clock: FakeClock;
  let watch: QemuWatch;
  let acts: string[];

  beforeEach(async () => {
    dir = mkdtempSync(path.join(tmpdir(), 'qemu-'));
    pidFile = path.join(dir, 'q.pid');
    child = spawn('sleep', ['100']);
    await once(child, 'spawn');
    clock = new FakeClock();
    acts = [];
    watch = new QemuWatch(
      { pidFile, pollMs: 1000 },
      { onStarted: () => acts.push('started'), onEnded: () => acts.push('ended'), clock },
    );
  });
  afterEach(() => {
    watch.stop();
    child.kill('SIGKILL');
    rmSync(dir, { recursive: true, force: true });
  });

  /** One look, until it has said when the next one is, or that there is none. */
  async function look(): Promise<void> {
    clock.advance(1000);
    await eventually(() => assert.ok(clock.timers === 1 || watch.state.kind === 'ended'));
  }

  async function endProcess(): Promise<void> {
    child.kill('SIGKILL');
    await once(child, 'exit');
  }

  test('sees the end of the process in the pid file without a report of libvirt', async () => {
    writeFileSync(pidFile, String(child.pid));
    watch.noteStarted();
    await look();
    assert.equal(watch.livingPid, child.pid);
    await endProcess();
    await look();
    assert.equal(watch.livingPid, undefined);
    assert.deepEqual(acts, ['started', 'ended']);
    assert.equal(clock.timers, 0);
  });

  test('a pid file that comes late, or holds nonsense first, is read again', async () => {
    writeFileSync(pidFile, 'nonsense');
    watch.noteStarted();
    await look();
    assert.deepEqual(watch.state, { kind: 'searching', reported: 'running' });
    writeFileSync(pidFile, String(child.pid));
    await look();
    assert.equal(watch.livingPid, child.pid);
    await endProcess();
    await look();
    assert.equal(watch.state.kind, 'ended');
  });

  test('a stop that libvirt reports is believed only when the process is gone', async () => {
    writeFileSync(pidFile, String(child.pid));
    watch.noteStarted();
    await look();
    watch.noteStopped();
    await look();
    await look();
    assert.equal(watch.livingPid, child.pid);
    await endProcess();
    await look();
    assert.deepEqual(acts, ['started', 'ended']);
  });

  test('started and stopped before a pid was seen is an end; a stop before any start is none', async () => {
    watch.noteStopped();
    assert.deepEqual(watch.state, { kind: 'not-started' });
    watch.noteStarted();
    watch.noteStarted();
    watch.noteStopped();
    await look();
    assert.deepEqual(acts, ['started', 'ended']);
  });

  test('stopped during a look it looks no more and reports nothing', async () => {
    watch.noteStarted();
    clock.advance(1000);
    watch.stop();
    writeFileSync(pidFile, String(child.pid));
    await settle();
    await endProcess();
    assert.deepEqual(watch.state, { kind: 'unwatched' });
    assert.equal(clock.timers, 0);
    assert.deepEqual(acts, ['started']);
  });
});
