import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { FakeLauncher } from '../../../fixtures/agent/fake-launchers.ts';
import { settle } from '../../../fixtures/fake-clock.ts';
import { handOff, startTwoNodes } from './two-nodes.ts';

/** Launchers whose words about a migration contradict what their domains show: it ends with a reason, and the guest lives. */

const isDeadly = (call: string) => ['kill', 'delete', 'shutdown'].includes(call);
const deadlyCalls = ({ calls }: FakeLauncher) => calls.filter(isDeadly);

test('a source that says it is done and shows its guest running: the migration has failed after a minute, and the guest goes on', async (t) => {
  const { source, ...nodes } = await startTwoNodes(t);
  const { first, second } = nodes;
  await handOff(nodes, first, second, 'm1');
  await nodes.clock.pass(5_000);
  first.launchers.migration.note(source, { EndTimestamp: first.launchers.migration.now() });
  await nodes.clock.pass(50_000);
  assert.equal(nodes.state().failed, undefined);
  await nodes.clock.pass(30_000);
  assert.ok(first.rules().includes('migration-over-denied'));
  const { failed, failureReason } = nodes.state();
  assert.deepEqual(
    [failed, failureReason],
    [true, 'the launcher on the source node says that the guest has left, and its domain is still there'],
  );
  assert.deepEqual([nodes.vmi().status?.phase, nodes.vmi().status?.nodeName], ['Running', 'node1']);
  assert.deepEqual(deadlyCalls(source), []);
  assert.deepEqual([first.migrationProxies.open, second.migrationProxies.open], [0, 0]);
});

test('a source that says it is done and shuts its domain off late: the guest is handed over', async (t) => {
  const { source, ...nodes } = await startTwoNodes(t);
  const { first, second } = nodes;
  const target = await handOff(nodes, first, second, 'm1');
  await nodes.clock.pass(5_000);
  second.launchers.migration.arrives(target, 'm1');
  first.launchers.migration.note(source, { EndTimestamp: first.launchers.migration.now() });
  await nodes.clock.pass(50_000);
  first.launchers.migration.succeeds(source);
  await nodes.clock.pass(50_000);
  second.launchers.migration.resumes(target);
  await nodes.clock.pass(10_000);
  assert.deepEqual([nodes.vmi().status?.phase, nodes.vmi().status?.nodeName], ['Running', 'node2']);
  assert.equal(nodes.state().failed, undefined);
});

test('a target that calls a migration failed whose guest it shows running: the guest is taken over', async (t) => {
  const { source, ...nodes } = await startTwoNodes(t);
  const { first, second } = nodes;
  const target = await handOff(nodes, first, second, 'm1');
  await nodes.clock.pass(5_000);
  second.launchers.migration.arrives(target, 'm1');
  await settle();
  first.launchers.migration.succeeds(source);
  await settle();
  const { domain } = target;
  assert.ok(domain);
  domain.Status = { ...domain.Status, Status: 'Running', Reason: 'Unknown' };
  second.launchers.migration.fails(target, 'it never came');
  await nodes.clock.pass(60_000);
  assert.deepEqual([nodes.vmi().status?.phase, nodes.vmi().status?.nodeName], ['Running', 'node2']);
  const { completed, failed } = nodes.state();
  assert.deepEqual([completed, failed], [true, undefined]);
  assert.deepEqual(deadlyCalls(target), []);
});

test('a target that calls a migration failed before the guest runs there: it has failed, and the guest goes on at the source', async (t) => {
  const { source, ...nodes } = await startTwoNodes(t);
  const { first, second } = nodes;
  const target = await handOff(nodes, first, second, 'm1');
  await nodes.clock.pass(5_000);
  second.launchers.migration.arrives(target, 'm1');
  await settle();
  second.launchers.migration.fails(target, 'it does not come');
  await nodes.clock.pass(10_000);
  assert.equal(nodes.state().failureReason, 'it does not come');
  assert.equal(first.migrationProxies.open, 0);
  assert.deepEqual([nodes.vmi().status?.phase, nodes.vmi().status?.nodeName], ['Running', 'node1']);
  assert.deepEqual(deadlyCalls(source), []);
});
