import assert from 'node:assert/strict';
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { test } from 'node:test';
import { KsmFiles, type KsmPatch, KsmService } from '../../../../../src/agent/node/ksm/index.ts';
import { type KsmPlan, type KsmState, planKsm, readKsmParameters } from '../../../../../src/agent/node/ksm/ksm-plan.ts';
import { silentLogger } from '../../../../../src/base/index.ts';
import { KubeError } from '../../../../../src/kube/index.ts';
import { FakeNode } from '../../../../fixtures/agent/fake-node.ts';
import { FakeSettings } from '../../../../fixtures/agent/fake-settings.ts';
import { FakeClock, settle } from '../../../../fixtures/fake-clock.ts';

const gib = 1024 * 1024;
const defaults = readKsmParameters({});
const idle: KsmState = { isRunning: false, pagesToScan: 100, totalKib: 32 * gib, availableKib: 16 * gib };
const short: KsmState = { ...idle, availableKib: 1 * gib };

test('memory enough: what does not run stays so; what runs does less and less, and ends', () => {
  assert.deepEqual(planKsm(idle, defaults), { run: false });
  const plan = planKsm({ ...idle, isRunning: true, pagesToScan: 200 }, defaults);
  assert.deepEqual(plan, { run: true, pagesToScan: 150, sleepMs: 100 });
  assert.equal(planKsm({ ...idle, isRunning: true, pagesToScan: 114 }, defaults).run, true);
  assert.deepEqual(planKsm({ ...idle, isRunning: true, pagesToScan: 113 }, defaults), { run: false });
});

test('memory short: it begins with few pages, then does more and more, up to a limit', () => {
  assert.deepEqual(planKsm(short, defaults), { run: true, pagesToScan: 100, sleepMs: 51 });
  const pages = (pagesToScan: number) => {
    const plan = planKsm({ ...short, isRunning: true, pagesToScan }, defaults);
    return plan.run ? plan.pagesToScan : 0;
  };
  assert.deepEqual([pages(100), pages(1000), pages(1250)], [400, 1250, 1250]);
});

test('nothing in use, or more available than there is, is no division by zero', () => {
  for (const availableKib of [32 * gib, 33 * gib]) {
    const plan = planKsm({ ...idle, isRunning: true, pagesToScan: 500, availableKib }, defaults);
    assert.deepEqual(plan, { run: true, pagesToScan: 450, sleepMs: 100 * 16 * gib });
  }
  const huge = { ...defaults, sleepBaselineMs: 4_000_000_000 };
  const plan = planKsm({ ...short, availableKib: 0, totalKib: 1 }, huge);
  assert.deepEqual(plan, { run: true, pagesToScan: 100, sleepMs: 2 ** 32 - 1 });
  assert.equal(planKsm({ ...short, totalKib: 0, availableKib: 0 }, defaults).run, true);
});

test('annotations override the defaults; one that cannot be used does not', () => {
  const of = (name: string, value: string) => readKsmParameters({ [`kubevirt.io/ksm-${name}-override`]: value });
  assert.equal(of('pages-boost', '500').pagesBoost, 500);
  assert.equal(of('pages-boost', '-1').pagesBoost, 300);
  assert.equal(of('pages-decay', '-7').pagesDecay, -7);
  assert.equal(of('pages-decay', '7').pagesDecay, -50);
  assert.equal(of('pages-boost', 'many').pagesBoost, 300);
  assert.equal(of('pages-boost', '1e3').pagesBoost, 300);
  assert.equal(of('sleep-ms-baseline', '0').sleepBaselineMs, 100);
  assert.equal(of('free-percent', '0.5').freePart, 0.5);
  assert.equal(of('free-percent', '7').freePart, 0.2);
  assert.equal(of('free-percent', 'NaN').freePart, 0.2);
  const tight = of('pages-min', '2000');
  assert.deepEqual([tight.pagesMin, tight.pagesMax, tight.pagesInit], [2000, 2000, 2000], 'the lower bound');
});

/** The duty on a node whose kernel is a few fields. */
class Bench {
  readonly clock = new FakeClock();
  readonly settings = new FakeSettings();
  readonly node = new FakeNode();
  readonly patches: KsmPatch[] = [];
  readonly applied: KsmPlan[] = [];
  refuse: Error | undefined;
  kernel: KsmState | undefined = idle;
  readonly duty = new KsmService(
    { nodeName: 'node1' },
    {
      settings: this.settings,
      node: this.node,
      clock: this.clock,
      log: silentLogger,
      files: {
        isRunning: async () => this.kernel?.isRunning,
        state: async () => this.kernel ?? Promise.reject(new Error('no KSM')),
        apply: async (plan) => {
          this.applied.push(plan);
          const pages = plan.run ? { pagesToScan: plan.pagesToScan } : {};
          this.kernel = { ...(this.kernel ?? idle), isRunning: plan.run, ...pages };
        },
      },
      patchNode: async (_name, patch) => {
        this.patches.push(patch);
        if (this.refuse) throw this.refuse;
        this.node.patch(patch);
      },
    },
  );

  async start(labels: Record<string, string> = {}, annotations: Record<string, string> = {}): Promise<this> {
    this.node.set({ labels, annotations });
    await this.duty.start();
    await settle();
    return this;
  }

  get marks(): (string | undefined)[] {
    const { labels, annotations } = this.node.current?.metadata ?? {};
    return [labels?.['kubevirt.io/ksm-enabled'], annotations?.['kubevirt.io/ksm-handler-managed']];
  }

  async stop(): Promise<void> {
    await this.duty.stop();
    assert.equal(this.clock.timers, 0);
  }
}

const all = { ksmNodes: {} };

test('a node that is not selected is marked once, then nothing is written for hours', async () => {
  const bench = await new Bench().start();
  await bench.clock.pass(7_200_000);
  assert.deepEqual(bench.marks, ['false', 'false']);
  assert.equal(bench.patches.length, 1);
  assert.deepEqual(bench.applied, []);
  await bench.stop();
});

test('a selected node takes one step at once and one in three minutes, and is patched only on a change', async () => {
  const bench = new Bench();
  bench.settings.setNode(all);
  bench.kernel = short;
  await bench.start();
  assert.deepEqual(bench.marks, ['true', 'true']);
  await bench.clock.pass(900_000);
  const pages = bench.applied.map((plan) => (plan.run ? plan.pagesToScan : 0));
  assert.deepEqual(pages, [100, 400, 700, 1000, 1250, 1250]);
  assert.equal(bench.patches.length, 1);
  bench.kernel = { ...short, isRunning: true, pagesToScan: 100, availableKib: 20 * gib };
  await bench.clock.pass(180_000);
  assert.deepEqual(bench.marks, ['true', 'false'], 'it ended by itself');
  assert.equal(bench.patches.length, 2);
  await bench.stop();
});

test('labels of the node select it at once, and others’ changes make no step', async () => {
  const bench = new Bench();
  bench.settings.setNode({ ksmNodes: { matchLabels: { share: 'yes' } } });
  bench.kernel = short;
  await bench.start({ share: 'no' });
  assert.deepEqual(bench.marks, ['false', 'false']);
  bench.node.patch({ metadata: { labels: { share: 'yes' } } });
  await bench.clock.pass(2_000);
  assert.deepEqual(bench.marks, ['true', 'true']);
  for (let beat = 0; beat < 10; beat++) {
    bench.node.patch({ metadata: { annotations: { 'kubevirt.io/heartbeat': String(beat) } } });
    await bench.clock.pass(5_000);
  }
  assert.equal(bench.applied.length, 1);
  await bench.stop();
});

test('deselected, sharing ends if the agent had switched it on, and goes on if an administrator had', async () => {
  const ours = await new Bench().start({}, { 'kubevirt.io/ksm-handler-managed': 'true' });
  assert.deepEqual(ours.applied, [], 'nothing runs');
  await ours.stop();
  const left = new Bench();
  left.kernel = { ...idle, isRunning: true };
  await left.start({}, { 'kubevirt.io/ksm-handler-managed': 'true' });
  assert.deepEqual(left.applied, [{ run: false }]);
  assert.deepEqual(left.marks, ['false', 'false']);
  await left.stop();
  const theirs = new Bench();
  theirs.kernel = { ...idle, isRunning: true };
  await theirs.start();
  assert.deepEqual(theirs.applied, []);
  await theirs.stop();
});

test('a configuration that is not known yet takes nothing back', async () => {
  const bench = new Bench();
  bench.settings.isKnown = false;
  bench.kernel = { ...short, isRunning: true };
  await bench.start({}, { 'kubevirt.io/ksm-handler-managed': 'true' });
  await bench.clock.pass(60_000);
  assert.deepEqual([bench.applied, bench.patches], [[], []]);
  bench.settings.isKnown = true;
  bench.settings.setNode(all);
  await settle();
  assert.deepEqual(bench.marks, ['true', 'true']);
  await bench.stop();
});

test('a kernel without KSM makes a selected node say that it does not share', async () => {
  const bench = new Bench();
  bench.settings.setNode(all);
  bench.kernel = undefined;
  await bench.start();
  assert.deepEqual(bench.marks, ['false', 'false']);
  await bench.stop();
});

test('a patch that is refused is tried again with growing waits, and costs no further step of the kernel', async () => {
  const bench = new Bench();
  bench.settings.setNode(all);
  bench.kernel = short;
  bench.refuse = new KubeError('FORBIDDEN', 'the policy denies it');
  await bench.start();
  await bench.clock.pass(170_000);
  assert.ok(bench.patches.length > 3 && bench.patches.length < 12, `${bench.patches.length} tries`);
  assert.equal(bench.applied.length, 1);
  bench.refuse = undefined;
  await bench.clock.pass(180_000);
  assert.deepEqual(bench.marks, ['true', 'true']);
  await bench.stop();
});

test('marks that others change are put right; a node that is deleted is waited for', async () => {
  const bench = await new Bench().start();
  bench.node.patch({ metadata: { labels: { 'kubevirt.io/ksm-enabled': 'true' } } });
  await bench.clock.pass(2_000);
  assert.deepEqual(bench.marks, ['false', 'false']);
  bench.node.set(undefined);
  await bench.clock.pass(600_000);
  const before = bench.patches.length;
  bench.node.set({});
  await bench.clock.pass(2_000);
  assert.deepEqual([bench.marks, bench.patches.length], [['false', 'false'], before + 1]);
  await bench.stop();
});

test('changes of the node are waited for until they calm down: two seconds after the first of them it is patched once', async () => {
  const bench = await new Bench().start();
  // Long after its own write: marks that were written just now wait for another reason.
  await bench.clock.pass(600_000);
  const before = bench.patches.length;
  bench.node.patch({ metadata: { labels: { 'kubevirt.io/ksm-enabled': 'true' } } });
  await bench.clock.pass(1_000);
  bench.node.patch({ metadata: { annotations: { 'kubevirt.io/ksm-handler-managed': 'true' } } });
  await bench.clock.pass(999);
  assert.equal(bench.patches.length, before, 'not before');
  await bench.clock.pass(1);
  assert.deepEqual([bench.marks, bench.patches.length], [['false', 'false'], before + 1]);
  await bench.stop();
});

test('marks that others change again and again, or that a webhook drops, are written ever more seldom', async () => {
  const bench = await new Bench().start({});
  await bench.clock.pass(600_000);
  const before = bench.patches.length;
  for (let second = 0; second < 3_600; second += 10) {
    bench.node.patch({ metadata: { labels: { 'kubevirt.io/ksm-enabled': 'mine' } } });
    await bench.clock.pass(10_000);
  }
  const inAnHour = bench.patches.length - before;
  assert.ok(inAnHour >= 5 && inAnHour <= 15, `${inAnHour} patches in an hour of edits`);
  await bench.clock.pass(4 * 3_600_000);
  const calm = bench.patches.length;
  bench.node.patch({ metadata: { labels: { 'kubevirt.io/ksm-enabled': 'mine' } } });
  await bench.clock.pass(3_000);
  assert.equal(bench.patches.length, calm + 1, 'forgotten after hours without');
  await bench.duty.stop();
});

test('the kernel’s files are read and written, figures before the switch, and garbage is an error in words', async () => {
  const dir = await mkdtemp(path.join(tmpdir(), 'ksm-'));
  try {
    const ksmDir = path.join(dir, 'ksm');
    const meminfo = path.join(dir, 'meminfo');
    const files = new KsmFiles({ ksmDir, meminfo });
    assert.equal(await files.isRunning(), undefined);
    await mkdir(ksmDir);
    for (const [name, text] of [
      ['run', '0\n'],
      ['pages_to_scan', '100\n'],
      ['sleep_millisecs', '20\n'],
    ] as const) {
      await writeFile(path.join(ksmDir, name), text);
    }
    await writeFile(meminfo, 'MemTotal:       16318136 kB\nMemFree: 1 kB\nMemAvailable:    1234 kB\n');
    const expected = { isRunning: false, pagesToScan: 100, totalKib: 16318136, availableKib: 1234 };
    assert.deepEqual(await files.state(), expected);
    await files.apply({ run: true, pagesToScan: 400, sleepMs: 33 });
    const text = (name: string) => readFile(path.join(ksmDir, name), 'utf8');
    assert.equal(await files.isRunning(), true);
    assert.deepEqual(
      [await text('pages_to_scan'), await text('sleep_millisecs'), await text('run')].map(Number),
      [400, 33, 1],
    );
    await writeFile(meminfo, 'MemTotal: lots\n');
    await assert.rejects(files.state(), { code: 'UNREADABLE', message: /MemTotal of .* is no figure/ });
  } finally {
    await rm(dir, { recursive: true });
  }
});
