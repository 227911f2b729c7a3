import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { type KubeObject, resources } from '../../../src/api/index.ts';
import { memberAt } from '../../../src/base/index.ts';
import { KubeClient, loadKubeAccess } from '../../../src/kube/index.ts';
import { ensureNodeObjects, type StandaloneMachine } from '../../../src/standalone/supervisor/node-objects.ts';
import { type EmbeddedApi, startEmbeddedApi } from '../../fixtures/embedded-api.ts';

let api: EmbeddedApi;
let client: KubeClient;
before(async () => {
  api = await startEmbeddedApi();
  client = new KubeClient({ userAgent: 'test' }, { access: await loadKubeAccess({ kubeconfig: api.kubeconfig }) });
});
after(async () => {
  client.close();
  await api.stop();
});

const machine: StandaloneMachine = {
  ...{ nodes: [{ nodeName: 'n', hostIp: '10.0.0.1' }], cpus: 2, memoryBytes: 2 ** 31, architecture: 'amd64' },
  ...{ kernelVersion: '6.1', osImage: 'Debian', bootId: 'b', kvm: 'fails' },
};
const ref = { name: 'kubevirt', namespace: 'kubevirt' };

async function configuration(...names: string[]): Promise<unknown> {
  const found = await client.get<KubeObject>(resources.kubevirts, ref);
  return memberAt(found, 'spec', 'configuration', ...names);
}

test('one node has nowhere to migrate to, so changes of a VM wait for its next start; what a user set stays', async () => {
  await ensureNodeObjects(client, machine, new Date());
  assert.equal(await configuration('vmRolloutStrategy'), 'Stage');
  assert.equal(await configuration('developerConfiguration', 'useEmulation'), true);
  const network = { defaultNetworkInterface: 'bridge' };
  const set = { spec: { configuration: { vmRolloutStrategy: 'LiveUpdate', network } } };
  await client.patch(resources.kubevirts, ref, set, 'merge');
  await ensureNodeObjects(client, { ...machine, kvm: 'works' }, new Date());
  assert.equal(await configuration('vmRolloutStrategy'), 'LiveUpdate');
  assert.deepEqual(await configuration('network'), network);
  assert.equal(await configuration('developerConfiguration', 'useEmulation'), false);
});

const two = { ...machine, nodes: ['n', 'n-2'].map((nodeName, at) => ({ nodeName, hostIp: `10.0.0.${at + 1}` })) };
const unset = { spec: { configuration: { vmRolloutStrategy: null } } };

test('with a second node changes of a VM are completed by a migration and a drain moves what can; with one again they are not', async () => {
  await client.patch(resources.kubevirts, ref, unset, 'merge');
  await ensureNodeObjects(client, machine, new Date());
  await ensureNodeObjects(client, two, new Date());
  assert.equal(await configuration('vmRolloutStrategy'), 'LiveUpdate');
  assert.equal(await configuration('evictionStrategy'), 'LiveMigrateIfPossible');
  assert.equal(await configuration('migrations', 'unsafeMigrationOverride'), true, 'claims are the same files');
  const kubevirt = await client.get<KubeObject>(resources.kubevirts, ref);
  assert.deepEqual(memberAt(kubevirt, 'spec', 'workloadUpdateStrategy', 'workloadUpdateMethods'), ['LiveMigrate']);
  const nodes = await client.list<KubeObject>(resources.nodes);
  assert.deepEqual(
    nodes.items.map(({ metadata }) => metadata.labels?.['kubernetes.io/hostname']),
    ['n', 'n-2'],
  );
  assert.deepEqual(
    nodes.items.map((node) => memberAt(node, 'status', 'allocatable', 'memory')),
    [`${2 ** 20}Ki`, `${2 ** 20}Ki`],
    'of the machine’s memory each has its part',
  );
  await ensureNodeObjects(client, machine, new Date());
  assert.equal(await configuration('vmRolloutStrategy'), 'Stage');
  assert.equal(await configuration('evictionStrategy'), undefined);
  assert.equal(await configuration('migrations', 'unsafeMigrationOverride'), undefined);
});

test('what a user chose while there were two nodes stays when there is one, and the other way round', async () => {
  await ensureNodeObjects(client, two, new Date());
  const chosen = { vmRolloutStrategy: 'Stage', evictionStrategy: 'None' };
  await client.patch(resources.kubevirts, ref, { spec: { configuration: chosen } }, 'merge');
  for (const nodes of [machine, two, two, machine]) {
    await ensureNodeObjects(client, nodes, new Date());
    assert.equal(await configuration('vmRolloutStrategy'), 'Stage');
    assert.equal(await configuration('evictionStrategy'), 'None');
  }
});
