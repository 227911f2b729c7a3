import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  Heartbeat,
  type NodePatch,
  type NodeReport,
  PolledProblems,
} from '../../../../../src/agent/node/heartbeat/index.ts';
import type { NodeProblem } from '../../../../../src/agent/node/ports.ts';
import { silentLogger } from '../../../../../src/base/index.ts';
import { KubeError } from '../../../../../src/kube/index.ts';
import { FakeNode } from '../../../../fixtures/agent/fake-node.ts';
import { FakeProblems } from '../../../../fixtures/agent/fake-problems.ts';
import { FakeClock, settle } from '../../../../fixtures/fake-clock.ts';

const why = 'virt-handler.kubevirt.io/unschedulable-reason';
const schedulable = 'kubevirt.io/schedulable';

/** A heartbeat whose node takes the patches, unless `refuse` is set. */
class Bench {
  readonly clock = new FakeClock();
  readonly problems = new FakeProblems();
  readonly node = new FakeNode();
  readonly patches: NodePatch[] = [];
  readonly reported: NodeReport[] = [];
  refuse: Error | undefined;
  hasCpuManager: boolean | undefined = false;
  readonly heartbeat = new Heartbeat(
    { nodeName: 'node1', periodMs: 60_000, markTimeoutMs: 1_000 },
    {
      problems: this.problems,
      node: this.node,
      clock: this.clock,
      log: silentLogger,
      random: () => 0.5,
      hasCpuManager: async () => this.hasCpuManager,
      report: (reported) => this.reported.push(reported),
      patchNode: async (_name, patch) => {
        if (this.refuse) throw this.refuse;
        this.patches.push(patch);
        return this.node.patch(patch);
      },
    },
  );

  async start(): Promise<this> {
    this.node.set({ labels: { theirs: 'yes' } });
    await this.heartbeat.start();
    await settle();
    return this;
  }

  problem(reason: string): NodeProblem {
    return { source: 'devices', reason, message: `${reason} it is`, sinceMs: this.clock.monotonicMs() };
  }

  get marks(): (string | undefined)[] {
    return this.patches.map(({ metadata }) => metadata.labels[schedulable]);
  }

  get reason(): string | undefined {
    return this.node.current?.metadata.annotations?.[why];
  }
}

test('a problem of less than ten seconds keeps no VMI away; one that lasts does, with its reason', async () => {
  const bench = await new Bench().start();
  bench.problems.set(bench.problem('KvmMissing'));
  await bench.clock.pass(9_999);
  bench.problems.set();
  await bench.clock.pass(5_000);
  assert.deepEqual(bench.marks, ['true']);
  bench.problems.set(bench.problem('KvmMissing'));
  await bench.clock.pass(10_000);
  assert.deepEqual(bench.marks, ['true', 'false']);
  assert.equal(bench.reason, 'KvmMissing: KvmMissing it is');
  assert.deepEqual(bench.reported, [
    { schedulable: true },
    { schedulable: false, reason: 'KvmMissing', message: 'KvmMissing it is' },
  ]);
  assert.equal(bench.heartbeat.health.schedulable, false);
  await bench.heartbeat.stop();
});

test('the node takes VMIs again after five seconds without a problem, and the reason goes', async () => {
  const bench = await new Bench().start();
  bench.problems.set(bench.problem('KvmMissing'));
  await bench.clock.pass(10_000);
  bench.problems.set();
  await bench.clock.pass(4_000);
  bench.problems.set(bench.problem('KvmMissing'));
  await bench.clock.pass(1_000);
  bench.problems.set();
  await bench.clock.pass(4_999);
  assert.deepEqual(bench.marks, ['true', 'false'], 'it came back for a second');
  await bench.clock.pass(1);
  assert.deepEqual(bench.marks, ['true', 'false', 'true']);
  assert.equal(bench.reason, undefined);
  await bench.heartbeat.stop();
});

test('a second problem is told when it joins the first, and what is told is short', async () => {
  const bench = await new Bench().start();
  bench.problems.set(bench.problem('A'));
  await bench.clock.pass(10_000);
  bench.problems.set(...bench.problems.problems(), { ...bench.problem('B'), message: 'x'.repeat(5_000) });
  await bench.clock.pass(5_000);
  assert.match(bench.reason ?? '', /^A: A it is; B: x+…$/);
  assert.equal(bench.reason?.length, 1_000);
  await bench.heartbeat.stop();
});

test('at the start any problem counts at once, and so does its end: nobody was told "yes" yet', async () => {
  const bench = new Bench();
  bench.problems.set(bench.problem('NotRegistered'));
  await bench.start();
  assert.deepEqual(bench.marks, ['false']);
  assert.match(bench.reason ?? '', /^AgentStarting: .*; NotRegistered: /);
  bench.problems.set();
  await settle();
  assert.deepEqual(bench.marks, ['false', 'true']);
  assert.deepEqual(bench.reported, [{ schedulable: true }], 'what ends soon after the start is not worth an event');
  await bench.heartbeat.stop();
});

test('a problem that is there from the start is told after ten seconds', async () => {
  const bench = new Bench();
  bench.problems.set(bench.problem('KvmMissing'));
  await bench.start();
  await bench.clock.pass(9_999);
  assert.deepEqual(bench.reported, []);
  await bench.clock.pass(1);
  assert.deepEqual(bench.marks, ['false', 'false']);
  assert.equal(bench.reported.length, 1);
  assert.equal(bench.reason, 'KvmMissing: KvmMissing it is');
  await bench.heartbeat.stop();
});

test('a beat that fails while the node gets worse is made up for with the newest mark', async () => {
  const bench = await new Bench().start();
  bench.refuse = new Error('away');
  bench.problems.set(bench.problem('KvmMissing'));
  await bench.clock.pass(60_000);
  bench.refuse = undefined;
  await bench.clock.pass(33_000);
  assert.deepEqual(bench.marks, ['true', 'false']);
  await bench.heartbeat.stop();
});

test('the CPU manager is looked at with every beat', async () => {
  const bench = await new Bench().start();
  bench.hasCpuManager = true;
  await bench.clock.pass(96_000);
  const labels = bench.patches.map(({ metadata }) => [
    metadata.labels.cpumanager,
    metadata.labels['kubevirt.io/cpumanager'],
  ]);
  assert.deepEqual(labels, [
    ['false', 'false'],
    ['true', 'true'],
  ]);
  await bench.heartbeat.stop();
});

test('while nobody knows whether there is a CPU manager, what the node says of it stays', async () => {
  const bench = new Bench();
  bench.hasCpuManager = undefined;
  await bench.start();
  assert.deepEqual(bench.patches[0]?.metadata.labels, { [schedulable]: 'true' });
  bench.hasCpuManager = true;
  await bench.clock.pass(96_000);
  bench.hasCpuManager = undefined;
  await bench.clock.pass(96_000);
  assert.deepEqual(
    bench.patches.map(({ metadata }) => metadata.labels.cpumanager),
    [undefined, 'true', 'true'],
  );
  await bench.heartbeat.stop();
});

test('a mark that somebody else changes is put right within seconds, and ever more rarely while that goes on', async () => {
  const bench = await new Bench().start();
  const meddle = () => bench.node.patch({ metadata: { labels: { [schedulable]: 'false' } } });
  await bench.clock.pass(1_000);
  meddle();
  await bench.clock.pass(3_999);
  assert.deepEqual(bench.marks, ['true']);
  await bench.clock.pass(1);
  assert.deepEqual(bench.marks, ['true', 'true']);
  for (let second = 0; second < 600; second++) {
    meddle();
    await bench.clock.pass(1_000);
  }
  assert.ok(bench.patches.length > 8 && bench.patches.length < 18, `${bench.patches.length} beats in ten minutes`);
  await bench.clock.pass(300_000);
  const before = bench.patches.length;
  meddle();
  await bench.clock.pass(5_000);
  assert.equal(bench.patches.length, before + 1, 'forgotten');
  await bench.heartbeat.stop();
});

test('labels and annotations of others, and old news of the watch, make no beat', async () => {
  const bench = await new Bench().start();
  const marked = bench.node.current;
  bench.node.patch({ metadata: { labels: { theirs: 'no', 'example.com/a': 'b' }, annotations: { c: 'd' } } });
  await bench.clock.pass(30_000);
  assert.ok(marked);
  const { metadata } = marked;
  bench.node.show({ ...marked, metadata: { ...metadata, resourceVersion: '1', labels: { [schedulable]: 'false' } } });
  await bench.clock.pass(30_000);
  assert.equal(bench.patches.length, 1);
  await bench.heartbeat.stop();
});

test('a node that is deleted is asked for ever more rarely, and marked at once when it is made again', async () => {
  const bench = await new Bench().start();
  bench.refuse = new KubeError('NOT_FOUND', 'nodes "node1" not found');
  bench.node.set(undefined);
  await bench.clock.pass(600_000);
  assert.ok(bench.heartbeat.health.failures > 10 && bench.heartbeat.health.failures < 40);
  bench.refuse = undefined;
  bench.node.set({});
  await settle();
  assert.deepEqual(bench.marks, ['true', 'true']);
  await bench.heartbeat.stop();
});

test('a node made again while its beats were taken gets its marks within seconds', async () => {
  const bench = await new Bench().start();
  bench.problems.set(bench.problem('KvmMissing'));
  await bench.clock.pass(10_000);
  bench.node.set(undefined);
  bench.node.set({});
  await bench.clock.pass(5_000);
  assert.equal(bench.reason, 'KvmMissing: KvmMissing it is');
  await bench.heartbeat.stop();
});

for (const code of ['FORBIDDEN', 'INVALID'] as const) {
  test(`a patch that admission refuses (${code}) is tried again with growing waits, and stops nobody from leaving`, async () => {
    const bench = new Bench();
    bench.refuse = new KubeError(code, 'the policy denies it');
    await bench.start();
    await bench.clock.pass(300_000);
    const { failures } = bench.heartbeat.health;
    assert.ok(failures > 5 && failures < 20, `${failures} tries in five minutes`);
    assert.equal(bench.heartbeat.health.schedulable, undefined);
    const late = assert.rejects(bench.heartbeat.stop(), { code: 'NOT_MARKED' });
    await bench.clock.pass(2_000);
    await late;
    assert.equal(bench.clock.timers, 0);
    assert.deepEqual([bench.problems.listeners, bench.node.listeners], [0, 0]);
  });
}

test('an agent that leaves marks the node at once, with the reason, whatever else is wrong', async () => {
  const bench = await new Bench().start();
  bench.problems.set(bench.problem('KvmMissing'));
  await bench.heartbeat.leave();
  assert.deepEqual(bench.marks, ['true', 'false']);
  assert.match(bench.reason ?? '', /^AgentLeaving: /);
  await bench.heartbeat.stop();
  assert.equal(bench.clock.timers, 0);
});

test('problems of parts that are only asked keep the time at which they began', async () => {
  const clock = new FakeClock();
  let wrong: string[] = [];
  const look = () => wrong.map((reason) => ({ source: 'api' as const, reason, message: 'm' }));
  const polled = new PolledProblems({ name: 'watches', everyMs: 2_000 }, { clock, look, log: silentLogger });
  let changes = 0;
  polled.onChange(() => changes++);
  await polled.start();
  wrong = ['A'];
  await clock.pass(2_000);
  const sinceMs = clock.monotonicMs();
  wrong = ['A', 'B'];
  await clock.pass(2_000);
  assert.deepEqual(
    polled.problems().map((problem) => [problem.reason, problem.sinceMs - sinceMs]),
    [
      ['A', 0],
      ['B', 2_000],
    ],
  );
  await clock.pass(10_000);
  assert.equal(changes, 2);
  wrong = ['B', 'C'];
  await clock.pass(2_000);
  assert.equal(changes, 3);
  await polled.stop();
  assert.equal(clock.timers, 0);
});
