import assert from 'node:assert/strict';
import { test } from 'node:test';
import { decide } from '../../../../src/agent/vmi/decide/index.ts';
import type { VirtualMachineInstance } from '../../../../src/api/index.ts';
import {
  domainOf,
  key,
  launcherDead,
  node,
  observationOf,
  presentVmi,
  uid,
  vmiOf,
} from '../../../fixtures/agent/builders.ts';
import { prepared } from '../../../fixtures/agent/host-hooks.ts';
import { remembered } from '../../../fixtures/agent/remembered.ts';
import { settle } from '../../../fixtures/fake-clock.ts';
import { markDeleted, startLoop, startRunning } from './agent-loop.ts';

const metadata = { name: 'vm1', namespace: 'default', uid, labels: { 'kubevirt.io/nodeName': node } };

function raw(object: object): VirtualMachineInstance {
  return {
    apiVersion: 'kubevirt.io/v1',
    kind: 'VirtualMachineInstance',
    metadata,
    ...object,
  } as unknown as VirtualMachineInstance;
}

const status = { phase: 'Scheduled', nodeName: node, activePods: { 'pod-1': node } };

const malformed: readonly (readonly [what: string, vmi: VirtualMachineInstance, says: RegExp])[] = [
  ['no spec', raw({ status }), /spec must be an object/],
  ['a spec without domain', raw({ spec: {}, status }), /spec\.domain must be an object/],
  [
    'disks that are no list',
    raw({ spec: { domain: { devices: { disks: 'root' } } }, status }),
    /spec\.domain\.devices\.disks/,
  ],
  ['a volume without name', raw({ spec: { domain: {}, volumes: [{}] }, status }), /spec\.volumes/],
  [
    'a negative grace period',
    raw({ spec: { domain: {}, terminationGracePeriodSeconds: -5 }, status }),
    /terminationGracePeriodSeconds/,
  ],
];

for (const [what, vmi, says] of malformed) {
  test(`a VMI with ${what} gets a condition and an event that say what to do, and others start`, async (t) => {
    const loop = await startLoop(t);
    const launcher = loop.launchers.run(key, uid);
    loop.launchers.run('default/good', 'good');
    loop.api.apply(vmi);
    loop.api.apply(vmiOf('Scheduled', { metadata: { ...metadata, name: 'good', uid: 'good' } }));
    await loop.clock.pass(60_000);
    assert.equal(loop.condition('Synchronized')?.status, 'False');
    assert.match(loop.condition('Synchronized')?.message ?? '', says);
    assert.match(loop.condition('Synchronized')?.message ?? '', /Delete it and create it again/);
    assert.deepEqual(loop.reasons(), ['SyncFailed']);
    assert.deepEqual(launcher.calls, []);
    assert.equal(loop.phase('default/good'), 'Running');
    assert.equal(loop.phase(), 'Scheduled');
    assert.equal(loop.api.puts.filter((put) => put.metadata.name === 'vm1').length, 1);
  });
}

const unreadable: readonly (readonly [what: string, object: object])[] = [
  ['a status that is a list', { spec: { domain: {} }, status: [] }],
  ['labels of numbers', { spec: { domain: {} }, status, metadata: { ...metadata, annotations: { a: 1 } } }],
  ['conditions that are a string', { spec: { domain: {} }, status: { ...status, conditions: 'all fine' } }],
  ['active pods that are a list', { spec: { domain: {} }, status: { ...status, activePods: ['pod-1'] } }],
];

for (const [what, object] of unreadable) {
  test(`a VMI with ${what} gets one event and is not written`, async (t) => {
    const loop = await startLoop(t);
    loop.launchers.run(key, uid);
    loop.api.apply(raw(object));
    await loop.clock.pass(60_000);
    assert.deepEqual(loop.reasons(), ['SyncFailed']);
    assert.equal(loop.api.puts.length, 0);
  });
}

test('an object without UID is not looked at, and harms nobody', async (t) => {
  const loop = await startLoop(t);
  loop.api.apply(raw({ metadata: { name: 'vm1', namespace: 'default', labels: metadata.labels } }));
  await settle();
  assert.equal(loop.api.puts.length, 0);
  assert.equal(loop.events.length, 0);
});

test('a VMI without disks is sent as it is: the launcher is the judge, its words become the condition', async (t) => {
  const loop = await startLoop(t);
  const launcher = loop.launchers.run(key, uid);
  launcher.syncErrors = ['the VMI has no disk and no kernel to boot from'];
  loop.api.apply(vmiOf('Scheduled', { spec: { domain: { devices: {} }, volumes: [] } }));
  await settle();
  assert.equal(loop.condition('Synchronized')?.reason, 'Synchronizing with the Domain failed.');
  assert.equal(
    loop.condition('Synchronized')?.message,
    'server error. command SyncVMI failed: "the VMI has no disk and no kernel to boot from"',
  );
  assert.deepEqual(loop.reasons(), ['SyncFailed']);
  await loop.clock.pass(1_000);
  assert.equal(loop.phase(), 'Running', 'the second try worked');
  assert.match(loop.condition('NothingToBoot')?.message ?? '', /no disk, no kernel/);
  assert.equal(loop.reasons().filter((reason) => reason === 'NothingToBoot').length, 1);
  assert.equal(loop.condition('Synchronized'), undefined, 'and the condition went');
});

test('the same failure is told once, however often it is retried', async (t) => {
  const loop = await startLoop(t);
  const launcher = loop.launchers.run(key, uid);
  launcher.syncErrors = Array.from({ length: 8 }, () => 'image missing');
  loop.api.apply(vmiOf('Scheduled'));
  await loop.clock.pass(120_000);
  assert.deepEqual(loop.reasons(), ['SyncFailed', 'Created', 'Started']);
  assert.equal(loop.api.puts.length, 2);
});

test('a start that fails in QEMU is tried again with back-off, although each try wakes the key by its domain events', async (t) => {
  const loop = await startLoop(t);
  const launcher = loop.launchers.run(key, uid);
  launcher.syncErrors = Array.from({ length: 1_000 }, () => 'QEMU does not start');
  launcher.failsLate = true;
  loop.api.apply(vmiOf('Scheduled'));
  await loop.clock.pass(60_000);
  const syncs = launcher.calls.filter((call) => call === 'sync').length;
  assert.ok(syncs >= 7 && syncs <= 9, `${syncs} tries in a minute`);
  assert.equal(loop.api.puts.length, 1);
  assert.ok(loop.rules().includes('start-backing-off'));
});

test('a changed VMI is started at once, whatever the back-off of the start before', async (t) => {
  const loop = await startLoop(t);
  const launcher = loop.launchers.run(key, uid);
  launcher.syncErrors = Array.from({ length: 7 }, () => 'no such disk');
  loop.api.apply(vmiOf('Scheduled'));
  await loop.clock.pass(20_000);
  launcher.syncErrors = [];
  loop.api.change(key, ({ spec }) => {
    spec.domain.cpu = { sockets: 2 };
  });
  await settle();
  assert.equal(loop.phase(), 'Running');
});

test('a missing secure boot firmware ends the VMI', async (t) => {
  const loop = await startLoop(t);
  const launcher = loop.launchers.run(key, uid);
  launcher.syncErrors = ['EFI OVMF rom missing'];
  loop.api.apply(vmiOf('Scheduled'));
  await settle();
  assert.equal(loop.phase(), 'Failed');
  assert.match(loop.condition('Synchronized')?.message ?? '', /mismatch of Secure Boot setting/);
});

test('what would end a VMI at its start is only told of a guest that runs', async (t) => {
  const { loop, launcher } = await startRunning(t);
  launcher.syncErrors = ['EFI OVMF rom missing'];
  loop.api.change(key, ({ metadata }) => {
    metadata.annotations = { note: 'changed' };
  });
  await settle();
  assert.equal(loop.phase(), 'Running');
  assert.deepEqual(launcher.calls.slice(0, 2), ['sync', 'sync']);
  assert.match(loop.reasons().join(), /SyncFailed/);
  assert.ok(!launcher.calls.includes('kill'));
});

test('unknown fields of the VMI are kept on every write', async (t) => {
  const loop = await startLoop(t);
  loop.launchers.run(key, uid);
  const vmi = vmiOf('Scheduled', {
    spec: { domain: { devices: {}, futureDevice: { deep: [1, { x: null }] } } as object, novelty: 'kept' },
  });
  (vmi as unknown as Record<string, unknown>).extra = { top: true };
  (vmi.status as Record<string, unknown>).madeByOthers = [{ a: 1 }];
  loop.api.apply(vmi);
  await settle();
  const stored = loop.api.stored(key) as unknown as Record<string, Record<string, unknown>>;
  assert.deepEqual(stored.spec, vmi.spec);
  assert.deepEqual(stored.extra, { top: true });
  assert.deepEqual(stored.status?.madeByOthers, [{ a: 1 }]);
  assert.equal(stored.status?.phase, 'Running');
});

test('a full disk under the ghost records is a condition, and the VM runs all the same', async (t) => {
  const { loop } = await startRunning(t);
  loop.launchers.problems.set(uid, { message: 'no space left on /var/run/kubevirt-private: free some' });
  loop.launchers.setView(key, uid, loop.launchers.view(key, uid));
  await settle();
  assert.match(loop.condition('Synchronized')?.message ?? '', /no space left/);
  assert.equal(loop.phase(), 'Running');
  loop.launchers.problems.clear();
  loop.launchers.setView(key, uid, loop.launchers.view(key, uid));
  await settle();
  assert.equal(loop.condition('Synchronized'), undefined);
});

test('a hook that fails is told, the others are released in spite of it, and the clean-up is tried again', async (t) => {
  const { loop, launcher } = await startRunning(t);
  let failures = 2;
  loop.hooks.push({
    name: 'third',
    prepare: async () => prepared,
    release: async () => {
      if (failures-- > 0) throw new Error('umount: target is busy');
    },
  });
  loop.launchers.become(launcher, domainOf('Shutoff', 'Shutdown'));
  await loop.clock.pass(1_000);
  assert.deepEqual(loop.released.slice(0, 2), [`second ${uid}`, `first ${uid}`]);
  assert.equal(loop.launchers.get(key), undefined, 'in the end all is gone');
});

test('a launcher that cannot tell how its guest is for long is a condition and one event, which go when it can', async (t) => {
  const { loop, launcher } = await startRunning(t);
  loop.launchers.run('default/other', 'other');
  loop.api.apply(vmiOf('Scheduled', { metadata: { ...metadata, name: 'other', uid: 'other' } }));
  await settle();
  launcher.mode = 'hangs';
  await loop.launchers.refresh(key, uid);
  await loop.clock.pass(12_000);
  assert.equal(loop.condition('Synchronized'), undefined, 'a short silence is not told');
  await loop.clock.pass(60_000);
  assert.match(
    loop.condition('Synchronized')?.message ?? '',
    /cannot tell how the guest is.*look at the log of its launcher/,
  );
  assert.deepEqual(
    loop.reasons().filter((reason) => reason === 'SyncFailed'),
    ['SyncFailed'],
  );
  assert.equal(loop.phase(), 'Running', 'nothing is concluded from silence');
  assert.equal(loop.condition('Synchronized', 'default/other'), undefined);
  launcher.mode = 'works';
  await loop.clock.pass(30_000);
  assert.equal(loop.condition('Synchronized'), undefined);
  assert.equal(loop.phase(), 'Running');
});

test('a launcher that dies under a running guest is a condition and an event that say what to do', async (t) => {
  const { loop, launcher } = await startRunning(t);
  loop.launchers.die(launcher);
  await settle();
  assert.equal(loop.phase(), 'Failed');
  const { message = '', status: state } = loop.condition('Synchronized') ?? {};
  assert.equal(state, 'False');
  assert.match(message, /the launcher of the guest ended.*kubectl logs.*create it again/);
  const reported = loop.events.filter(({ reason }) => reason === 'SyncFailed');
  assert.deepEqual(
    reported.map((event) => event.message),
    [message],
  );
});

test('a launcher that dies after its VMI was deleted is no problem to tell of', () => {
  const launcher = { kind: 'dead', reason: 'ended' } as const;
  const vmi = vmiOf('Running');
  const before = decide(observationOf({ vmi: presentVmi(vmi), domain: launcherDead, launcher, memory: remembered() }));
  vmi.metadata.deletionTimestamp = '2026-01-02T03:04:00Z';
  const after = decide(observationOf({ vmi: presentVmi(vmi), domain: launcherDead, launcher, memory: remembered() }));
  assert.deepEqual([before.phase, after.phase], ['Failed', 'Failed']);
  assert.deepEqual([before.problem !== undefined, after.problem], [true, undefined]);
});

test('a launcher that hangs in a sync costs its own VMI a condition', async (t) => {
  const loop = await startLoop(t);
  const launcher = loop.launchers.run(key, uid);
  loop.api.apply(vmiOf('Scheduled'));
  launcher.mode = 'hangs';
  await loop.clock.pass(21_000);
  assert.match(loop.condition('Synchronized')?.message ?? '', /no answer from the launcher/);
  assert.equal(loop.phase(), 'Scheduled');
});

test('a deleted VMI with a hanging launcher is killed as soon as the launcher answers', async (t) => {
  const { loop, launcher } = await startRunning(t);
  launcher.mode = 'hangs';
  markDeleted(loop);
  await loop.clock.pass(60_000);
  assert.equal(loop.phase(), 'Running');
  launcher.mode = 'works';
  await loop.clock.pass(60_000);
  assert.ok(launcher.calls.includes('kill'));
  assert.equal(loop.launchers.get(key), undefined);
});
