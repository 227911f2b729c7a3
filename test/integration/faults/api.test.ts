import assert from 'node:assert/strict';
import { after, afterEach, before, suite, test } from 'node:test';
import { findCondition } from '../../../src/api/index.ts';
import { AgentBench, embeddedLoopApi } from '../../fixtures/agent-bench.ts';
import { eventually } from '../../fixtures/eventually.ts';
import type { LauncherProcess } from '../../fixtures/launcher-process.ts';

const resource = 'virtualmachineinstances';
const put = { kind: 'put', resource } as const;

suite('an API server that fails', () => {
  let bench: AgentBench;

  before(async () => {
    bench = await AgentBench.start(embeddedLoopApi, { proxied: true });
  });
  afterEach(() => bench.proxy.heal());
  after(() => bench?.dispose());

  /** One start, one sync for it, and nothing that harms. */
  async function assertUnharmed(launcher: LauncherProcess): Promise<void> {
    const { starts, harm, rpcs } = await launcher.report();
    assert.deepEqual({ starts, harm }, { starts: 1, harm: [] });
    assert.equal(rpcs.filter((rpc) => rpc === 'syncVirtualMachine').length, 1, rpcs.join(' '));
  }

  const isPaused = async (name: string) =>
    findCondition((await bench.read(name)).status?.conditions, 'Paused') !== undefined;

  test('that is down while a guest ends gets its verdict when it is back', async () => {
    const { launcher } = await bench.play('down');
    await bench.proxy.down();
    await launcher.act({ guest: 'shutdown' });
    await eventually(async () => assert.equal((await launcher.report()).domain, 'Shutoff/Shutdown'));
    await bench.proxy.up();
    await bench.untilPhase('down', 'Succeeded');
    await eventually(async () => assert.equal((await launcher.report()).domain, 'none'));
    await assertUnharmed(launcher);
  });

  test('that cuts every connection while the agent starts is waited for, and the guest of before is adopted untouched', async () => {
    const { launcher } = await bench.play('away');
    const before = (await launcher.report()).rpcs;
    const { resourceVersion } = (await bench.read('away')).metadata;
    const cut = bench.proxy.failAll({}, { kind: 'reset' });
    await bench.killAgent();
    const asked = bench.proxy.requests.length;
    bench.spawnAgent();
    await eventually(() => assert.ok(bench.proxy.requests.length > asked));
    cut();
    await bench.untilServing();
    await eventually(async () => assert.ok((await launcher.report()).rpcs.length > before.length));
    await launcher.act({ guest: 'pause' });
    await eventually(async () => assert.equal(await isPaused('away'), true));
    assert.notEqual((await bench.read('away')).metadata.resourceVersion, resourceVersion);
    assert.deepEqual((await launcher.report()).harm, []);
  });

  test('that cuts connections under the writes of a start gets the phase all the same', async () => {
    bench.proxy.fail(put, { kind: 'reset' }, { kind: 'reset' }, { kind: 'truncated' });
    const { launcher } = await bench.play('reset');
    await assertUnharmed(launcher);
  });

  test('that stores a write and loses its answer is not written over, and Started is told once at most', async () => {
    bench.proxy.fail(put, { kind: 'answerLost' });
    const { launcher } = await bench.play('lost');
    await launcher.act({ guest: 'pause' });
    await eventually(async () => assert.equal(await isPaused('lost'), true));
    assert.ok((await bench.reasons('lost')).filter((reason) => reason === 'Started').length <= 1);
    await assertUnharmed(launcher);
  });

  test('that has forgotten the watch (410) is listed again, and a VMI of the gap starts', async () => {
    const lists = bench.proxy.count({ kind: 'list', resource });
    bench.proxy.fail({ kind: 'watch', resource }, { kind: 'expiredWatch' }, { kind: 'expiredWatch' });
    bench.proxy.cutWatches();
    const { launcher } = await bench.play('gap');
    await eventually(() => assert.ok(bench.proxy.count({ kind: 'list', resource }) >= lists + 2));
    await assertUnharmed(launcher);
  });

  test('that answers 409 a dozen times gets the phase at last, and the launcher is called once', async () => {
    bench.proxy.fail(
      put,
      ...Array.from({ length: 12 }, () => ({ kind: 'status', code: 409, reason: 'Conflict' }) as const),
    );
    const { launcher } = await bench.play('conflicts');
    await assertUnharmed(launcher);
  });

  test('that asks for patience (429 with Retry-After) is left alone for as long', async () => {
    bench.proxy.fail({ ...put, name: 'busy' }, { kind: 'status', code: 429, reason: 'TooManyRequests', retryAfter: 1 });
    const { launcher } = await bench.play('busy');
    const [first, second] = bench.proxy.requests.filter(({ kind, name }) => kind === 'put' && name === 'busy');
    assert.ok(first && second);
    assert.ok(second.atMs - first.atMs >= 990, `${second.atMs - first.atMs} ms`);
    await assertUnharmed(launcher);
  });

  test('that fails inside (500, 503) under the writes and events of a start gets them at the next try', async () => {
    const broken = (code: number) => ({ kind: 'status', code, reason: 'InternalError' }) as const;
    bench.proxy.fail(put, broken(500), broken(503), broken(500));
    bench.proxy.fail({ kind: 'post', resource: 'events' }, broken(500), { kind: 'reset' });
    const { launcher } = await bench.play('inside');
    await eventually(async () => assert.deepEqual((await bench.reasons('inside')).sort(), ['Created', 'Started']));
    await assertUnharmed(launcher);
  });

  test('that answers a watch with 500 and a list with half of it is asked again without a storm', async () => {
    bench.proxy.fail({ kind: 'watch', resource }, { kind: 'status', code: 500 }, { kind: 'expiredWatch' });
    bench.proxy.fail({ kind: 'list', resource }, { kind: 'truncated' });
    const from = bench.proxy.requests.length;
    bench.proxy.cutWatches();
    const { launcher } = await bench.play('half-list');
    await assertUnharmed(launcher);
    assert.ok(bench.proxy.requests.length - from < 40, `${bench.proxy.requests.length - from} requests`);
  });

  test('whose watch is half open does not keep a pause of the guest from being shown, after a write by another', async () => {
    const { launcher } = await bench.play('half-open');
    bench.proxy.freezeWatches();
    await bench.patch('half-open', { metadata: { labels: { by: 'another' } } });
    await launcher.act({ guest: 'pause' });
    await eventually(async () => assert.equal(await isPaused('half-open'), true));
    assert.equal((await bench.read('half-open')).metadata.labels?.by, 'another');
    bench.proxy.cutWatches();
    await launcher.act({ guest: 'resume' });
    await eventually(async () => assert.equal(await isPaused('half-open'), false));
    await assertUnharmed(launcher);
  });

  test('that lists nothing, with 200, ends no guest: each VMI is looked for by its name first', async () => {
    const { launcher } = await bench.play('empty-list');
    const lists = bench.proxy.count({ kind: 'list', resource });
    bench.proxy.fail({ kind: 'list', resource }, { kind: 'emptyList' }, { kind: 'emptyList' });
    bench.proxy.fail({ kind: 'watch', resource }, { kind: 'expiredWatch' }, { kind: 'expiredWatch' });
    bench.proxy.cutWatches();
    await eventually(() => assert.ok(bench.proxy.count({ kind: 'list', resource }) > lists + 2));
    await launcher.act({ guest: 'pause' });
    await eventually(async () => assert.equal(await isPaused('empty-list'), true));
    const { rpcs, harm, domain } = await launcher.report();
    assert.deepEqual([harm, domain], [[], 'Paused/User']);
    assert.ok(!rpcs.includes('shutdownVirtualMachine'), rpcs.join(' '));
  });

  test('that lists an old state does not bring a VMI back to it', async () => {
    const { launcher } = await bench.play('stale');
    const listing = async () =>
      (await bench.api.agent.get(`/apis/kubevirt.io/v1/${resource}?labelSelector=kubevirt.io%2FnodeName%3Dnode1`)).text;
    const old = await listing();
    await bench.patch('stale', { metadata: { labels: { newer: 'yes' } } });
    const lists = bench.proxy.count({ kind: 'list', resource });
    bench.proxy.fail({ kind: 'list', resource }, { kind: 'text', text: old });
    bench.proxy.fail({ kind: 'watch', resource }, { kind: 'expiredWatch' });
    bench.proxy.cutWatches();
    await eventually(() => assert.ok(bench.proxy.count({ kind: 'list', resource }) > lists));
    await launcher.act({ guest: 'pause' });
    await eventually(async () => assert.equal(await isPaused('stale'), true));
    assert.equal((await bench.read('stale')).metadata.labels?.newer, 'yes');
    await assertUnharmed(launcher);
  });

  test('that never answers one write keeps no other VMI waiting', async () => {
    bench.proxy.fail({ ...put, name: 'silent' }, { kind: 'silence' });
    const { launcher } = await bench.begin('silent');
    await eventually(() => assert.equal(bench.proxy.count({ ...put, name: 'silent' }), 1));
    await bench.play('beside-silent');
    assert.equal(await bench.phase('silent'), 'Scheduled');
    bench.proxy.resetConnections();
    await bench.untilPhase('silent', 'Running');
    await assertUnharmed(launcher);
  });

  test('that is slow with everything slows a start by its own time, and the launcher is called once', async () => {
    const fast = bench.proxy.failAll({ resource }, { kind: 'delay', ms: 300 });
    const { launcher } = await bench.play('slow');
    fast();
    await assertUnharmed(launcher);
  });

  for (const [code, reason] of [
    [422, 'Invalid'],
    [413, 'RequestEntityTooLarge'],
    [403, 'Forbidden'],
  ] as const) {
    test(`that refuses a write with ${code} is asked again, not without end, and the guest goes on`, async () => {
      const name = `refused-${code}`;
      bench.proxy.fail(
        { ...put, name },
        ...Array.from({ length: 4 }, () => ({ kind: 'status', code, reason }) as const),
      );
      const { launcher } = await bench.play(name);
      assert.ok(bench.proxy.count({ ...put, name }) <= 8);
      await assertUnharmed(launcher);
    });
  }

  test('leaves nothing behind: with all VMIs ended the agent has no record and no launcher socket any more', async () => {
    const { body } = await bench.api.admin.get(`/apis/kubevirt.io/v1/namespaces/default/${resource}`);
    const names: string[] = body.items.map(({ metadata }: { metadata: { name: string } }) => metadata.name);
    await Promise.all(names.map((name) => bench.delete(name)));
    await eventually(() => assert.deepEqual(bench.ghosts, []));
    await eventually(() => assert.ok(bench.descriptors().unixSockets <= 2, JSON.stringify(bench.descriptors())));
  });
});
