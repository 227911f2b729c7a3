import assert from 'node:assert/strict';
import { beforeEach, test } from 'node:test';
import { silentLogger } from '../../../../src/base/index.ts';
import { GuestStore } from '../../../../src/launcher/guest-agent/store.ts';
import { StatsCollector } from '../../../../src/launcher/stats/collector.ts';
import { domainStats } from '../../../../src/launcher/stats/domain-stats.ts';
import type { TypedParams } from '../../../../src/libvirt/index.ts';
import { FakeClock } from '../../../fixtures/fake-clock.ts';
import { MemoryHypervisor } from '../../../fixtures/memory-hypervisor.ts';

const ref = { name: 'default_small', uuid: '5d307ca9-b3ef-428c-8861-06e72d69f223', id: 1 };
const params: TypedParams = new Map<string, number | bigint | string>([
  ['cpu.time', 1_000n],
  ['balloon.current', 65_536n],
  ['vcpu.current', 1],
  ['vcpu.2.state', 1],
  ['vcpu.2.time', 77n],
  ['vcpu.0.state', 2],
  ['net.count', 1],
  ['net.0.name', 'tap0'],
  ['net.0.rx.bytes', 12n],
  ['block.count', 1],
  ['block.0.name', 'vda'],
  ['block.0.path', '/disk'],
  ['block.0.rd.reqs', 5n],
]);

let hypervisor: MemoryHypervisor;
let clock: FakeClock;
let stats: StatsCollector;

beforeEach(async () => {
  hypervisor = new MemoryHypervisor();
  clock = new FakeClock();
  const deps = { hypervisor, guest: new GuestStore(), log: silentLogger, clock };
  stats = new StatsCollector({ domainName: 'default_small' }, deps);
  hypervisor.statsParams = params;
  await hypervisor.start(await hypervisor.define('<domain><name>default_small</name></domain>'), { paused: false });
  hypervisor.calls.length = 0;
});

test('each value has its Set flag, missing ones are 0 and unset, and nothing is left out', () => {
  const sources = { domain: ref, params, memory: new Map([[7, 9n]]), cpuMap: [[true]], load: undefined };
  const json = JSON.parse(
    JSON.stringify(
      domainStats({
        ...sources,
        aliases: new Map([
          ['vda', 'root'],
          ['tap0', 'net'],
        ]),
      }),
    ),
  );
  assert.deepEqual(json.Cpu, { TimeSet: true, Time: 1000, UserSet: false, User: 0, SystemSet: false, System: 0 });
  assert.deepEqual(
    [json.Memory.RSSSet, json.Memory.RSS, json.Memory.TotalSet, json.Memory.Total],
    [true, 9, true, 65536],
  );
  assert.deepEqual(
    json.Vcpu.map((vcpu: { State: number; Time: number }) => [vcpu.State, vcpu.Time]),
    [
      [2, 0],
      [1, 77],
    ],
  );
  assert.deepEqual(
    [json.Net[0].Name, json.Net[0].AliasSet, json.Net[0].Alias, json.Net[0].RxBytes],
    ['tap0', true, 'net', 12],
  );
  assert.deepEqual(
    [json.Block[0].Alias, json.Block[0].Path, json.Block[0].RdReqs, json.Block[0].WrReqsSet],
    ['root', '/disk', 5, false],
  );
  assert.equal(json.MigrateDomainJobInfo.DataTotalSet, false);
  assert.deepEqual([json.CPUMapSet, json.CPUMap, json.DirtyRate, json.Load], [true, [[true]], null, null]);
});

test('a sample serves 3.25 s, and callers at the same time share one', async () => {
  await Promise.all([stats.current(), stats.current()]);
  clock.advance(3249);
  await stats.current();
  assert.equal(hypervisor.calls.filter((call) => call === 'stats').length, 1);
  clock.advance(1);
  await stats.current();
  assert.equal(hypervisor.calls.filter((call) => call === 'stats').length, 2);
});

test('no running domain is an error that is not kept', async () => {
  hypervisor.end('default_small', 1);
  await assert.rejects(stats.current(), { message: 'empty DomainStats' });
  hypervisor.domains.clear();
  await hypervisor.start(await hypervisor.define('<domain><name>default_small</name></domain>'), { paused: false });
  assert.equal((await stats.current()).Name, 'default_small');
});

test('the dirty rate is the one of the measurement that was started for it', async () => {
  hypervisor.statsParams = new Map([['dirtyrate.calc_status', 1]]);
  const rate = stats.dirtyRate();
  assert.equal(stats.dirtyRate(), rate, 'one measurement at a time');
  await clock.pass(1000);
  hypervisor.statsParams = new Map<string, number | bigint>([
    ['dirtyrate.calc_status', 2],
    ['dirtyrate.megabytes_per_second', 12n],
  ]);
  await clock.pass(200);
  assert.equal(await rate, 12n);
});

test('a job that moves the guest shows its figures, its dirty rate in bytes; without one none is set', async () => {
  const figures = async () => JSON.parse(JSON.stringify(await stats.current())).MigrateDomainJobInfo;
  assert.equal((await figures()).DataTotalSet, false);
  const params = new Map([
    ['data_total', 9n],
    ['data_remaining', 4n],
    ['memory_dirty_rate', 3n],
    ['memory_page_size', 4096n],
  ]);
  hypervisor.job = { type: 2, params };
  clock.advance(4_000);
  const { DataTotal, DataRemaining, DataProcessedSet, MemDirtyRate } = await figures();
  assert.deepEqual([DataTotal, DataRemaining, DataProcessedSet, MemDirtyRate], [9, 4, false, 12_288]);
});
