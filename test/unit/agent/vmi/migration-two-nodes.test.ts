import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { VirtualMachineInstance } from '../../../../src/api/index.ts';
import { key, uid } from '../../../fixtures/agent/builders.ts';
import type { FakeLauncher } from '../../../fixtures/agent/fake-launchers.ts';
import { settle } from '../../../fixtures/fake-clock.ts';
import { handOff, startTwoNodes, type TwoNodes, type TwoNodesNode } from './two-nodes.ts';

const targetLabel = 'kubevirt.io/migrationTargetNodeName';
const nodeLabel = 'kubevirt.io/nodeName';

interface Move {
  readonly nodes: TwoNodes;
  readonly from: TwoNodesNode;
  readonly to: TwoNodesNode;
  readonly source: FakeLauncher;
  readonly migrationUid: string;
}

/** A migration by what happens outside of the agents, one thing after the other. */
const story: readonly (readonly [what: string, happen: (move: Move) => unknown])[] = [
  ['the controller hands over', ({ nodes, from, to, migrationUid }) => handOff(nodes, from, to, migrationUid)],
  ['the guest is copied', ({ nodes }) => nodes.clock.pass(20_000)],
  ['the guest arrives', ({ to, migrationUid }) => to.launchers.migration.arrives(launcherOf(to), migrationUid)],
  ['the guest has left', ({ from, source }) => from.launchers.migration.succeeds(source)],
  ['the guest goes on', ({ to }) => to.launchers.migration.resumes(launcherOf(to))],
  ['time passes', ({ nodes }) => nodes.clock.pass(60_000)],
];

function launcherOf(node: TwoNodesNode): FakeLauncher {
  const launcher = node.launchers.launchers.get(uid);
  if (!launcher) throw new Error(`no launcher on ${node.name}`);
  return launcher;
}

async function play(move: Move, after: (step: number) => Promise<void> = async () => undefined): Promise<void> {
  for (const [index, [, happen]] of story.entries()) {
    await happen(move);
    await settle();
    await after(index);
  }
  await move.nodes.clock.pass(60_000);
}

/** As it is after a success, whatever happened on the way. */
function assertMoved({ nodes, from, to, source, migrationUid }: Move): void {
  const { metadata, status } = nodes.vmi();
  const state = nodes.state();
  assert.deepEqual([metadata.labels?.[nodeLabel], status?.nodeName, status?.phase], [to.name, to.name, 'Running']);
  assert.equal(metadata.labels?.[targetLabel], undefined, 'the node is not asked any more');
  assert.deepEqual([state.migrationUid, state.completed, state.failed], [migrationUid, true, undefined]);
  assert.ok(state.startTimestamp && state.endTimestamp);
  assert.equal(source.calls.filter((call) => call === 'migrate').length, 1, 'told once');
  assert.equal(source.domain, undefined, 'the source’s domain is deleted');
  assert.equal(from.launchers.get(key), undefined, 'and its record');
  assert.deepEqual([from.migrationProxies.open, to.migrationProxies.open], [0, 0], 'no stream is left');
  assert.equal(launcherOf(to).domain?.Status.Status, 'Running');
  assert.ok(!launcherOf(to).calls.some((call) => ['kill', 'delete', 'shutdown'].includes(call)));
}

test('a guest moves to another node and back, and each node does its part only', async (t) => {
  const { source, ...nodes } = await startTwoNodes(t);
  const move = { nodes, from: nodes.first, to: nodes.second, source, migrationUid: 'm1' };
  await play(move);
  assertMoved(move);
  const back = { nodes, from: nodes.second, to: nodes.first, source: launcherOf(nodes.second), migrationUid: 'm2' };
  await play(back);
  assertMoved(back);
});

test('the source tells afterwards where the VMI went, when and by which migration, until it comes back', async (t) => {
  const { source, ...nodes } = await startTwoNodes(t);
  const { first, second } = nodes;
  await play({ nodes, from: first, to: second, source, migrationUid: 'm1' });
  const at = nodes.state().endTimestamp;
  const told = await first.explained();
  assert.ok(told.goneAt);
  const last = told.decisions.at(-1);
  assert.deepEqual(last?.seen.vmi, { kind: 'moved', moved: { node: 'node2', at, migration: 'm1' } });
  assert.equal(last?.rule, 'moved-nothing-left');
  assert.match(last?.why ?? '', /has moved to another node/);
  assert.equal((await second.explained()).decisions.at(-1)?.seen.vmi.kind, 'present');
  await play({ nodes, from: second, to: first, source: launcherOf(second), migrationUid: 'm2' });
  const back = await first.explained();
  assert.deepEqual([back.goneAt, back.decisions.at(-1)?.seen.vmi.kind], [undefined, 'present']);
  nodes.api.remove(key);
  await nodes.clock.pass(60_000);
  assert.equal((await first.explained()).decisions.at(-1)?.seen.vmi.kind, 'deleted');
});

test('nothing of the source is deleted before the VMI says that the guest is on the other node', async (t) => {
  const { source, ...nodes } = await startTwoNodes(t);
  const owners: (string | undefined)[] = [];
  const asked = source.calls.push.bind(source.calls);
  source.calls.push = (...calls) => {
    if (calls.includes('delete')) owners.push(nodes.vmi().status?.nodeName);
    return asked(...calls);
  };
  await play({ nodes, from: nodes.first, to: nodes.second, source, migrationUid: 'm1' });
  assert.deepEqual(owners, ['node2']);
});

for (const [index, [what]] of story.entries()) {
  for (const whose of ['source', 'target', 'both'] as const) {
    test(`agents may start again (${whose}) when ${what}, and the guest moves all the same`, async (t) => {
      const { source, ...nodes } = await startTwoNodes(t);
      const move = { nodes, from: nodes.first, to: nodes.second, source, migrationUid: 'm1' };
      await play(move, async (step) => {
        if (step !== index) return;
        if (whose !== 'target') await nodes.first.restart();
        if (whose !== 'source') await nodes.second.restart();
      });
      assertMoved(move);
    });
  }
}

test('others who write the VMI at every try of the agents delay the move and change nothing about it', async (t) => {
  const { source, ...nodes } = await startTwoNodes(t);
  const move = { nodes, from: nodes.first, to: nodes.second, source, migrationUid: 'm1' };
  await play(move, async () => {
    nodes.api.conflicts = 7;
  });
  nodes.api.conflicts = 0;
  await nodes.clock.pass(120_000);
  assertMoved(move);
});

test('a failed migration leaves the guest where it is, ends the other launcher, and the next one goes through', async (t) => {
  const { source, ...nodes } = await startTwoNodes(t);
  const { first, second } = nodes;
  const target = await handOff(nodes, first, second, 'm1');
  first.launchers.migration.fails(source, 'connection reset by peer');
  await nodes.clock.pass(30_000);
  assert.ok(target.calls.includes('signal-cleanup'));
  assert.deepEqual([first.migrationProxies.open, second.migrationProxies.open], [0, 0]);
  assert.deepEqual([nodes.vmi().status?.nodeName, nodes.vmi().status?.phase], ['node1', 'Running']);
  assert.equal(nodes.vmi().metadata.labels?.[targetLabel], undefined);
  assert.equal(nodes.state().failureReason, 'connection reset by peer');
  second.launchers.die(target);
  await nodes.clock.pass(10_000);
  source.calls.length = 0;
  const move = { nodes, from: first, to: second, source, migrationUid: 'm2' };
  await play(move);
  assertMoved(move);
});

test('a cancelled migration ends on both nodes', async (t) => {
  const { source, ...nodes } = await startTwoNodes(t);
  const target = await handOff(nodes, nodes.first, nodes.second, 'm1');
  nodes.api.change(key, ({ status }) => {
    Object.assign(status?.migrationState ?? {}, { abortRequested: true });
  });
  await nodes.clock.pass(30_000);
  assert.deepEqual([nodes.state().failed, nodes.state().abortStatus], [true, 'Succeeded']);
  assert.equal(source.calls.filter((call) => call === 'cancel-migration').length, 1);
  assert.ok(target.calls.includes('signal-cleanup'));
  assert.deepEqual([nodes.first.migrationProxies.open, nodes.second.migrationProxies.open], [0, 0]);
  assert.equal(nodes.vmi().metadata.labels?.[targetLabel], undefined);
});

for (const which of ['first', 'second'] as const) {
  test(`a migration that one node cannot carry (${which}) ends on both in that node’s words`, async (t) => {
    const { source, ...nodes } = await startTwoNodes(t);
    nodes[which].migrationProxies.refuse('this node agent is leaving');
    await handOff(nodes, nodes.first, nodes.second, 'm1');
    await nodes.clock.pass(60_000);
    assert.equal(nodes.state().failed, true);
    assert.match(String(nodes.state().failureReason), new RegExp(`${nodes[which].name}: this node agent is leaving`));
    assert.deepEqual([nodes.first.migrationProxies.open, nodes.second.migrationProxies.open], [0, 0]);
    assert.equal(nodes.vmi().metadata.labels?.[targetLabel], undefined);
    assert.equal(nodes.vmi().status?.phase, 'Running');
    assert.ok(!source.calls.includes('migrate'));
  });
}

test('a VMI deleted while its guest is copied ends on the source and leaves nothing on either node', async (t) => {
  const { source, ...nodes } = await startTwoNodes(t);
  await handOff(nodes, nodes.first, nodes.second, 'm1');
  nodes.api.change(key, (vmi: VirtualMachineInstance) => {
    vmi.metadata.deletionTimestamp = nodes.clock.now().toISOString();
  });
  await nodes.clock.pass(60_000);
  assert.ok(source.calls.includes('shutdown'));
  assert.equal(nodes.vmi().status?.phase, 'Succeeded');
  assert.deepEqual([nodes.first.migrationProxies.open, nodes.second.migrationProxies.open], [0, 0]);
  nodes.api.remove(key);
  await nodes.clock.pass(60_000);
  assert.equal(nodes.first.launchers.get(key), undefined);
  assert.equal(nodes.second.launchers.get(key), undefined);
});

test('a VMI deleted between departure and arrival is taken over and shut down where its guest is', async (t) => {
  const { source, ...nodes } = await startTwoNodes(t);
  const { first, second } = nodes;
  const target = await handOff(nodes, first, second, 'm1');
  second.launchers.migration.arrives(target, 'm1');
  first.launchers.migration.succeeds(source);
  nodes.api.change(key, (vmi: VirtualMachineInstance) => {
    vmi.metadata.deletionTimestamp = nodes.clock.now().toISOString();
  });
  await nodes.clock.pass(5_000);
  assert.equal(nodes.vmi().status?.phase, 'Running');
  second.launchers.migration.resumes(target);
  await nodes.clock.pass(60_000);
  assert.ok(target.calls.includes('shutdown'), 'gracefully, on the node where it runs');
  assert.equal(nodes.vmi().status?.phase, 'Succeeded');
  assert.equal(nodes.vmi().status?.nodeName, 'node2');
});
