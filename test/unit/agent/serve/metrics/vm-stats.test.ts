import assert from 'node:assert/strict';
import { test } from 'node:test';
import { VmStatsCollector, type VmStatsPart, vmStatsParts } from '../../../../../src/agent/serve/metrics/vm-stats.ts';
import type { LauncherClients } from '../../../../../src/launcher-client/index.ts';
import { cmd } from '../../../../../src/wire/index.ts';
import { vmiOf } from '../../../../fixtures/agent/builders.ts';
import {
  largestCounter,
  lyingVmStats,
  partialVmStats,
  recordedVmStats,
  vmStatsMessage,
} from '../../../../fixtures/vm-stats.ts';

const live = new AbortController().signal;
const vmi = (name: string) =>
  [`default/${name}`, vmiOf('Running', { metadata: { name, uid: `uid-${name}` } })] as const;

/** `call` stands for the connection of each VMI. */
function collectorOf(call: (uid: string, request: object, signal: AbortSignal) => Promise<unknown>) {
  const peek = (uid: string) => ({
    connected: true,
    call: (rpc: string, request: object, signal: AbortSignal) => {
      assert.equal(rpc, 'getVmStats');
      return call(uid, request, signal);
    },
  });
  return new VmStatsCollector({ peek } as unknown as Pick<LauncherClients, 'peek'>);
}

async function one(answer: object, parts: readonly VmStatsPart[] = ['domainStats', 'dirtyRate', 'guestGetLoad']) {
  const collector = collectorOf(async () => vmStatsMessage(answer));
  const text = (await collector.collect([vmi('vm')], parts, live)).get('default/vm') ?? '';
  return { text, value: JSON.parse(text) };
}

test('all parts have Go’s names, and counters of 64 bits keep every digit', async () => {
  const { text, value } = await one(recordedVmStats(), vmStatsParts);
  const { stats } = value;
  assert.deepEqual(Object.keys(stats).slice(0, 4), [
    'DomainStats',
    'DirtyRateMbps',
    'GuestAgentVersion',
    'GuestGetLoad',
  ]);
  assert.equal(Object.keys(stats).length, 17);
  assert.equal(stats.DomainStats.Cpu.Time, 12_500_000_000);
  assert.equal(stats.DirtyRateMbps, 7);
  assert.equal(stats.GuestAgentVersion, '10.1');
  assert.equal(JSON.parse(stats.GuestGetHostName)['host-name'], 'gu"est');
  assert.equal(stats.GuestGetDisks, '');
  assert.ok(text.includes(`"RxBytes":${largestCounter}`));
});

test('parts that failed are empty and named, and cost the others nothing', async () => {
  const { value } = await one(partialVmStats(), ['domainStats', 'guestGetLoad']);
  assert.equal(value.stats.DomainStats.Name, 'default_vm');
  assert.equal(value.stats.GuestGetLoad, '');
  assert.equal(value.error, 'agent data guest-get-load: no guest agent');
  const all = await one({ response: { success: false, message: 'gate is off' } });
  assert.deepEqual(all.value, { error: 'gate is off' });
});

test('what was not asked for is Go’s empty value, and no error', async () => {
  const answer = { response: { success: true }, guestGetLoad: { success: true, message: '{}' } };
  const { value } = await one(answer, ['guestGetLoad']);
  assert.equal(value.error, undefined);
  assert.equal(value.stats.DomainStats.Name, '');
  assert.equal(value.stats.DomainStats.Cpu, null);
  assert.equal(value.stats.DirtyRateMbps, null);
});

test('a launcher that lies is one VM with an error, and never another one’s JSON', async () => {
  for (const answer of lyingVmStats) {
    const { text, value } = await one(answer);
    assert.ok(text.length < 10_000, 'what is too large is left out');
    assert.deepEqual(
      Object.keys(value).filter((key) => key !== 'stats' && key !== 'error'),
      [],
    );
    assert.equal(value.injected, undefined);
    assert.equal(value.stats.DomainStats.Name, '');
    assert.match(value.error, /^the launcher gave no usable /);
  }
});

test('one that hangs is told as not available when the time is over, and the others with their figures', async () => {
  const collector = collectorOf((uid) =>
    uid === 'uid-hung' ? new Promise(() => undefined) : Promise.resolve(vmStatsMessage(recordedVmStats())),
  );
  const over = new AbortController();
  const collecting = collector.collect([vmi('hung'), vmi('fine')], ['domainStats'], over.signal);
  const early = await Promise.race([collecting.then(() => 'done'), new Promise((resolve) => setImmediate(resolve))]);
  assert.notEqual(early, 'done');
  over.abort();
  const results = await collecting;
  assert.match(results.get('default/hung') ?? '', /socket not found or busy/);
  assert.match(results.get('default/fine') ?? '', /"Name":"default_vm"/);
});

test('three calls to one launcher at most are under way', async () => {
  let calls = 0;
  const collector = collectorOf((_uid, _request, signal) => {
    calls++;
    return new Promise((_resolve, reject) => signal.addEventListener('abort', () => reject(signal.reason)));
  });
  const over = new AbortController();
  const all = Array.from({ length: 5 }, () => collector.collect([vmi('vm')], ['domainStats'], over.signal));
  assert.match((await all[4])?.get('default/vm') ?? '', /busy/);
  assert.equal(calls, 3);
  over.abort();
  await Promise.all(all);
  assert.equal(calls, 3);
});

test('all launchers together cannot fill the memory', async () => {
  const large = { success: true, message: 'x'.repeat(1_000_000) };
  const answer = { response: { success: true }, guestGetLoad: large, guestGetDisks: large, guestGetUsers: large };
  const collector = collectorOf(async () => cmd.VMStatsResponse.fromPartial(answer));
  const vmis = Array.from({ length: 40 }, (_, at) => vmi(`vm${at}`));
  const results = await collector.collect(vmis, ['guestGetLoad', 'guestGetDisks', 'guestGetUsers'], live);
  const texts = [...results.values()];
  assert.ok(texts.reduce((sum, { length }) => sum + length, 0) < 65 * 1024 * 1024);
  assert.ok(texts.some((text) => text.includes('too large')));
  assert.equal(texts.length, 40);
});
