import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import path from 'node:path';
import { after, before, suite, test } from 'node:test';
import { findCondition } from '../../../../src/api/index.ts';
import { AgentBench, embeddedLoopApi } from '../../../fixtures/agent-bench.ts';
import { eventually } from '../../../fixtures/eventually.ts';
import { fakePod, withoutPods } from '../../../fixtures/pod-namespace.ts';
import { linksOf, rulesetOf } from '../../../fixtures/pod-network.ts';

/** The program virt-handler and a launcher in a pod of its own: the network is there before the launcher is called. */

const spec = {
  terminationGracePeriodSeconds: 2,
  domain: { memory: { guest: '64Mi' }, devices: { interfaces: [{ name: 'default', masquerade: {} }] } },
  networks: [{ name: 'default', pod: {} }],
};

suite('a VMI with the pod network, under the program virt-handler', { skip: withoutPods }, () => {
  let bench: AgentBench;

  before(async () => {
    bench = await AgentBench.start(embeddedLoopApi);
  });
  after(() => bench?.dispose());

  const cacheOf = (uid: string) => path.join(bench.program.privateDir, 'network-info-cache', uid);

  async function start(name: string, network: string) {
    const launcher = await bench.launcher(name, { play: {}, reportCalls: true, network });
    const { metadata } = await bench.create(name, { spec });
    return { launcher, uid: metadata.uid ?? '' };
  }

  test('it is Running with its links, survives a killed agent, and leaves no file', async (t) => {
    const pod = await fakePod(t);
    const { uid } = await start('networked', pod.name);
    await bench.untilPhase('networked', 'Running');
    assert.deepEqual(Object.keys(linksOf(pod)).sort(), ['eth0', 'k6t-eth0', 'lo', 'tap0']);
    const rules = rulesetOf(pod);
    await bench.restartAgent();
    assert.deepEqual(rulesetOf(pod), rules);
    assert.equal(existsSync(path.join(cacheOf(uid), 'default')), true);
    await bench.delete('networked');
    await eventually(async () => assert.equal(existsSync(cacheOf(uid)), false));
  });

  test('without a link of the pod it is not started, and its user reads why', async (t) => {
    const pod = await fakePod(t, { withoutLink: true });
    const { launcher } = await start('linkless', pod.name);
    await eventually(async () => {
      const { status } = await bench.read('linkless');
      const message = findCondition(status?.conditions, 'Synchronized')?.message ?? '';
      assert.match(message, /pod link \(eth0\) is missing: the CNI plug-in has not made it in this pod/);
    });
    assert.equal(await bench.phase('linkless'), 'Scheduled');
    assert.equal((await launcher.report()).starts, 0);
  });

  test('what cannot be set up ends it before its start', async (t) => {
    const pod = await fakePod(t);
    pod.ip('link', 'add', 'tap0', 'type', 'veth', 'peer', 'name', 'other');
    const { launcher } = await start('collides', pod.name);
    await bench.untilPhase('collides', 'Failed');
    await eventually(async () => {
      const [failed] = (await bench.events('collides')).filter(({ reason }) => reason === 'SyncFailed');
      assert.match(failed?.message ?? '', /^Critical network error: type collision on link tap0/);
    });
    assert.equal((await launcher.report()).starts, 0);
  });
});
