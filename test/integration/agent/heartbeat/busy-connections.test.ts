import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { AgentBench, embeddedLoopApi } from '../../../fixtures/agent-bench.ts';
import { eventually } from '../../../fixtures/eventually.ts';

const node = '/api/v1/nodes/node1';
const writes = { kind: 'put', resource: 'virtualmachineinstances' } as const;
/** More than there are connections for requests. */
const guests = 9;

let bench: AgentBench;
before(async () => {
  bench = await AgentBench.start(embeddedLoopApi, { proxied: true });
});
after(() => bench?.dispose());

const metadata = async () => (await bench.api.admin.get(node)).body.metadata;

test('writes of VMIs that hang on all connections keep no heartbeat back, nor the mark of an agent that leaves', async () => {
  await eventually(async () => assert.equal((await metadata()).labels?.['kubevirt.io/schedulable'], 'true'));
  const names = Array.from({ length: guests }, (_, number) => `guest-${number}`);
  const booted = [];
  for (const name of names) booted.push({ name, ...(await bench.play(name)) });
  const before = bench.proxy.count(writes);
  bench.proxy.failAll(writes, { kind: 'silence' });
  await Promise.all(booted.map(({ launcher, name, uid }) => bench.publish(launcher, name, uid, 'Paused', 'User')));
  const hanging = () => bench.proxy.count(writes) - before;
  await eventually(() => assert.ok(hanging() >= 8, `${hanging()} writes hang`));
  bench.agent.kill('SIGTERM');
  await bench.exited();
  const { labels, annotations } = await metadata();
  assert.equal(labels['kubevirt.io/schedulable'], 'false');
  assert.match(annotations['virt-handler.kubevirt.io/unschedulable-reason'], /^AgentLeaving: /);
  assert.doesNotMatch(bench.program.log(), /the node is not marked unschedulable yet/);
});
