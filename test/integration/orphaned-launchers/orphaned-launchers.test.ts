import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, it } from 'node:test';
import { OrphanedLaunchers } from '../../../src/agent/vmi/orphaned-launchers.ts';
import { silentLogger } from '../../../src/base/index.ts';
import { vmiOf } from '../../fixtures/agent/builders.ts';
import { FakeApi } from '../../fixtures/agent/fake-api.ts';
import { eventually } from '../../fixtures/eventually.ts';
import { FakeClock } from '../../fixtures/fake-clock.ts';
import { ScriptedLauncher, scriptedDomain, socketFileOf } from '../../fixtures/scripted-launcher.ts';

/** Real sockets; the API server and the clock are the test's. */

const key = 'default/vm1';
const uid = 'uid-1';
const graceSeconds = 30;
const noGrace = { DeletionTimestamp: null, MarkedForGracefulShutdown: null };
let podsDir: string;
let api: FakeApi;
let clock: FakeClock;
let remembered: string[];
let cleanups: (() => unknown)[];

beforeEach(() => {
  podsDir = mkdtempSync(path.join(tmpdir(), 'forgotten-'));
  api = new FakeApi();
  clock = new FakeClock();
  remembered = [];
  cleanups = [];
});
afterEach(async () => {
  for (const cleanup of cleanups.reverse()) await cleanup();
  rmSync(podsDir, { recursive: true });
});

async function launcherOf(pod: string, vmKey = key, vmUid = uid): Promise<ScriptedLauncher> {
  const launcher = await ScriptedLauncher.start({ socketFile: socketFileOf(podsDir, pod) });
  const domain = scriptedDomain(vmKey, vmUid);
  domain.Spec.Metadata.KubeVirt.GracePeriod = { ...noGrace, DeletionGracePeriodSeconds: graceSeconds };
  launcher.domain = domain;
  cleanups.push(() => launcher.stop());
  return launcher;
}

async function start(): Promise<OrphanedLaunchers> {
  const ghosts = { all: () => remembered.map((socketFile) => ({ name: 'x', namespace: 'y', uid: 'z', socketFile })) };
  const guests = new OrphanedLaunchers({ podsDir }, { vmis: api, lookup: api, ghosts, clock, log: silentLogger });
  cleanups.push(() => guests.stop());
  await guests.start();
  return guests;
}

/** Lets seconds pass until it holds. */
function inTime(check: () => void): Promise<void> {
  return eventually(() => {
    clock.advance(1_000);
    check();
  });
}

const callsOf = (launcher: ScriptedLauncher) =>
  launcher.calls.map(({ rpc }) => rpc).filter((rpc) => rpc !== 'getDomain');

describe('a launcher that was started while the agent was away, and whose VMI vanished too', () => {
  it('is found by its socket, its guest shut down and its domain deleted', async () => {
    const launcher = await launcherOf('pod-1');
    launcher.on('shutdownVirtualMachine', () => {
      launcher.domain = scriptedDomain(key, uid, 'Shutoff', 'Shutdown');
      return { success: true };
    });
    await start();
    await inTime(() => assert.deepEqual(callsOf(launcher), ['shutdownVirtualMachine', 'deleteVirtualMachine']));
    assert.equal(api.lookups, 2, 'nothing is ended on one answer');
  });

  it('a guest that ignores the signal is killed when the grace that its domain knows is over, not before', async () => {
    const launcher = await launcherOf('pod-1');
    launcher.on('killVirtualMachine', () => {
      launcher.domain = undefined;
      return { success: true };
    });
    const beganMs = clock.monotonicMs();
    let killedMs = 0;
    launcher.onCall = (rpc) => {
      if (rpc === 'killVirtualMachine') killedMs = clock.monotonicMs();
    };
    await start();
    await inTime(() => assert.ok(callsOf(launcher).includes('killVirtualMachine')));
    assert.ok(killedMs - beganMs >= graceSeconds * 1_000, `${killedMs - beganMs} ms`);
  });

  it('whose name another VMI has by now is ended as well', async () => {
    const launcher = await launcherOf('pod-1');
    const metadata = { name: 'vm1', namespace: 'default', uid: 'uid-new' };
    api.apply(vmiOf('Running', { metadata, status: { activePods: { 'pod-new': 'node1' } } }));
    await start();
    await inTime(() => assert.ok(callsOf(launcher).includes('shutdownVirtualMachine')));
  });
});

describe('nobody else is touched', () => {
  const untouched = async (launcher: ScriptedLauncher) => {
    await inTime(() => assert.ok(clock.monotonicMs() > 1_060_000));
    assert.deepEqual(callsOf(launcher), []);
  };

  it('a guest whose VMI is here', async () => {
    const launcher = await launcherOf('pod-1');
    api.apply(vmiOf('Running'));
    await start();
    await untouched(launcher);
    assert.equal(launcher.count('getDomain'), 0, 'its pod is its VMI’s: it is not even asked');
  });

  it('a guest whose VMI is on another node, or does not name this pod yet', async () => {
    const launcher = await launcherOf('pod-2');
    api.apply(vmiOf('Running', { metadata: { name: 'vm1', namespace: 'default', uid, labels: {} } }));
    await start();
    await untouched(launcher);
  });

  it('a guest that a ghost record remembers: the VMI loop ends it', async () => {
    const launcher = await launcherOf('pod-1');
    remembered.push(launcher.socketFile);
    await start();
    await untouched(launcher);
  });

  it('a guest while the API server cannot be asked, or has answered only once', async () => {
    const launcher = await launcherOf('pod-1');
    api.failLookups = 1_000;
    await start();
    await untouched(launcher);
    api.failLookups = 0;
    await inTime(() => assert.ok(callsOf(launcher).includes('shutdownVirtualMachine')));
  });

  it('a guest that its launcher names for nobody', async () => {
    const launcher = await launcherOf('pod-1', key, '');
    await start();
    await untouched(launcher);
    assert.equal(api.lookups, 0);
  });

  it('the VMI that a launcher pretends to serve: what is done reaches the liar only', async () => {
    const victim = await launcherOf('pod-victim');
    api.apply(vmiOf('Running', { status: { activePods: { 'pod-victim': 'node1' } } }));
    const liar = await launcherOf('pod-liar');
    await start();
    await untouched(liar);
    assert.deepEqual(callsOf(victim), []);
  });

  it('a guest whose agent leaves again: stop waits for nobody', async () => {
    const launcher = await launcherOf('pod-1');
    (await launcherOf('pod-2', 'default/vm2', 'uid-2')).hang('getDomain');
    const guests = await start();
    await eventually(() => assert.equal(api.lookups, 1));
    await guests.stop();
    assert.deepEqual(callsOf(launcher), []);
    assert.equal(clock.timers, 0);
  });
});
