import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import { findCondition } from '../../../src/api/index.ts';
import { AgentBench, embeddedLoopApi } from '../../fixtures/agent-bench.ts';
import { eventually } from '../../fixtures/eventually.ts';
import { pipeInPod } from '../../fixtures/launcher-process.ts';
import { scriptedDomain } from '../../fixtures/scripted-launcher.ts';

suite('a launcher that fails', () => {
  let bench: AgentBench;

  before(async () => {
    bench = await AgentBench.start(embeddedLoopApi, { proxied: true });
  });
  after(() => bench?.dispose());

  const isPaused = async (name: string) =>
    findCondition((await bench.read(name)).status?.conditions, 'Paused') !== undefined;
  const untilPaused = (name: string, expected = true) =>
    eventually(async () => assert.equal(await isPaused(name), expected));

  test('hung before it was ever asked: it is waited for, others start, and its guest starts when it goes on', async () => {
    const launcher = await bench.launcher('stopped', { play: {} });
    launcher.signal('SIGSTOP');
    await bench.create('stopped');
    await bench.play('beside-stopped');
    assert.equal(await bench.phase('stopped'), 'Scheduled');
    launcher.signal('SIGCONT');
    await bench.untilPhase('stopped', 'Running');
    const { starts, harm } = await launcher.report();
    assert.deepEqual([starts, harm], [1, []]);
  });

  test('hung while the agent is replaced: its VMI stays Running, and it is followed again', async () => {
    const { launcher } = await bench.play('hung');
    launcher.signal('SIGSTOP');
    await bench.restartAgent();
    await bench.play('beside-hung');
    assert.equal(await bench.phase('hung'), 'Running');
    launcher.signal('SIGCONT');
    await launcher.act({ guest: 'pause' });
    await untilPaused('hung');
    const { starts, harm } = await launcher.report();
    assert.deepEqual([starts, harm], [1, []]);
  });

  test('killed while it starts its guest: its VMI is Failed with words, nothing of it is left, and others live', async () => {
    const launcher = await bench.launcher('dies-early', { play: {} });
    await launcher.hang('syncVirtualMachine');
    const uid = (await bench.create('dies-early')).metadata.uid ?? '';
    await eventually(async () => assert.ok((await launcher.calls()).includes('syncVirtualMachine')));
    await launcher.kill();
    await bench.untilPhase('dies-early', 'Failed');
    await eventually(() => assert.ok(!bench.ghosts.includes(uid)));
    await eventually(async () => {
      const messages = (await bench.events('dies-early')).map(({ message }) => message);
      assert.match(messages.join(), /died before the guest/);
    });
    assert.equal(await bench.phase('hung'), 'Running');
  });

  test('killed while the agent is away: its VMI is Failed by the next agent, and nothing of it is left', async () => {
    const { launcher, uid } = await bench.play('dies-alone');
    await bench.killAgent();
    await launcher.kill();
    await bench.startAgent();
    await bench.untilPhase('dies-alone', 'Failed');
    await eventually(() => assert.ok(!bench.ghosts.includes(uid)));
  });

  test('never answering a start keeps no other from starting, and is never called a second time meanwhile', async () => {
    const launcher = await bench.launcher('never', { play: {} });
    await launcher.hang('syncVirtualMachine');
    await bench.create('never');
    await eventually(async () => assert.ok((await launcher.calls()).includes('syncVirtualMachine')));
    await bench.play('beside-never');
    assert.equal((await launcher.calls()).filter((rpc) => rpc === 'syncVirtualMachine').length, 1);
    await launcher.kill();
  });

  test('refusing three starts gets its fourth, by its own back-off, and the refusal is told', async () => {
    const launcher = await bench.launcher('refuses', { play: {} });
    await launcher.fail('syncVirtualMachine', 'no such disk');
    await bench.create('refuses');
    const syncs = async () => (await launcher.calls()).filter((rpc) => rpc === 'syncVirtualMachine').length;
    await eventually(async () => assert.ok((await syncs()) >= 3));
    await eventually(async () => {
      const condition = findCondition((await bench.read('refuses')).status?.conditions, 'Synchronized');
      assert.match(condition?.message ?? '', /no such disk/);
    });
    await launcher.heal('syncVirtualMachine');
    await bench.untilPhase('refuses', 'Running');
    assert.ok((await syncs()) <= 6, `${await syncs()} calls`);
  });

  const garbage: readonly [string, string][] = [
    ['no JSON', '{"ObjectMeta":'],
    ['an array', '[]'],
    ['more than is read', JSON.stringify({ padding: 'x'.repeat(3_900_000) })],
    ['nesting without end', '['.repeat(50_000)],
    ['a status that does not exist', JSON.stringify({ Status: { Status: 'Levitating', Reason: 'Magic' } })],
  ];
  test('answering GetDomain with garbage, or with the domain of another VMI, neither fails nor ends its guest', async () => {
    const { launcher, uid } = await bench.boot('garbage');
    const stranger = JSON.stringify(scriptedDomain('default/garbage', 'stranger', 'Shutoff', 'Crashed'));
    for (const [, text] of [...garbage, ['of another VMI', stranger] as const]) {
      await launcher.setDomain(text);
      await bench.restartAgent();
      const asked = (await launcher.calls()).length;
      await eventually(async () => assert.ok((await launcher.calls()).length > asked - 1));
    }
    assert.equal(await bench.phase('garbage'), 'Running');
    assert.deepEqual(
      (await launcher.calls()).filter((rpc) => rpc !== 'getDomain' && rpc !== 'syncVirtualMachine'),
      [],
    );
    await bench.publish(launcher, 'garbage', uid, 'Paused', 'User');
    await untilPaused('garbage');
  });

  test('sending garbage through its pipe is refused each time, and its VMI goes on', async () => {
    const { launcher, uid } = await bench.boot('babbles');
    for (const [what, text] of garbage.slice(0, 4)) {
      const answer = await launcher
        .sendEvent(pipeInPod, 'MODIFIED', text)
        .catch((error: unknown) => ({ success: false, message: String(error) }));
      assert.equal(answer.success, false, what);
    }
    await bench.publish(launcher, 'babbles', uid, 'Paused', 'User');
    await untilPaused('babbles');
  });

  for (const events of ['late', 'repeated'] as const) {
    test(`whose events come ${events === 'late' ? 'once more after newer ones' : 'three times'} starts once and ends as it should`, async () => {
      const { launcher } = await bench.play(`events-${events}`, { order: events });
      await launcher.act({ guest: 'shutdown' });
      await bench.untilPhase(`events-${events}`, 'Succeeded');
      await eventually(async () => assert.equal((await launcher.report()).domain, 'none'));
      const { starts, kills, harm, rpcs } = await launcher.report();
      assert.deepEqual({ starts, kills, harm }, { starts: 1, kills: 0, harm: [] });
      assert.equal(rpcs.filter((rpc) => rpc === 'syncVirtualMachine').length, 1);
    });
  }

  test('blowing a storm of 400 events costs a few writes, and others start meanwhile', async () => {
    const { launcher, uid } = await bench.boot('blows');
    const put = { kind: 'put', resource: 'virtualmachineinstances', name: 'blows' } as const;
    const writes = bench.proxy.count(put);
    const storm = launcher.storm(pipeInPod, 400, scriptedDomain('default/blows', uid, 'Running'));
    await bench.play('beside-blows');
    assert.ok((await storm) > 0);
    assert.ok(bench.proxy.count(put) - writes <= 2, `${bench.proxy.count(put) - writes} writes`);
    await bench.publish(launcher, 'blows', uid, 'Paused', 'User');
    await untilPaused('blows');
  });

  test('leaves nothing behind: with all VMIs and launchers gone the agent has no record and no launcher socket', async () => {
    const { body } = await bench.api.admin.get('/apis/kubevirt.io/v1/namespaces/default/virtualmachineinstances');
    const names: string[] = body.items.map(({ metadata }: { metadata: { name: string } }) => metadata.name);
    await Promise.all(names.map((name) => bench.delete(name)));
    await bench.launchers.endAll();
    await eventually(() => assert.deepEqual(bench.ghosts, []));
    await eventually(
      () => assert.ok(bench.descriptors().unixSockets <= 2, JSON.stringify(bench.descriptors())),
      40_000,
    );
    assert.equal(bench.descriptors().directories, 0);
  });
});
