import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Heartbeat } from '../../../../src/agent/node/heartbeat/index.ts';
import type { Node } from '../../../../src/agent/node/ports.ts';
import { resources } from '../../../../src/api/index.ts';
import { silentLogger } from '../../../../src/base/index.ts';
import { KubeClient, loadKubeAccess } from '../../../../src/kube/index.ts';
import { FakeNode } from '../../../fixtures/agent/fake-node.ts';
import { FakeProblems } from '../../../fixtures/agent/fake-problems.ts';
import { type EmbeddedApi, startEmbeddedApi } from '../../../fixtures/embedded-api.ts';
import { eventually } from '../../../fixtures/eventually.ts';
import { FakeClock } from '../../../fixtures/fake-clock.ts';
import { FaultProxy } from '../../../fixtures/fault-proxy.ts';

const node = '/api/v1/nodes/node1';
const patches = { kind: 'patch', resource: 'nodes' } as const;

let api: EmbeddedApi;
let proxy: FaultProxy;
let client: KubeClient;

before(async () => {
  api = await startEmbeddedApi();
  proxy = await FaultProxy.start({ server: `https://127.0.0.1:${api.port}` });
  const access = await loadKubeAccess({ kubeconfig: api.kubeconfig });
  client = new KubeClient({ userAgent: 'test' }, { access: { ...access, server: proxy.url } });
  await api.client.post('/api/v1/nodes', { apiVersion: 'v1', kind: 'Node', metadata: { name: 'node1' } });
});

after(async () => {
  client?.close();
  await proxy?.stop();
  await api?.stop();
});

const schedulable = async () => (await api.client.get(node)).body.metadata.labels?.['kubevirt.io/schedulable'];

test('an API server that swallows a beat does not keep the mark of an agent that leaves beyond its four seconds', async () => {
  const clock = new FakeClock();
  const heartbeat = new Heartbeat(
    { nodeName: 'node1', periodMs: 60_000, markTimeoutMs: 4_000 },
    {
      patchNode: (name, patch, signal) => client.patch<Node>(resources.nodes, { name }, patch, 'strategic', { signal }),
      problems: new FakeProblems(),
      node: new FakeNode(),
      hasCpuManager: async () => false,
      report: () => undefined,
      clock,
      log: silentLogger,
      random: () => 0.5,
    },
  );
  await heartbeat.start();
  await eventually(async () => assert.equal(await schedulable(), 'true'));
  // The next beat, and the first mark that the agent leaves.
  proxy.fail(patches, { kind: 'silence' }, { kind: 'silence' });
  await clock.pass(97_000);
  await eventually(() => assert.equal(proxy.count(patches), 2));
  const beganMs = clock.monotonicMs();
  let isMarked = false;
  const left = heartbeat.leave().then(() => {
    isMarked = true;
  });
  await clock.pass(500);
  await eventually(() => assert.equal(proxy.count(patches), 3, 'the beat is given up for the mark'));
  assert.equal(isMarked, false);
  await clock.pass(1_000);
  await eventually(async () => {
    await clock.pass(10);
    assert.equal(proxy.count(patches), 4, 'the mark that was swallowed is sent again');
  });
  // From here on no time passes, however slow this machine is.
  await eventually(() => assert.equal(isMarked, true));
  await left;
  assert.ok(clock.monotonicMs() - beganMs <= 4_000, `${clock.monotonicMs() - beganMs} ms`);
  assert.equal(await schedulable(), 'false');
  await heartbeat.stop();
  assert.equal(clock.timers, 0);
});
