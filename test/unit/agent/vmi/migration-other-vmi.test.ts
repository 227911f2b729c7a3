import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { MigrationState, VirtualMachineInstance } from '../../../../src/api/index.ts';
import { key, node, uid } from '../../../fixtures/agent/builders.ts';
import { markDeleted } from './agent-loop.ts';
import {
  arrive,
  begin,
  change,
  countOf,
  handedOff,
  incoming,
  labelsOf,
  messages,
  prepared,
  stateOf,
  targetLabel,
} from './incoming.ts';

const elsewhere = { syncAddress: '192.0.2.1:9185', migrationUID: 'sent', virtualMachineInstanceUID: 'uid-elsewhere' };
const annotation = 'kubevirt.io/create-migration-target';

/** A VMI of this node that was made to receive a guest of another VMI; the other side has told of its migration. */
function receiving(more: MigrationState = { sourceState: elsewhere }): VirtualMachineInstance {
  const vmi = incoming({ ...handedOff, sourceNode: node, targetState: { migrationUID: 'm1' }, ...more });
  vmi.metadata.labels = { 'kubevirt.io/nodeName': node, [targetLabel]: node };
  vmi.metadata.annotations = { [annotation]: 'true' };
  vmi.status = { ...vmi.status, phase: 'Scheduled', nodeName: node, migrationTransport: 'Unix' };
  return vmi;
}

const ofVmi = ({ api }: { readonly api: { get(key: string): VirtualMachineInstance | undefined } }) => api.get(key);

test('a VMI takes over the guest of another one, whose UID is in the names of QEMU’s sockets', async (t) => {
  const arriving = await prepared(t, { vmi: receiving() });
  const { loop, launcher } = arriving;
  const opened = loop.migrationProxies.targets.get(uid);
  assert.deepEqual([opened?.streamUid, opened?.migrationUid], ['uid-elsewhere', 'm1']);
  const { targetNodeAddress, targetState } = stateOf(loop);
  assert.ok(targetNodeAddress);
  assert.equal(targetState?.nodeAddress, targetNodeAddress, 'the other side is told by the copy');
  assert.ok(targetState?.directMigrationNodePorts);
  assert.equal(loop.phase(), 'Scheduled');
  await arrive(arriving);
  await loop.clock.pass(5_000);
  assert.deepEqual([stateOf(loop).completed, stateOf(loop).failed], [true, undefined]);
  assert.equal(stateOf(loop).targetState?.domainDetected, true);
  assert.ok(stateOf(loop).targetState?.domainReadyTimestamp);
  assert.equal(loop.phase(), 'Running');
  assert.equal(labelsOf(loop)[targetLabel], undefined);
  assert.equal(ofVmi(loop)?.metadata.annotations?.[annotation], undefined);
  assert.equal(loop.migrationProxies.targets.size, 0);
  assert.equal(countOf(launcher, 'kill') + countOf(launcher, 'delete') + countOf(launcher, 'shutdown'), 0);
});

test('a VMI that is not told where its guest comes from says so, and in the end the migration fails', async (t) => {
  const { loop, launcher } = await prepared(t, { vmi: receiving({}) });
  assert.equal(countOf(launcher, 'sync-target'), 0);
  assert.match(messages(loop, 'SyncFailed').join(), /virt-synchronization-controller/);
  await loop.clock.pass(200_000);
  assert.match(stateOf(loop).failureReason ?? '', /has not said yet where the guest comes from/);
  assert.equal(labelsOf(loop)[targetLabel], undefined);
  assert.equal(ofVmi(loop)?.metadata.annotations?.[annotation], 'true', 'it waits for the next one');
});

test('a source that never begins is told of after ten minutes', async (t) => {
  const { loop } = await prepared(t, { vmi: receiving() });
  await loop.clock.pass(599_000);
  const said = () => messages(loop, 'SyncFailed').join();
  assert.doesNotMatch(said(), /has not begun/);
  await loop.clock.pass(5_000);
  assert.match(said(), /its source has not begun/);
  assert.equal(stateOf(loop).failed, undefined);
});

test('a cancelled migration that has begun keeps its streams until its source has ended it', async (t) => {
  const arriving = await prepared(t, { vmi: receiving() });
  const { loop } = arriving;
  await begin(arriving);
  await change(arriving, { abortRequested: true });
  await loop.clock.pass(30_000);
  assert.equal(loop.migrationProxies.targets.size, 1);
  await change(arriving, { endTimestamp: loop.launchers.migration.now() });
  await loop.clock.pass(5_000);
  assert.equal(stateOf(loop).failed, true);
  assert.equal(loop.migrationProxies.targets.size, 0);
  assert.equal(labelsOf(loop)[targetLabel], undefined);
});

test('one that is cancelled before it begins is over at once', async (t) => {
  const arriving = await prepared(t, { vmi: receiving() });
  await change(arriving, { abortRequested: true });
  const { failed, abortStatus } = stateOf(arriving.loop);
  assert.deepEqual([failed, abortStatus], [true, 'Succeeded']);
});

test('nothing is left of a VMI that is deleted while it waits for its guest', async (t) => {
  const { loop } = await prepared(t, { vmi: receiving() });
  markDeleted(loop);
  await loop.clock.pass(5_000);
  assert.equal(loop.migrationProxies.targets.size, 0);
  assert.deepEqual(loop.released, [`second ${uid}`, `first ${uid}`]);
});
