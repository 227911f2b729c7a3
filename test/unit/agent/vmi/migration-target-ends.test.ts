import assert from 'node:assert/strict';
import { test } from 'node:test';
import { key, node, uid } from '../../../fixtures/agent/builders.ts';
import { settle } from '../../../fixtures/fake-clock.ts';
import { markDeleted, startLoop } from './agent-loop.ts';
import {
  countOf,
  endAs,
  fail,
  handedOff,
  incoming,
  labelsOf,
  messages,
  nodeLabel,
  prepared,
  stateOf,
  targetLabel,
  withOwnCpus,
} from './incoming.ts';

test('a failed migration is taken back: streams, the pod is told, host, records, label; never the guest’s phase', async (t) => {
  const { loop, launcher } = await prepared(t);
  await fail({ loop });
  assert.equal(loop.migrationProxies.targets.size, 0);
  assert.equal(countOf(launcher, 'signal-cleanup'), 1);
  assert.deepEqual(loop.released, [`second ${uid}`, `first ${uid}`]);
  assert.equal(labelsOf(loop)[targetLabel], undefined);
  assert.equal(labelsOf(loop)[nodeLabel], 'node2');
  assert.equal(loop.phase(), 'Running');
  assert.equal(loop.launchers.get(key), undefined, 'no ghost record is left');
  assert.equal(loop.dispatcher.remembered, 0, 'nothing is remembered of it');
  assert.equal(countOf(launcher, 'kill') + countOf(launcher, 'delete') + countOf(launcher, 'shutdown'), 0);
});

test('a target pod that is gone does not hold up the clean-up of its failed migration', async (t) => {
  const { loop, launcher } = await prepared(t);
  loop.launchers.die(launcher);
  await settle();
  assert.equal(loop.migrationProxies.targets.size, 0, 'streams to a dead launcher are closed');
  await fail({ loop });
  assert.equal(labelsOf(loop)[targetLabel], undefined);
  assert.deepEqual(loop.released, [`second ${uid}`, `first ${uid}`]);
});

test('a target launcher that hangs does not hold up the label of its failed migration', async (t) => {
  const { loop, launcher } = await prepared(t);
  loop.launchers.setView(key, uid, { kind: 'unknown', uid, reason: 'no answer', sinceMs: 0, seenMs: 0 });
  launcher.mode = 'hangs';
  await fail({ loop });
  assert.equal(labelsOf(loop)[targetLabel], node, 'it gets a moment');
  await loop.clock.pass(90_000);
  assert.equal(labelsOf(loop)[targetLabel], undefined);
  assert.deepEqual(loop.released, [], 'nothing is taken away under a launcher that cannot be asked');
  loop.launchers.die(launcher);
  await loop.clock.pass(60_000);
  assert.deepEqual(loop.released, [`second ${uid}`, `first ${uid}`], 'its end is awaited by the rules for orphans');
});

test('fault 14: streams of a VMI that is deleted while its target is prepared are closed, and nothing of it is left', async (t) => {
  const { loop, launcher } = await prepared(t);
  assert.equal(loop.migrationProxies.targets.size, 1);
  markDeleted(loop);
  await settle();
  assert.equal(loop.migrationProxies.targets.size, 0);
  assert.deepEqual(loop.released, [`second ${uid}`, `first ${uid}`]);
  assert.equal(countOf(launcher, 'kill') + countOf(launcher, 'shutdown'), 0);
  loop.api.remove(key);
  await loop.clock.pass(10_000);
  assert.equal(loop.launchers.get(key), undefined);
  assert.equal(loop.dispatcher.remembered, 0);
});

test('fault 14: streams of a VMI that vanishes from the API server altogether are closed, too', async (t) => {
  const { loop } = await prepared(t);
  loop.api.remove(key);
  await loop.clock.pass(10_000);
  assert.equal(loop.migrationProxies.targets.size, 0);
  assert.equal(loop.migrationProxies.open, 0);
});

test('a migration that the target’s launcher calls over without a guest has failed', async (t) => {
  const arriving = await prepared(t);
  const { loop } = arriving;
  await endAs(arriving, 'Shutoff', 'Destroyed');
  assert.equal(stateOf(loop).failed, true);
  assert.equal(stateOf(loop).completed, true);
  assert.equal(labelsOf(loop)[nodeLabel], 'node2');
  assert.equal(loop.phase(), 'Running');
});

test('a node that cannot carry streams fails the migration in words, and does not leave it hanging', async (t) => {
  const { loop, launcher } = await prepared(t, {
    world: ({ migrationProxies }) => migrationProxies.refuse('live migration is not built in'),
  });
  assert.equal(stateOf(loop).failed, true);
  assert.equal(stateOf(loop).completed, true);
  assert.ok(stateOf(loop).startTimestamp && stateOf(loop).endTimestamp);
  assert.match(stateOf(loop).failureReason ?? '', /live migration is not built in/);
  assert.match(
    messages(loop, 'Migrated')[0] ?? '',
    /migration uid m1 failed. reason:node node1: live migration is not/,
  );
  assert.equal(countOf(launcher, 'sync-target'), 0);
  assert.equal(countOf(launcher, 'signal-cleanup'), 1, 'its pod may go');
  assert.equal(labelsOf(loop)[targetLabel], undefined);
});

for (const lateMs of [2_000, 100_000]) {
  test(`a migration refused before its launcher has a socket keeps the label until the pod is told to go: ${lateMs} ms later`, async (t) => {
    const loop = await startLoop(t, ({ migrationProxies }) => migrationProxies.refuse('the agent is leaving'));
    const launcher = loop.launchers.run(key, uid, 'not-ready');
    loop.api.apply(incoming());
    await settle();
    assert.equal(stateOf(loop).failed, true, 'the source is not kept waiting');
    await loop.clock.pass(lateMs);
    assert.equal(labelsOf(loop)[targetLabel], node);
    launcher.mode = 'works';
    await loop.clock.pass(5_000);
    assert.equal(countOf(launcher, 'signal-cleanup'), 1);
    assert.equal(labelsOf(loop)[targetLabel], undefined);
  });
}

test('a launcher that never has a socket does not hold up the label of its refused migration for ever', async (t) => {
  const loop = await startLoop(t, ({ migrationProxies }) => migrationProxies.refuse('the agent is leaving'));
  const launcher = loop.launchers.run(key, uid, 'not-ready');
  loop.api.apply(incoming());
  await settle();
  loop.launchers.die(launcher);
  await loop.clock.pass(10_000);
  assert.equal(labelsOf(loop)[targetLabel], undefined);
});

test('a guest with dedicated CPUs fails in words where nobody can tell which CPUs its pod has', async (t) => {
  const { loop } = await prepared(t, { vmi: withOwnCpus() });
  await loop.clock.pass(200_000);
  assert.match(stateOf(loop).failureReason ?? '', /cannot tell which CPUs/);
  assert.equal(labelsOf(loop)[targetLabel], undefined);
});

test('a launcher that refuses to prepare is asked again, then the migration fails with its words', async (t) => {
  const { loop, launcher } = await prepared(t, {
    launcher: ({ refusals }) =>
      Object.assign(refusals, { 'sync-target': Array(20).fill('live migration is not supported') }),
  });
  await loop.clock.pass(12_000);
  assert.equal(countOf(launcher, 'sync-target'), 3);
  assert.equal(stateOf(loop).failed, undefined);
  assert.equal(messages(loop, 'SyncFailed').length, 1);
  await loop.clock.pass(30_000);
  assert.equal(stateOf(loop).failed, true);
  assert.match(stateOf(loop).failureReason ?? '', /live migration is not supported/);
  assert.equal(labelsOf(loop)[targetLabel], undefined);
});

test('a launcher that refuses once is prepared at the second try', async (t) => {
  const { loop, launcher } = await prepared(t, {
    launcher: ({ refusals }) => Object.assign(refusals, { 'sync-target': ['the disk is not there yet'] }),
  });
  await loop.clock.pass(10_000);
  assert.equal(countOf(launcher, 'sync-target'), 2);
  assert.ok(stateOf(loop).targetNodeAddress);
});

test('a refusal that the launcher has taken back counts no more: the streams get the time of any other target, and the blame', async (t) => {
  const { loop } = await prepared(t, {
    launcher: ({ refusals }) => Object.assign(refusals, { 'sync-target': ['the disk is not there yet'] }),
    world: ({ migrationProxies }) => {
      migrationProxies.openError = new Error('no port is free');
    },
  });
  await loop.clock.pass(60_000);
  assert.equal(stateOf(loop).failed, undefined);
  await loop.clock.pass(200_000);
  assert.equal(stateOf(loop).failed, true);
  assert.match(stateOf(loop).failureReason ?? '', /no port is free/);
});

test('streams that cannot be opened are told, tried again, and in the end fail the migration', async (t) => {
  const { loop } = await prepared(t, {
    world: ({ migrationProxies }) => {
      migrationProxies.openError = new Error('no port is free');
    },
  });
  assert.deepEqual(messages(loop, 'SyncFailed'), ['no port is free']);
  await loop.clock.pass(200_000);
  assert.match(stateOf(loop).failureReason ?? '', /no port is free/);
  assert.equal(labelsOf(loop)[targetLabel], undefined);
});

test('a second migration after a failed one closes what the first one opened and prepares anew', async (t) => {
  const { loop } = await prepared(t);
  loop.api.change(key, (vmi) => {
    vmi.status = { ...vmi.status, migrationState: { ...handedOff, migrationUid: 'm2', targetPod: 'pod-3' } };
  });
  await settle();
  assert.deepEqual(loop.released, [`second ${uid}`, `first ${uid}`], 'the first attempt is cleaned up');
  assert.deepEqual(stateOf(loop).targetDirectMigrationNodePorts, { '40002': 0, '40003': 49_152 });
  assert.equal(loop.migrationProxies.targets.size, 1);
});

test('a post-copy migration that breaks is the owner’s to end: nothing is cleaned up before', async (t) => {
  const arriving = await prepared(t);
  const { loop, launcher } = arriving;
  await endAs(arriving, 'Paused', 'PostcopyFailed');
  await loop.clock.pass(10_000);
  assert.equal(stateOf(loop).failed, true);
  assert.equal(countOf(launcher, 'signal-cleanup'), 0);
  loop.api.change(key, (vmi) => {
    vmi.status = { ...vmi.status, phase: 'Failed' };
  });
  await settle();
  assert.equal(countOf(launcher, 'signal-cleanup'), 1);
});

test('what an old list brought back to a target after its clean-up is taken away, too', async (t) => {
  const { loop, launcher } = await prepared(t);
  markDeleted(loop);
  await settle();
  assert.equal(loop.launchers.get(key), undefined);
  loop.api.change(key, (vmi) => {
    delete vmi.metadata.deletionTimestamp;
  });
  await settle();
  assert.notEqual(loop.launchers.get(key), undefined, 'it is connected to again');
  markDeleted(loop);
  await settle();
  loop.launchers.die(launcher);
  loop.api.remove(key);
  await loop.clock.pass(90_000);
  assert.equal(loop.launchers.get(key), undefined, 'nothing of it is left');
  assert.equal(loop.dispatcher.remembered, 0);
});
