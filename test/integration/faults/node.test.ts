import assert from 'node:assert/strict';
import { mkdirSync, readdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { after, before, suite, test } from 'node:test';
import { findCondition } from '../../../src/api/index.ts';
import { AgentBench, embeddedLoopApi } from '../../fixtures/agent-bench.ts';
import { stopped } from '../../fixtures/agent-process.ts';
import { eventually } from '../../fixtures/eventually.ts';

suite('a node on which things go wrong', () => {
  let bench: AgentBench;
  const flags = ['-v', '4', '--watchdog-timeout', '1s', '--domain-resync-period-seconds', '1'];

  before(async () => {
    bench = await AgentBench.start(embeddedLoopApi, { flags });
  });
  after(() => bench?.dispose());

  const isPaused = async (name: string) =>
    findCondition((await bench.read(name)).status?.conditions, 'Paused') !== undefined;
  const untilPaused = (name: string) => eventually(async () => assert.equal(await isPaused(name), true));
  const pipeOf = (pid: number) => `/proc/${pid}/root/run/kubevirt/domain-notify-pipe.sock`;

  test('an agent that is stopped (SIGSTOP) while a guest ends sees it when it goes on', async () => {
    const { launcher } = await bench.play('unseen');
    bench.agent.kill('SIGSTOP');
    await launcher.act({ guest: 'shutdown' });
    await eventually(async () => assert.equal((await launcher.report()).domain, 'Shutoff/Shutdown'));
    bench.agent.kill('SIGCONT');
    await bench.untilPhase('unseen', 'Succeeded');
    assert.deepEqual((await launcher.report()).harm, []);
  });

  test('a pods directory that is not mounted when the agent starts fails no VMI, and all is served when it is back', async () => {
    const { launcher } = await bench.play('unmounted');
    const { podsDir } = bench.program;
    await bench.killAgent();
    renameSync(podsDir, `${podsDir}-away`);
    mkdirSync(podsDir);
    await bench.startAgent();
    await eventually(() =>
      assert.match(bench.program.log(), /"vmi":"default\/unmounted".*"domain":"(absent|unknown)"/),
    );
    assert.equal(await bench.phase('unmounted'), 'Running');
    rmSync(podsDir, { recursive: true });
    renameSync(`${podsDir}-away`, podsDir);
    await launcher.act({ guest: 'pause' });
    await untilPaused('unmounted');
    const { starts, kills, harm } = await launcher.report();
    assert.deepEqual({ starts, kills, harm }, { starts: 1, kills: 0, harm: [] });
  });

  test('a notify socket that is deleted is made again, and so is the pipe of a launcher or its guest is read all the same', async () => {
    const { launcher } = await bench.play('deaf');
    const shared = path.join(bench.program.dir, 'share/domain-notify.sock');
    rmSync(shared);
    rmSync(pipeOf(launcher.pid));
    await launcher.act({ guest: 'pause' });
    await untilPaused('deaf');
    await eventually(() => assert.ok(readdirSync(path.dirname(shared)).includes('domain-notify.sock')));
  });

  test('two agents at once on one node call each launcher without harm, and the one that stays goes on', async () => {
    const first = bench.agent;
    const second = await bench.startAgent();
    const { launcher } = await bench.play('two');
    await stopped(first, 'SIGKILL');
    await launcher.act({ guest: 'shutdown' });
    await bench.untilPhase('two', 'Succeeded');
    const { starts, kills, harm } = await launcher.report();
    assert.deepEqual({ starts, kills, harm }, { starts: 1, kills: 0, harm: [] });
    assert.equal(second.exitCode, null);
  });

  test('a VMI of the same name and a new UID, made while the agent was away and the old launcher died, starts', async () => {
    const { launcher, uid } = await bench.play('again');
    await bench.killAgent();
    await launcher.kill();
    await bench.delete('again');
    bench.removePod('again');
    const next = await bench.begin('again');
    await bench.startAgent();
    await bench.untilPhase('again', 'Running');
    assert.notEqual(next.uid, uid);
    await eventually(() => assert.ok(!bench.ghosts.includes(uid)));
    const { starts, harm } = await next.launcher.report();
    assert.deepEqual({ starts, harm }, { starts: 1, harm: [] });
  });

  test('a VMI of the same name and a new UID waits for the guest of the old one, which is not touched, and then starts', async () => {
    const old = await bench.play('heir');
    await bench.killAgent();
    await bench.delete('heir');
    const launcher = await bench.launchers.start(
      path.join(bench.program.podsDir, 'pod-heir-2/volumes/kubernetes.io~empty-dir/sockets/launcher-sock'),
      { ownRun: true, play: {} },
    );
    const status = { phase: 'Scheduled', nodeName: 'node1', activePods: { 'pod-heir-2': 'node1' } };
    await bench.create('heir', { status });
    await bench.startAgent();
    await eventually(() =>
      assert.ok(bench.rules('heir').includes('predecessor-in-the-way'), bench.rules('heir').join(' ')),
    );
    assert.equal(await bench.phase('heir'), 'Scheduled');
    assert.deepEqual((await launcher.report()).starts, 0);
    assert.deepEqual((await old.launcher.report()).harm, []);
    assert.equal((await old.launcher.report()).domain, 'Running/Unknown');
    await old.launcher.kill();
    await bench.untilPhase('heir', 'Running');
    const { starts, harm } = await launcher.report();
    assert.deepEqual({ starts, harm }, { starts: 1, harm: [] });
  });

  test('records that are torn, of another VMI, or no records at all, keep no VMI from being adopted', async () => {
    const { launcher, uid } = await bench.play('records');
    const records = path.join(bench.program.privateDir, 'ghost-records');
    await bench.killAgent();
    writeFileSync(path.join(records, uid), '{"name":"rec');
    writeFileSync(path.join(records, 'stranger'), JSON.stringify({ name: 'two', namespace: 'default', uid: 'x' }));
    writeFileSync(path.join(records, 'garbage'), Buffer.from([0, 255, 1, 2]));
    await bench.startAgent();
    await launcher.act({ guest: 'pause' });
    await untilPaused('records');
    const { starts, kills, harm } = await launcher.report();
    assert.deepEqual({ starts, kills, harm }, { starts: 1, kills: 0, harm: [] });
  });

  test('SIGTERM in the middle of ten starts exits with 0, and the next agent brings all of them to Running', async () => {
    const names = Array.from({ length: 10 }, (_, index) => `middle-${index}`);
    const booted = await Promise.all(names.map((name) => bench.begin(name)));
    assert.deepEqual(await stopped(bench.agent, 'SIGTERM'), [0, null]);
    await bench.startAgent();
    for (const name of names) await bench.untilPhase(name, 'Running');
    for (const { launcher } of booted) {
      const { starts, harm } = await launcher.report();
      assert.deepEqual({ starts, harm }, { starts: 1, harm: [] });
    }
  });

  test('leaves nothing behind: with all launchers gone the agent has no record and no launcher socket', async () => {
    const { body } = await bench.api.admin.get('/apis/kubevirt.io/v1/namespaces/default/virtualmachineinstances');
    const names: string[] = body.items.map(({ metadata }: { metadata: { name: string } }) => metadata.name);
    await Promise.all(names.map((name) => bench.delete(name)));
    await bench.launchers.endAll();
    await eventually(() =>
      assert.deepEqual(
        bench.ghosts.filter((name) => /^[0-9a-f-]{36}$/.test(name)),
        [],
      ),
    );
    await eventually(
      () => assert.ok(bench.descriptors().unixSockets <= 2, JSON.stringify(bench.descriptors())),
      40_000,
    );
    assert.equal(bench.descriptors().directories, 0);
  });
});
