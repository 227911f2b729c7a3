import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { type KubeObject, resources } from '../../../src/api/index.ts';
import { KubeClient, loadKubeAccess } from '../../../src/kube/index.ts';
import { memberPaths, type NodePaths, nodePaths, rememberAgentAddress } from '../../../src/standalone/index.ts';
import { removeMembers } from '../../../src/standalone/supervisor/removed-members.ts';
import { type EmbeddedApi, startEmbeddedApi } from '../../fixtures/embedded-api.ts';

let api: EmbeddedApi;
let client: KubeClient;
let paths: NodePaths;
before(async () => {
  api = await startEmbeddedApi();
  client = new KubeClient({ userAgent: 'test' }, { access: await loadKubeAccess({ kubeconfig: api.kubeconfig }) });
  paths = nodePaths(await mkdtemp(path.join(tmpdir(), 'removed-members-')));
  for (const index of [2, 3]) await addMember(index);
});
after(async () => {
  client.close();
  await api.stop();
  await rm(paths.stateDir, { recursive: true, force: true });
});

async function addMember(index: number): Promise<void> {
  const member = memberPaths(paths, index);
  await mkdir(member.podsDir, { recursive: true });
  await mkdir(path.dirname(member.kubeconfigs.node), { recursive: true });
  await writeFile(member.kubeconfigs.node, '');
  await rememberAgentAddress(member, { host: '127.0.0.1', port: 1, node: `box-${index}` });
  const node = { apiVersion: 'v1', kind: 'Node', metadata: { name: `box-${index}` } };
  await client.create(resources.nodes, node);
}

const nodeNames = async () =>
  (await client.list<KubeObject>(resources.nodes)).items.map(({ metadata }) => metadata.name);

test('a node that still has a VM is not taken away, nor any other, and its VMs and the way out are named', async () => {
  const metadata = { name: 'launcher', namespace: 'default', annotations: { 'kubevirt.io/domain': 'demo' } };
  const spec = { nodeName: 'box-3', containers: [{ name: 'compute', image: 'i' }] };
  await client.create(resources.pods, { apiVersion: 'v1', kind: 'Pod', metadata, spec } as KubeObject);
  await assert.rejects(removeMembers(client, { paths, nodeName: 'box', nodes: 1 }), {
    code: 'NODE_IN_USE',
    message:
      '--nodes 1: node box-3 would go and still has default/demo: start with --nodes 3, then move them away ' +
      '(kubectl drain box-3 --delete-emptydir-data) or stop them',
  });
  assert.deepEqual(await nodeNames(), ['box-2', 'box-3']);
});

test('nodes that are wanted stay; one whose pods have ended goes with its object, pods, files and rights', async () => {
  await removeMembers(client, { paths, nodeName: 'box', nodes: 3 });
  assert.deepEqual(await nodeNames(), ['box-2', 'box-3']);
  const ended = { status: { phase: 'Succeeded' } };
  await client.patch(resources.pods, { name: 'launcher', namespace: 'default' }, ended, 'merge', {
    subresource: 'status',
  });
  await removeMembers(client, { paths, nodeName: 'box', nodes: 2 });
  assert.deepEqual(await nodeNames(), ['box-2']);
  assert.deepEqual((await client.list(resources.pods)).items, []);
  const [kept, gone] = [memberPaths(paths, 2), memberPaths(paths, 3)];
  for (const file of ['kubeletDir', 'agentAddress'] as const) {
    assert.equal(existsSync(kept[file]), true, kept[file]);
    assert.equal(existsSync(gone[file]), false, gone[file]);
  }
  assert.equal(existsSync(gone.kubeconfigs.node), false);
});
