import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Heartbeat, type NodePatch } from '../../../../../src/agent/node/heartbeat/index.ts';
import type { Node } from '../../../../../src/agent/node/ports.ts';
import { silentLogger } from '../../../../../src/base/index.ts';
import { FakeNode } from '../../../../fixtures/agent/fake-node.ts';
import { FakeProblems } from '../../../../fixtures/agent/fake-problems.ts';
import { FakeClock, settle } from '../../../../fixtures/fake-clock.ts';

const schedulable = 'kubevirt.io/schedulable';
const yes = 'true';
const no = 'false';

/** An API server that may swallow requests: they end when their sender gives them up. */
class Bench {
  readonly clock = new FakeClock();
  readonly node = new FakeNode();
  readonly taken: NodePatch[] = [];
  /** Swallowed, and what would be done if the server came to them after all. */
  readonly swallowed: { readonly patch: NodePatch; readonly atMs: number; takeLate(): void }[] = [];
  swallows: (patch: NodePatch) => boolean = () => false;
  hasCpuManager: () => Promise<boolean> = async () => true;
  readonly heartbeat = new Heartbeat(
    { nodeName: 'node1', periodMs: 60_000, markTimeoutMs: 4_000 },
    {
      problems: new FakeProblems(),
      node: this.node,
      clock: this.clock,
      log: silentLogger,
      random: () => 0.5,
      hasCpuManager: () => this.hasCpuManager(),
      report: () => undefined,
      patchNode: (_name, patch, signal) => this.#patch(patch, signal),
    },
  );

  async #patch(patch: NodePatch, signal: AbortSignal): Promise<Node> {
    if (this.swallows(patch)) {
      const takeLate = () => void this.node.patch(patch);
      this.swallowed.push({ patch, atMs: this.clock.monotonicMs(), takeLate });
      await new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason), { once: true }));
    }
    this.taken.push(patch);
    return this.node.patch(patch);
  }

  async start(): Promise<this> {
    this.node.set({});
    await this.heartbeat.start();
    await settle();
    return this;
  }

  get marks(): (string | undefined)[] {
    return this.taken.map(markOf);
  }

  get mark(): string | undefined {
    return this.node.current?.metadata.labels?.[schedulable];
  }
}

const markOf = ({ metadata }: NodePatch) => metadata.labels[schedulable];
const isYes = (patch: NodePatch) => markOf(patch) === yes;

test('a beat that hangs when the agent leaves is given up after a moment, and the mark comes in time', async () => {
  const bench = new Bench();
  bench.swallows = isYes;
  await bench.start();
  const left = bench.heartbeat.leave();
  await bench.clock.pass(499);
  assert.deepEqual(bench.marks, []);
  await bench.clock.pass(1);
  await left;
  assert.deepEqual(bench.marks, [no]);
  assert.equal(bench.heartbeat.health.failures, 0, 'given up is not failed');
  await bench.heartbeat.stop();
  assert.equal(bench.clock.timers, 0);
});

test('a "yes" that was given up and comes late all the same is put right while the agent drains', async () => {
  const bench = new Bench();
  bench.swallows = isYes;
  await bench.start();
  const left = bench.heartbeat.leave();
  await bench.clock.pass(500);
  await left;
  bench.swallowed[0]?.takeLate();
  assert.equal(bench.mark, yes);
  await bench.clock.pass(250);
  assert.equal(bench.mark, no);
  await bench.heartbeat.stop();
});

test('a mark of the leaving agent that is swallowed is sent again while somebody waits for it', async () => {
  const bench = await new Bench().start();
  bench.swallows = (patch) => !isYes(patch) && bench.swallowed.length < 2;
  const left = bench.heartbeat.leave();
  await bench.clock.pass(4_000);
  await left;
  assert.deepEqual(bench.marks, [yes, no]);
  const [first, second] = bench.swallowed.map(({ atMs }) => atMs);
  assert.equal((second ?? 0) - (first ?? 0), 1_250, 'a second, and a breath');
  await bench.heartbeat.stop();
});

test('an API server that swallows everything keeps nobody longer than the limit', async () => {
  const bench = await new Bench().start();
  bench.swallows = () => true;
  const late = assert.rejects(bench.heartbeat.leave(), { code: 'NOT_MARKED' });
  await bench.clock.pass(4_000);
  await late;
  await bench.heartbeat.stop();
  assert.equal(bench.clock.timers, 0);
});

test('a disk that hangs keeps no mark back: an agent that leaves does not look at the CPU manager', async () => {
  const bench = await new Bench().start();
  bench.hasCpuManager = () => new Promise(() => undefined);
  await bench.clock.pass(97_000);
  const left = bench.heartbeat.leave();
  await bench.clock.pass(500);
  await left;
  assert.deepEqual(bench.marks, [yes, no]);
  assert.equal(bench.taken.at(-1)?.metadata.labels.cpumanager, 'true', 'as last seen');
  await bench.heartbeat.stop();
});

test('a beat whose look at the CPU manager hangs is given up like one that the API server swallows', async () => {
  const bench = new Bench();
  let looks = 0;
  bench.hasCpuManager = () => (looks++ === 0 ? new Promise(() => undefined) : Promise.resolve(false));
  await bench.start();
  await bench.clock.pass(10_000);
  assert.equal(bench.heartbeat.health.failures, 1);
  await bench.clock.pass(2_000);
  assert.deepEqual(bench.marks, [yes]);
  await bench.heartbeat.stop();
});
