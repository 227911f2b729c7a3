import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { domainOf, key, launcherDead, node, seen, uid, vmiOf } from '../../../fixtures/agent/builders.ts';
import { settle } from '../../../fixtures/fake-clock.ts';
import { startLoop, startRunning } from './agent-loop.ts';

/** Nothing ends without proof (design rule 3), in every window in which less is known than it seems. */

const hour = 3_600_000;
const isDestructive = (call: string) => ['shutdown', 'kill', 'delete'].includes(call);

describe('lists that return less', () => {
  it('an empty list of VMIs, answered 200, ends no guest: each VMI is looked for by name', async (t) => {
    const { loop, launcher } = await startRunning(t);
    loop.api.relistEmpty();
    await loop.clock.pass(hour);
    assert.equal(loop.phase(), 'Running');
    assert.deepEqual(launcher.calls, ['sync']);
  });

  it('an empty list and an empty answer by name end no guest either, when the next answer has it', async (t) => {
    const { loop, launcher } = await startRunning(t);
    loop.api.emptyLookups = 1;
    loop.api.relistEmpty();
    await loop.clock.pass(hour);
    assert.equal(loop.phase(), 'Running');
    assert.deepEqual(launcher.calls, ['sync']);
  });

  it('each time anew: what was missing for a moment an hour ago counts for nothing', async (t) => {
    const { loop, launcher } = await startRunning(t);
    for (let round = 0; round < 3; round++) {
      loop.api.emptyLookups = 1;
      loop.api.relistEmpty();
      await loop.clock.pass(hour);
    }
    assert.deepEqual(launcher.calls, ['sync']);
    assert.equal(loop.phase(), 'Running');
  });

  it('and again some seconds later, when it was there in between: one answer alone is never enough', async (t) => {
    const { loop, launcher } = await startRunning(t);
    loop.api.emptyLookups = 1;
    loop.api.relistEmpty();
    await loop.clock.pass(5_000);
    loop.api.emptyLookups = 1;
    loop.launchers.become(launcher, domainOf('Paused', 'Snapshot'));
    await loop.clock.pass(hour);
    assert.equal(loop.phase(), 'Running');
    assert.deepEqual(launcher.calls, ['sync']);
  });

  it('a guest that was signalled because its VMI seemed gone has its whole grace again when that is back', async (t) => {
    const { loop, launcher } = await startRunning(t);
    launcher.onShutdown = 'ignores';
    loop.api.emptyLookups = 2;
    loop.api.relistEmpty();
    await loop.clock.pass(5_000);
    assert.deepEqual(launcher.calls, ['sync', 'shutdown']);
    await loop.clock.pass(60_000);
    loop.api.emptyLookups = 1;
    loop.launchers.become(launcher, domainOf('Paused', 'Snapshot'));
    await loop.clock.pass(hour);
    assert.equal(loop.phase(), 'Running');
    assert.deepEqual(launcher.calls, ['sync', 'shutdown'], 'not killed at the next miss');
  });

  it('a VMI that is still served although the list has lost it ends as it should', async (t) => {
    const { loop, launcher } = await startRunning(t);
    loop.api.relistEmpty();
    loop.launchers.become(launcher, domainOf('Shutoff', 'Shutdown'));
    await loop.clock.pass(60_000);
    assert.equal(loop.phase(), 'Succeeded');
  });

  it('a start of the agent with an empty list and remembered launchers ends nothing that the next answer has', async (t) => {
    const { loop, launcher } = await startRunning(t);
    loop.api.emptyLookups = 1;
    loop.api.relistEmpty();
    await loop.restart();
    await loop.clock.pass(hour);
    assert.deepEqual(launcher.calls.filter(isDestructive), []);
    assert.equal(loop.phase(), 'Running');
  });
});

describe('a restart of the agent', () => {
  it('the first "no domain" of a launcher that was just connected to is not enough to fail a running VMI', async (t) => {
    const { loop, launcher } = await startRunning(t);
    const { domain } = launcher;
    launcher.domain = undefined;
    loop.launchers.restartAgent(false);
    loop.launchers.setView(key, uid, { kind: 'gone', uid, proof: 'launcher-says-none', seenMs: 0 });
    launcher.domain = domain;
    await loop.clock.pass(hour);
    assert.ok(loop.rules().includes('domain-none-unconfirmed'));
    assert.equal(loop.phase(), 'Running');
  });

  it('the second "no domain" is: the VMI fails, and says why', async (t) => {
    const { loop, launcher } = await startRunning(t);
    launcher.domain = undefined;
    await loop.restart(false);
    await loop.clock.pass(5_000);
    assert.equal(loop.phase(), 'Failed');
    assert.match(loop.condition('Synchronized')?.message ?? '', /the guest is gone/);
  });

  it('a running VMI whose pod has no socket for minutes is not failed, and its user reads where to look', async (t) => {
    const loop = await startLoop(t);
    loop.launchers.run(key, uid, 'not-ready');
    loop.api.apply(vmiOf('Running'));
    await loop.clock.pass(600_000);
    assert.equal(loop.phase(), 'Running');
    assert.match(loop.condition('Synchronized')?.message ?? '', /no launcher socket for minutes.*log of the pod/);
    assert.equal(loop.reasons().filter((reason) => reason === 'SyncFailed').length, 1);
  });

  it('a launcher whose socket has no listener yet is waited for', async (t) => {
    const loop = await startLoop(t);
    const launcher = loop.launchers.run(key, uid, 'not-ready');
    loop.api.apply(vmiOf('Scheduled'));
    await loop.clock.pass(4_000);
    assert.equal(loop.phase(), 'Scheduled');
    launcher.mode = 'works';
    await loop.clock.pass(1_100);
    assert.equal(loop.phase(), 'Running');
  });
});

describe('the same name with a new UID', () => {
  const old = { uid: 'old', kind: 'unknown', reason: 'its socket is hung', sinceMs: 0, seenMs: 0 } as const;

  it('while the old launcher hangs the new VMI waits, and reads what it waits for and what to do', async (t) => {
    const loop = await startLoop(t, ({ launchers }) => {
      launchers.run(key, 'old', 'hangs');
      launchers.addGhost(key, 'old');
      launchers.setView(key, 'old', old);
    });
    const launcher = loop.launchers.run(key, uid);
    loop.api.apply(vmiOf('Scheduled'));
    await loop.clock.pass(12_000);
    assert.equal(loop.condition('Synchronized'), undefined, 'a short wait is nobody’s business');
    await loop.clock.pass(60_000);
    assert.match(
      loop.condition('Synchronized')?.message ?? '',
      /older VirtualMachineInstance of this name \(UID old\).*kubectl get pods -l kubevirt.io\/created-by=old/,
    );
    assert.deepEqual(loop.reasons(), ['SyncFailed']);
    assert.deepEqual(launcher.calls, []);
    loop.launchers.setView(key, 'old', { ...launcherDead, uid: 'old' });
    await loop.clock.pass(6_000);
    assert.equal(loop.phase(), 'Running');
    assert.equal(loop.condition('Synchronized'), undefined);
  });

  it('a running VMI is not disturbed by what turns up of an older one', async (t) => {
    const { loop, launcher } = await startRunning(t);
    loop.launchers.run(key, 'old', 'hangs');
    loop.launchers.setView(key, 'old', old);
    await loop.clock.pass(hour);
    assert.equal(loop.phase(), 'Running');
    assert.deepEqual(launcher.calls, ['sync']);
    loop.launchers.become(launcher, domainOf('Shutoff', 'Shutdown'));
    await loop.clock.pass(1_000);
    assert.equal(loop.phase(), 'Succeeded');
  });

  it('late words of the old launcher about its own end are not the new one’s', async (t) => {
    const { loop, launcher } = await startRunning(t);
    for (const status of ['Shutoff', 'Crashed'] as const) {
      loop.launchers.setView(key, 'old', seen(domainOf(status, 'Crashed', { UID: 'old' }), 'old'));
      await loop.clock.pass(30_000);
    }
    assert.equal(loop.phase(), 'Running');
    assert.deepEqual(launcher.calls, ['sync']);
    assert.deepEqual(loop.launchers.otherUids(key, uid), [], 'and its traces go');
  });
});

describe('ghost records', () => {
  it('whose launcher has ended prove nothing against one that listens in the place of the VMI’s pods', async (t) => {
    const loop = await startLoop(t, (world) => {
      world.launchers.run(key, uid).domain = domainOf();
      world.launchers.setView(key, uid, launcherDead);
      world.api.apply(vmiOf('Running'));
    });
    await loop.clock.pass(hour);
    assert.equal(loop.phase(), 'Running');
    assert.deepEqual(loop.launchers.launchers.get(uid)?.calls, ['sync']);
  });

  it('of VMIs that are on other nodes take nothing from them and nothing here', async (t) => {
    const elsewhere = {
      metadata: { name: 'vm1', namespace: 'default', uid, labels: { 'kubevirt.io/nodeName': 'node2' } },
    };
    const loop = await startLoop(t, ({ api, launchers }) => {
      const launcher = launchers.run(key, uid);
      launcher.domain = domainOf();
      launchers.addGhost(key, uid);
      launchers.setView(key, uid, seen(domainOf(), uid));
      api.apply(vmiOf('Running', { ...elsewhere, status: { nodeName: 'node2', activePods: { 'pod-1': node } } }));
    });
    const writes = loop.api.puts.length;
    await loop.clock.pass(hour);
    assert.deepEqual(loop.launchers.launchers.get(uid)?.calls, []);
    assert.equal(loop.api.puts.length, writes);
  });

  it('of a VMI that was deleted and made again on another node: the guest that is left here is ended', async (t) => {
    const { loop, launcher } = await startRunning(t);
    const metadata = { name: 'vm1', namespace: 'default', uid: 'new', labels: { 'kubevirt.io/nodeName': 'node2' } };
    loop.api.apply(vmiOf('Running', { metadata, status: { nodeName: 'node2' } }));
    await loop.clock.pass(5_000);
    assert.deepEqual(launcher.calls, ['sync', 'shutdown', 'delete']);
    assert.equal(loop.phase(), 'Running', 'the new one is another node’s');
  });
});

it('of what is cleaned up nobody asks any more, whatever happens to its VMI', async (t) => {
  const { loop, launcher } = await startRunning(t);
  let looks = 0;
  const { state } = loop.launchers;
  loop.launchers.state = (target) => {
    looks++;
    return state.call(loop.launchers, target);
  };
  loop.launchers.become(launcher, domainOf('Shutoff', 'Shutdown'));
  await loop.clock.pass(1_000);
  assert.equal(loop.launchers.get(key), undefined, 'cleaned up');
  const before = looks;
  loop.api.change(key, ({ metadata }) => {
    metadata.labels = { ...metadata.labels, changed: 'yes' };
  });
  await settle();
  loop.api.remove(key);
  await loop.clock.pass(hour);
  assert.equal(looks, before);
  assert.equal(loop.dispatcher.remembered, 0);
});

it('fault 8: more hung launchers than there are places for passes cost others a second, once', async (t) => {
  const loop = await startLoop(t);
  for (let index = 0; index < 200; index++) {
    loop.launchers.run(`default/hung-${index}`, `h${index}`, 'hangs');
    const labels = { 'kubevirt.io/nodeName': node };
    const metadata = { name: `hung-${index}`, namespace: 'default', uid: `h${index}`, labels };
    loop.api.apply(vmiOf('Scheduled', { metadata, status: { activePods: { [`pod-${index}`]: node } } }));
  }
  await loop.clock.pass(5_000);
  loop.launchers.run(key, uid);
  loop.api.apply(vmiOf('Scheduled'));
  await settle();
  assert.equal(loop.phase(), 'Running', 'those that hang hold no place');
});
