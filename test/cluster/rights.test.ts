import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import { type LoopApi, realLoopApi } from '../fixtures/agent-bench.ts';

/** The stock rights of the agent's service account are as narrow as the agent believes: without them "never forbidden" says nothing. */

const vmis = '/apis/kubevirt.io/v1/namespaces/default/virtualmachineinstances';

suite("the agent's service account on a real kube-apiserver", () => {
  let api: LoopApi;

  before(async () => {
    api = await realLoopApi();
    await api.admin.post('/api/v1/nodes', { apiVersion: 'v1', kind: 'Node', metadata: { name: 'node1' } });
    const vmi = { apiVersion: 'kubevirt.io/v1', kind: 'VirtualMachineInstance', metadata: { name: 'vm' } };
    const created = await api.admin.post(vmis, {
      ...vmi,
      spec: { domain: { devices: {} } },
      status: { phase: 'Scheduled' },
    });
    assert.equal(created.status, 201, created.text);
  });
  after(() => api?.stop());

  const forbidden: readonly [string, () => Promise<{ status: number }>][] = [
    ['get a VMI by name', () => api.agent.get(`${vmis}/vm`)],
    ['patch a VMI', () => api.agent.patch(`${vmis}/vm`, 'merge', { status: { phase: 'Running' } })],
    ['create a VMI', () => api.agent.post(vmis, { kind: 'VirtualMachineInstance' })],
    ['delete a VMI', () => api.agent.delete(`${vmis}/vm`)],
    ['delete a node', () => api.agent.delete('/api/v1/nodes/node1')],
    ['update a node', () => api.agent.put('/api/v1/nodes/node1', { kind: 'Node' })],
    ['list pods', () => api.agent.get('/api/v1/pods')],
    ['list secrets', () => api.agent.get('/api/v1/namespaces/kubevirt/secrets')],
    ['read events', () => api.agent.get('/api/v1/namespaces/default/events')],
    ['list VMs', () => api.agent.get('/apis/kubevirt.io/v1/virtualmachines')],
    [
      'patch the KubeVirt object',
      () => api.agent.patch('/apis/kubevirt.io/v1/namespaces/kubevirt/kubevirts/kubevirt', 'merge', {}),
    ],
  ];
  for (const [what, call] of forbidden) {
    test(`may not ${what}`, async () => assert.equal((await call()).status, 403));
  }

  test('may list VMIs by name, and update one with its status in the same PUT, for there is no status subresource', async () => {
    const listed = await api.agent.get(`${vmis}?fieldSelector=metadata.name%3Dvm`);
    assert.equal(listed.status, 200);
    const [vmi] = listed.body.items;
    const written = await api.agent.put(`${vmis}/vm`, {
      ...vmi,
      apiVersion: 'kubevirt.io/v1',
      kind: 'VirtualMachineInstance',
      status: { ...vmi.status, phase: 'Running' },
    });
    assert.equal(written.status, 200, written.text);
    assert.equal(written.body.status.phase, 'Running');
    const subresource = await api.admin.put(`${vmis}/vm/status`, written.body);
    assert.equal(subresource.status, 404);
  });

  test('a PUT with an older resourceVersion is a 409 and changes nothing', async () => {
    const { body: vmi } = await api.admin.get(`${vmis}/vm`);
    await api.admin.patch(`${vmis}/vm`, 'merge', { metadata: { labels: { newer: 'yes' } } });
    const { status, body } = await api.agent.put(`${vmis}/vm`, { ...vmi, status: { phase: 'Failed' } });
    assert.deepEqual([status, body.reason], [409, 'Conflict']);
    assert.equal((await api.admin.get(`${vmis}/vm`)).body.status.phase, 'Running');
  });

  test('a PUT of a VMI that was replaced by one of the same name is refused by its UID', async () => {
    const { body: old } = await api.admin.get(`${vmis}/vm`);
    await api.admin.delete(`${vmis}/vm`);
    const { metadata: _gone, ...rest } = old;
    await api.admin.post(vmis, { ...rest, metadata: { name: 'vm' } });
    const { resourceVersion: _any, ...metadata } = old.metadata;
    const { status } = await api.agent.put(`${vmis}/vm`, { ...old, metadata });
    assert.ok(status === 409 || status === 422, String(status));
  });
});
