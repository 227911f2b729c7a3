import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { type KubeObject, resources, type VirtualMachineInstance } from '../../../src/api/index.ts';
import { executors } from '../../../src/controller/migration/execute.ts';
import type { ExecuteContext } from '../../../src/controller/migration/steps.ts';
import { Cluster, embeddedApi } from '../../fixtures/controller/cluster.ts';

/** Steps of a migration whose VMI others change between the look at it and the write. No controller runs: the moment is the test's. */

let cluster: Cluster;
const type = resources.virtualMachineInstances;

before(async () => {
  cluster = new Cluster(await embeddedApi());
});
after(() => cluster.stop());

async function made(name: string, metadata: Partial<KubeObject['metadata']> = {}) {
  const head = { apiVersion: 'kubevirt.io/v1', kind: 'VirtualMachineInstance' };
  const spec = { domain: { memory: { guest: '64Mi' } } };
  const vmi = await cluster.client.create<VirtualMachineInstance>(type, {
    ...{ ...head, metadata: { ...metadata, name, namespace: 'default' }, spec },
  } as never);
  const seen: KubeObject[] = [];
  const vmis = { saw: (_: unknown, __: unknown, newer: KubeObject) => seen.push(newer) };
  const observation = { vmi };
  const context = { client: cluster.client, vmis, observation, signal: AbortSignal.timeout(10_000) };
  return { vmi, seen, context: context as unknown as ExecuteContext };
}

const step = { step: 'setRuntimeUser', user: 107 } as const;

test('annotations that come to a VMI without any are not lost to that of its user', async () => {
  const { vmi, seen, context } = await made('annotations');
  assert.equal(vmi.metadata.annotations, undefined);
  const theirs = { 'vendor.io/theirs': '1' };
  const newest = await cluster.client.patch<VirtualMachineInstance>(
    type,
    vmi.metadata,
    { metadata: { annotations: theirs } },
    'merge',
  );
  const outcome = await executors.setRuntimeUser(step, context);
  assert.notEqual(outcome.kind, 'done');
  assert.deepEqual((await cluster.find(type, 'annotations'))?.metadata.annotations, theirs);
  assert.deepEqual(seen, [newest], 'it is decided anew on the newest');
  const again = { ...context, observation: { vmi: newest } } as unknown as ExecuteContext;
  assert.deepEqual(await executors.setRuntimeUser(step, again), { kind: 'done' });
  assert.equal(Object.keys((await cluster.find(type, 'annotations'))?.metadata.annotations ?? {}).length, 2);
});

test('a change of what is there is not held up by changes of what is not touched', async () => {
  const { vmi, context } = await made('labelled', { annotations: { 'vendor.io/theirs': '1' } });
  const status = { runtimeUser: 0 };
  const before = await cluster.client.patch<VirtualMachineInstance>(type, vmi.metadata, { status }, 'merge');
  await cluster.client.patch(type, vmi.metadata, { metadata: { labels: { 'vendor.io/late': '1' } } }, 'merge');
  const seen = { ...context, observation: { vmi: before } } as unknown as ExecuteContext;
  assert.deepEqual(await executors.setRuntimeUser(step, seen), { kind: 'done' });
});
