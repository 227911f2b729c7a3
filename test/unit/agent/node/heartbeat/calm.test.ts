import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  allProblems,
  Heartbeat,
  type NodePatch,
  type NodeReport,
  PolledProblems,
} from '../../../../../src/agent/node/heartbeat/index.ts';
import type { NodeProblem, ProblemSource } from '../../../../../src/agent/node/ports.ts';
import { silentLogger } from '../../../../../src/base/index.ts';
import { FakeNode } from '../../../../fixtures/agent/fake-node.ts';
import { FakeProblems } from '../../../../fixtures/agent/fake-problems.ts';
import { FakeClock, settle } from '../../../../fixtures/fake-clock.ts';

const why = 'virt-handler.kubevirt.io/unschedulable-reason';

/** What others do to the heartbeat's patience: parts that flip, parts that throw, a clock that is put right. */
class Bench {
  readonly clock = new FakeClock();
  readonly flips = new FakeProblems();
  readonly node = new FakeNode();
  readonly patches: NodePatch[] = [];
  readonly reported: NodeReport[] = [];
  failure: Error | undefined;
  report: (reported: NodeReport) => void = (reported) => this.reported.push(reported);
  readonly problems: ProblemSource = {
    problems: () => {
      if (this.failure) throw this.failure;
      return this.flips.problems();
    },
    onChange: (listener) => this.flips.onChange(listener),
  };
  readonly heartbeat = new Heartbeat(
    { nodeName: 'node1', periodMs: 60_000, markTimeoutMs: 4_000 },
    {
      problems: this.problems,
      node: this.node,
      clock: this.clock,
      log: silentLogger,
      random: () => 0.5,
      hasCpuManager: async () => false,
      report: (reported) => this.report(reported),
      patchNode: async (_name, patch) => {
        this.patches.push(patch);
        return this.node.patch(patch);
      },
    },
  );

  async start(): Promise<this> {
    this.node.set({});
    await this.heartbeat.start();
    await settle();
    return this;
  }

  problem(reason: string): NodeProblem {
    return { source: 'devices', reason, message: `${reason} it is`, sinceMs: this.clock.monotonicMs() };
  }

  get reason(): string | undefined {
    return this.node.current?.metadata.annotations?.[why];
  }

  get mark(): string | undefined {
    return this.node.current?.metadata.labels?.['kubevirt.io/schedulable'];
  }
}

test('reasons that come one after the other are one write, five seconds after the first', async () => {
  const bench = await new Bench().start();
  const problems = [bench.problem('A')];
  bench.flips.set(...problems);
  await bench.clock.pass(10_000);
  for (const reason of ['B', 'C', 'D']) {
    problems.push(bench.problem(reason));
    bench.flips.set(...problems);
    await bench.clock.pass(500);
  }
  await bench.clock.pass(3_499);
  assert.equal(bench.reason, 'A: A it is');
  await bench.clock.pass(1);
  assert.match(bench.reason ?? '', /^A: .*; B: .*; C: .*; D: /);
  assert.equal(bench.patches.length, 3);
  await bench.heartbeat.stop();
});

test('a reason that comes and goes is no write for each time, and the last word is told', async () => {
  const bench = await new Bench().start();
  const [a, b] = [bench.problem('A'), bench.problem('B')];
  bench.flips.set(a);
  await bench.clock.pass(10_000);
  const before = bench.patches.length;
  for (let flip = 0; flip < 600; flip++) {
    bench.flips.set(...(flip % 2 === 0 ? [b] : [a]));
    await bench.clock.pass(1_000);
  }
  assert.ok(bench.patches.length - before <= 8, `${bench.patches.length - before} beats in ten minutes of flips`);
  const reported = bench.reported.length;
  for (let flip = 0; flip < 60; flip++) {
    bench.flips.set(...(flip % 2 === 0 ? [b] : [a]));
    await bench.clock.pass(10_000);
  }
  assert.ok(bench.reported.length - reported <= 14, `${bench.reported.length - reported} events in ten minutes`);
  bench.flips.set(b);
  await bench.clock.pass(60_000);
  assert.equal(bench.reason, 'B: B it is');
  await bench.heartbeat.stop();
});

test('a node that turns bad again and again must be well for longer each time, up to a minute', async () => {
  const bench = await new Bench().start();
  const waitedS: number[] = [];
  for (let turn = 0; turn < 6; turn++) {
    bench.flips.set(bench.problem('A'));
    await bench.clock.pass(10_000);
    assert.equal(bench.mark, 'false');
    bench.flips.set();
    let seconds = 0;
    for (; bench.mark === 'false' && seconds < 200; seconds++) await bench.clock.pass(1_000);
    waitedS.push(seconds);
  }
  assert.deepEqual(waitedS, [5, 10, 20, 40, 60, 60]);
  await bench.clock.pass(600_000);
  bench.flips.set(bench.problem('A'));
  await bench.clock.pass(10_000);
  bench.flips.set();
  await bench.clock.pass(5_000);
  assert.equal(bench.mark, 'true', 'forgotten after ten good minutes');
  await bench.heartbeat.stop();
});

test('that the node takes VMIs again does not wait for reasons to settle', async () => {
  const bench = await new Bench().start();
  bench.flips.set(bench.problem('A'));
  await bench.clock.pass(10_000);
  bench.flips.set(bench.problem('B'));
  bench.flips.set();
  await bench.clock.pass(5_000);
  assert.deepEqual([bench.mark, bench.reason], ['true', undefined]);
  await bench.heartbeat.stop();
});

test('a part that throws when it is asked leaves what was told, and the beats go on', async () => {
  const bench = await new Bench().start();
  bench.failure = new TypeError('undefined is no function');
  await bench.clock.pass(600_000);
  assert.equal(bench.mark, 'true');
  assert.ok(bench.patches.length >= 6, `${bench.patches.length} beats in ten minutes`);
  assert.deepEqual(bench.heartbeat.health.problems, []);
  bench.failure = undefined;
  bench.flips.set(bench.problem('A'));
  await bench.clock.pass(10_000);
  assert.equal(bench.mark, 'false', 'it is believed again');
  bench.failure = new TypeError('again');
  await bench.clock.pass(600_000);
  assert.deepEqual([bench.mark, bench.reason], ['false', 'A: A it is']);
  await bench.heartbeat.stop();
});

test('a part that has thrown from the start keeps VMIs away, and says what to do', async () => {
  const bench = new Bench();
  bench.failure = new TypeError('undefined is no function');
  await bench.start();
  await bench.clock.pass(10_000);
  assert.match(bench.reason ?? '', /^HealthUnknown: .*undefined is no function.*delete the agent's pod/);
  bench.failure = undefined;
  await bench.clock.pass(200_000);
  assert.equal(bench.mark, 'true');
  await bench.heartbeat.stop();
});

test('of several sources one that throws takes no other with it', () => {
  const clock = new FakeClock();
  const good = new FakeProblems();
  const bad: ProblemSource = {
    problems: () => {
      throw new Error('broken');
    },
    onChange: () => () => undefined,
  };
  const all = allProblems([bad, good], { clock, log: silentLogger });
  good.set({ source: 'api', reason: 'A', message: 'm', sinceMs: 1 });
  assert.deepEqual(
    all.problems().map(({ reason }) => reason),
    ['HealthUnknown', 'A'],
  );
});

test('a look that throws changes nothing and is made again', async () => {
  const clock = new FakeClock();
  let reasons: string[] | undefined = ['A'];
  const look = () => {
    if (!reasons) throw new Error('broken');
    return reasons.map((reason) => ({ source: 'api' as const, reason, message: 'm' }));
  };
  const polled = new PolledProblems({ name: 'watches', everyMs: 1_000 }, { clock, look, log: silentLogger });
  await polled.start();
  const shown = () => polled.problems().map(({ reason }) => reason);
  reasons = undefined;
  await clock.pass(10_000);
  assert.deepEqual(shown(), ['A']);
  reasons = [];
  await clock.pass(1_000);
  assert.deepEqual(shown(), []);
  await polled.stop();
});

test('an event that cannot be told stops neither the beats nor the agent that leaves', async () => {
  const bench = new Bench();
  bench.report = () => {
    throw new Error('broken');
  };
  await bench.start();
  await bench.clock.pass(200_000);
  assert.ok(bench.patches.length >= 3);
  assert.equal(bench.heartbeat.health.failures, 0);
  await bench.heartbeat.leave();
  assert.equal(bench.mark, 'false');
  await bench.heartbeat.stop();
});

test("a wall clock that is put right is in the node's heartbeat within seconds, by one beat", async () => {
  for (const byMs of [600_000, -600_000]) {
    const bench = await new Bench().start();
    await bench.clock.pass(1_000);
    bench.clock.jumpWallClock(byMs);
    await bench.clock.pass(15_000);
    assert.equal(bench.patches.length, 2);
    const beat = Date.parse(bench.node.current?.metadata.annotations?.['kubevirt.io/heartbeat'] ?? '');
    assert.ok(Math.abs(beat - bench.clock.now().getTime()) <= 15_000);
    await bench.clock.pass(60_000);
    assert.equal(bench.patches.length, 2);
    await bench.heartbeat.stop();
  }
});

test('a wall clock that drifts slowly makes no beat', async () => {
  const bench = await new Bench().start();
  for (let second = 0; second < 90; second++) {
    bench.clock.jumpWallClock(40);
    await bench.clock.pass(1_000);
  }
  assert.equal(bench.patches.length, 1);
  await bench.heartbeat.stop();
});
