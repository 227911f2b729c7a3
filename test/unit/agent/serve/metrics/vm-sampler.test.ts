import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { SampledLauncher } from '../../../../../src/agent/serve/metrics/ports.ts';
import { samplerDefaults, VmSampler } from '../../../../../src/agent/serve/metrics/vm-sampler.ts';
import type { VirtualMachineInstance } from '../../../../../src/api/index.ts';
import { silentLogger } from '../../../../../src/base/index.ts';
import { vmiOf } from '../../../../fixtures/agent/builders.ts';
import { domainStatsJson, filesystemsJson } from '../../../../fixtures/domain-stats.ts';
import { FakeClock } from '../../../../fixtures/fake-clock.ts';
import { unpacked } from '../../../../fixtures/packed-lines.ts';

const never = () => new Promise<never>(() => undefined);
const fine: SampledLauncher = {
  domainStats: async () => domainStatsJson(),
  filesystems: async () => filesystemsJson,
  dirtyRate: async () => 2n,
};

class World {
  readonly clock = new FakeClock();
  readonly vmis = new Map<string, VirtualMachineInstance>();
  readonly launchers = new Map<string, SampledLauncher>();
  readonly asked = new Map<string, number>();
  readonly #listeners = new Set<(key: string) => void>();
  readonly sampler = new VmSampler(
    { nodeName: 'node1', ...samplerDefaults },
    {
      vmis: {
        synced: true,
        get: (key) => this.vmis.get(key),
        keys: () => [...this.vmis.keys()],
        onChange: (listener) => {
          this.#listeners.add(listener);
          return () => this.#listeners.delete(listener);
        },
      },
      launchers: {
        find: ({ metadata }) => {
          const launcher = this.launchers.get(metadata.name);
          if (launcher) this.asked.set(metadata.name, (this.asked.get(metadata.name) ?? 0) + 1);
          return launcher;
        },
      },
      clock: this.clock,
      log: silentLogger,
      random: () => 0.5,
    },
  );

  add(name: string, launcher: SampledLauncher | null = fine, more: Parameters<typeof vmiOf>[1] = {}): void {
    const vmi = vmiOf('Running', { ...more, metadata: { name, uid: `uid-${name}`, ...more.metadata } });
    if (launcher) this.launchers.set(name, launcher);
    this.vmis.set(`default/${name}`, vmi);
    this.publish(name);
  }

  publish(name: string): void {
    for (const listener of this.#listeners) listener(`default/${name}`);
  }

  get listeners(): number {
    return this.#listeners.size;
  }

  families(name: string): string[] {
    const vm = this.sampler.read().find(({ key }) => key === `default/${name}`);
    return (vm?.lines ?? []).flatMap((lines) => [...unpacked(lines).keys()]);
  }

  source(name: string, wanted: string) {
    return this.sampler
      .read()
      .find(({ key }) => key === `default/${name}`)
      ?.sources.find(({ source }) => source === wanted);
  }

  /** A scrape whose wait is over. */
  async scrape(): Promise<void> {
    const wanted = this.sampler.want();
    await this.clock.pass(1_000);
    await wanted;
  }
}

const cpu = 'kubevirt_vmi_cpu_usage_seconds_total';
const used = 'kubevirt_vmi_filesystem_used_bytes';
const dirty = 'kubevirt_vmi_dirty_rate_bytes_per_second';

test('nobody is asked before the first scrape, which waits until all have answered', async () => {
  const world = new World();
  for (const name of ['a', 'b']) world.add(name);
  await world.clock.pass(60_000);
  assert.equal(world.asked.size, 0);
  assert.equal(world.clock.timers, 0);
  let isDone = false;
  void world.sampler.want().then(() => {
    isDone = true;
  });
  await world.clock.pass(0);
  assert.equal(isDone, true);
  assert.ok(world.families('a').includes(cpu));
  assert.ok(world.families('b').includes(used));
  assert.ok(world.families('b').includes(dirty));
});

test('the first scrape waits a second at most for launchers that hang, and tells of the others', async () => {
  const world = new World();
  for (let at = 0; at < 20; at++) world.add(`hung${at}`, { domainStats: never, filesystems: never, dirtyRate: never });
  world.add('fine');
  let isDone = false;
  void world.sampler.want().then(() => {
    isDone = true;
  });
  await world.clock.pass(999);
  assert.equal(isDone, false);
  assert.ok(world.families('fine').includes(cpu), 'twenty that hang have not kept it out');
  await world.clock.pass(1);
  assert.equal(isDone, true);
});

test('a launcher that hangs is not asked again before its call has ended', async () => {
  const world = new World();
  world.add('hung', { ...fine, domainStats: never });
  await world.scrape();
  const before = world.asked.get('hung') ?? 0;
  for (let minute = 0; minute < 4; minute++) await world.clock.pass(60_000);
  // The other two sources go on: 8 turns of one and 4 of the other.
  const after = (world.asked.get('hung') ?? 0) - before;
  assert.ok(after <= 13, `asked ${after} times`);
  assert.ok(!world.families('hung').includes(cpu));
  assert.ok(world.families('hung').includes(used));
});

test('a guest agent that fails costs the file systems only', async () => {
  const world = new World();
  const filesystems = async () => Promise.reject(new Error('guest agent is not connected'));
  world.add('vm', { ...fine, filesystems });
  await world.scrape();
  assert.ok(world.families('vm').includes(cpu));
  assert.ok(!world.families('vm').includes(used));
  assert.equal(world.source('vm', 'filesystems')?.errors, 1);
  assert.equal(world.source('vm', 'stats')?.errors, 0);
});

test('an answer that is no JSON is an error of this VM', async () => {
  const world = new World();
  world.add('torn', { ...fine, domainStats: async () => '{"Name":' });
  world.add('fine');
  await world.scrape();
  assert.equal(world.source('torn', 'stats')?.errors, 1);
  assert.ok(world.families('fine').includes(cpu));
});

test('figures grow old and are told no more; their age is told', async () => {
  const world = new World();
  let isFine = true;
  world.add('vm', {
    ...fine,
    domainStats: async () => (isFine ? domainStatsJson() : Promise.reject(new Error('hung'))),
  });
  await world.scrape();
  isFine = false;
  await world.clock.pass(50_000);
  assert.ok(world.families('vm').includes(cpu));
  await world.scrape();
  assert.equal(Math.round((world.source('vm', 'stats')?.ageMs ?? 0) / 1_000), 52);
  await world.clock.pass(15_000);
  assert.ok(!world.families('vm').includes(cpu));
});

test('series go with their VMI, also when another one has its name, and when it has ended', async () => {
  const world = new World();
  for (const name of ['gone', 'ended', 'again']) world.add(name);
  await world.scrape();
  world.vmis.delete('default/gone');
  world.add('ended', fine, { status: { phase: 'Succeeded' } });
  world.add('again', fine, { metadata: { uid: 'another' } });
  world.publish('gone');
  assert.deepEqual(
    world.sampler.read().map(({ key, lines }) => [key, lines.length]),
    [['default/again', 0]],
  );
  await world.clock.pass(0);
  assert.equal(world.sampler.size, 1);
  assert.ok(world.families('again').includes(cpu));
});

test('a VM of another node, or one that is only coming, is not told of', async () => {
  const world = new World();
  world.add('coming', fine, { metadata: { labels: { 'kubevirt.io/nodeName': 'node2' } } });
  await world.scrape();
  assert.deepEqual(world.sampler.read(), []);
  assert.equal(world.asked.size, 0);
});

test('pages are not counted while the VM is being migrated', async () => {
  const world = new World();
  const migrationState = { startTimestamp: '2026-01-02T03:00:00Z' };
  world.add('moving', fine, { status: { migrationState: migrationState as never } });
  world.add('moved', fine, { status: { migrationState: { ...migrationState, completed: true } as never } });
  await world.scrape();
  assert.ok(!world.families('moving').includes(dirty));
  assert.ok(world.families('moving').includes(cpu));
  assert.ok(world.families('moved').includes(dirty));
});

test('a VM without an open connection has no error and is asked when it has one', async () => {
  const world = new World();
  world.add('late', null);
  await world.scrape();
  assert.deepEqual(world.source('late', 'stats'), { source: 'stats', errors: 0, ageMs: undefined });
  world.launchers.set('late', fine);
  await world.clock.pass(20_000);
  assert.ok(world.families('late').includes(cpu));
});

test('five minutes without a scrape end the questions and free the memory', async () => {
  const world = new World();
  world.add('vm');
  await world.scrape();
  await world.clock.pass(290_000);
  assert.equal(world.sampler.isAwake, true);
  await world.scrape();
  await world.clock.pass(200_000);
  assert.equal(world.sampler.isAwake, true, 'it was wanted 200 s ago');
  await world.clock.pass(200_000);
  assert.equal(world.sampler.isAwake, false);
  assert.equal(world.sampler.size, 0);
  assert.equal(world.listeners, 0);
  assert.equal(world.clock.timers, 0);
  await world.scrape();
  assert.ok(world.families('vm').includes(cpu));
});

test('stop ends it for good', async () => {
  const world = new World();
  world.add('vm');
  await world.scrape();
  await world.sampler.stop();
  assert.equal(world.clock.timers, 0);
  await world.sampler.want();
  assert.equal(world.sampler.isAwake, false);
});

const job = (DataRemaining: number) =>
  domainStatsJson('d_v', { MigrateDomainJobInfo: { DataRemainingSet: true, DataRemaining } });
const remaining = 'kubevirt_vmi_migration_data_remaining_bytes';

test('a VM that migrates is asked every five seconds how far it is, and no longer than it migrates', async () => {
  const world = new World();
  let asked = 0;
  const domainStats = async () => job(1000 - asked++);
  const reported = () => {
    const lines = world.sampler.read().flatMap((vm) => vm.lines.map((source) => unpacked(source).get(remaining)));
    return lines.find((line) => line !== undefined);
  };
  const be = (migrationState: object | undefined) =>
    world.add('vm', { ...fine, domainStats }, { status: { migrationState: migrationState as never } });
  be(undefined);
  await world.scrape();
  assert.equal(asked, 1);
  assert.equal(reported(), undefined);
  be({ startTimestamp: '2026-01-02T03:00:00Z' });
  await world.clock.pass(0);
  assert.equal(reported(), `${remaining}{node="node1",namespace="default",name="vm"} 999\n`);
  // Its progress is written to the VMI again and again: that is no reason to ask.
  for (let write = 0; write < 10; write++) world.publish('vm');
  await world.clock.pass(5_000);
  assert.equal(asked, 3);
  await world.clock.pass(5_000);
  assert.equal(asked, 4);
  assert.match(reported() ?? '', / 997\n$/);
  be({ startTimestamp: '2026-01-02T03:00:00Z', completed: true });
  assert.equal(reported(), undefined, 'at once');
  assert.equal(world.source('vm', 'migration'), undefined);
  await world.clock.pass(5_000);
  be({ migrationUid: 'another', startTimestamp: '2026-01-02T03:05:00Z' });
  await world.clock.pass(0);
  assert.ok(reported() !== undefined, 'a later migration is followed, too');
});

test('a launcher that hangs during a migration has no figures of it, and an error that is told', async () => {
  const world = new World();
  const migrationState = { startTimestamp: '2026-01-02T03:00:00Z' } as never;
  world.add(
    'vm',
    { ...fine, domainStats: async () => Promise.reject(new Error('hung')) },
    { status: { migrationState } },
  );
  await world.scrape();
  assert.equal(world.source('vm', 'migration')?.errors, 1);
  assert.ok(!world.families('vm').includes(remaining));
});

test('a launcher that tells of more than any machine has is an error of its VM, and is not kept', async () => {
  const world = new World();
  const entry = (at: number) =>
    [`RxBytes`, 'TxBytes', 'RxPkts', 'TxPkts'].flatMap((name) => [
      [name, at],
      [`${name}Set`, true],
    ]);
  const Net = Array.from({ length: 512 }, (_, at) => ({
    ...{ NameSet: true, Name: `${at}`.padEnd(128, 'x') },
    ...Object.fromEntries(entry(at)),
  }));
  const labels = Object.fromEntries(Array.from({ length: 30 }, (_, at) => [`label-${at}`, 'v'.repeat(60)]));
  world.add(
    'liar',
    { ...fine, domainStats: async () => domainStatsJson('d_v', { Net }) },
    { metadata: { labels: { ...labels, 'kubevirt.io/nodeName': 'node1' } } },
  );
  await world.scrape();
  assert.equal(world.source('liar', 'stats')?.errors, 1);
  assert.ok(!world.families('liar').includes(cpu));
  assert.ok(world.families('liar').includes(used));
});
