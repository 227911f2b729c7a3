import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import type { ApiAnswer } from '../fixtures/api-client.ts';
import { tokenOfAgentOn } from '../fixtures/deployment/bound-token.ts';
import { type TightApi, tightApi } from '../fixtures/deployment/tight-api.ts';

/** The overlay tight-rights on a real kube-apiserver, asked with a token as the kubelet mounts it: what an agent may, and no more. */

const nodes = '/api/v1/nodes';
const vmis = '/apis/kubevirt.io/v1/namespaces/default/virtualmachineinstances';
const events = '/api/v1/namespaces/default/events';

let api: TightApi;

before(async () => {
  api = await tightApi();
});
after(() => api?.stop());

function event(name: string, source: object, involvedObject: object = {}) {
  const object = { apiVersion: 'v1', kind: 'VirtualMachineInstance', name: 'vm', namespace: 'default' };
  const times = { firstTimestamp: '2026-01-02T03:04:05Z', lastTimestamp: '2026-01-02T03:04:05Z', count: 1 };
  const words = { type: 'Normal', reason: 'Started', message: 'words', ...times };
  return { metadata: { name }, involvedObject: { ...object, ...involvedObject }, source, ...words };
}
const ownSource = { component: 'virt-handler', host: 'node1' };

const asAgent = (call: 'merge' | 'json', path: string, body: unknown) => () => api.agent.patch(path, call, body);
const label = (node: string, labels: object) => asAgent('merge', `${nodes}/${node}`, { metadata: { labels } });
const annotate = (node: string, annotations: object) =>
  asAgent('merge', `${nodes}/${node}`, { metadata: { annotations } });

async function refused(call: () => Promise<ApiAnswer>, words: RegExp): Promise<void> {
  const { status, text } = await call();
  assert.equal(status, 403, text);
  assert.match(text, words);
}

suite('a node', () => {
  test('without any label or annotation can be written by its agent, and back', async () => {
    const bare = [
      { op: 'remove', path: '/metadata/annotations' },
      { op: 'remove', path: '/metadata/labels' },
    ];
    await api.admin.patch(`${nodes}/node1`, 'json', bare.slice(1));
    await api.admin.patch(`${nodes}/node1`, 'json', bare.slice(0, 1));
    const marks = {
      'kubevirt.io/schedulable': 'true',
      'cpu-model.node.kubevirt.io/Skylake': 'true',
      cpumanager: 'false',
    };
    assert.equal((await label('node1', marks)()).status, 200);
    assert.equal((await annotate('node1', { 'kubevirt.io/heartbeat': '2026-01-02T03:04:05Z' })()).status, 200);
    const gone = { 'cpu-model.node.kubevirt.io/Skylake': null, cpumanager: null };
    const { status, body } = await label('node1', gone)();
    assert.equal(status, 200);
    assert.deepEqual(body.metadata.labels, { 'kubevirt.io/schedulable': 'true' });
  });

  test('keeps the labels and annotations of others beside those of its agent', async () => {
    const others = { labels: { zone: 'a' }, annotations: { note: 'b' } };
    await api.admin.patch(`${nodes}/node1`, 'merge', { metadata: others });
    const { status, body } = await label('node1', { 'kubevirt.io/schedulable': 'false' })();
    assert.equal(status, 200);
    assert.equal(body.metadata.labels.zone, 'a');
    await refused(label('node1', { zone: 'c' }), /only change labels/);
    await refused(label('node1', { zone: null }), /only change labels/);
    await refused(annotate('node1', { note: 'c' }), /only change annotations/);
    await refused(annotate('node1', { note: null }), /only change annotations/);
  });

  const refusals: readonly [string, () => Promise<ApiAnswer>, RegExp][] = [
    ["another node's label", label('node2', { 'kubevirt.io/schedulable': 'false' }), /its own node only/],
    ["another node's annotation", annotate('node2', { 'kubevirt.io/heartbeat': 'x' }), /its own node only/],
    ['a label of somebody else', label('node1', { 'node-role.kubernetes.io/control-plane': '' }), /only change labels/],
    ['an annotation of somebody else', annotate('node1', { 'example.com/a': '' }), /only change annotations/],
    ['that it is cordoned', asAgent('merge', `${nodes}/node1`, { spec: { unschedulable: true } }), /the spec/],
    [
      'a taint',
      asAgent('merge', `${nodes}/node1`, { spec: { taints: [{ key: 'a', effect: 'NoExecute' }] } }),
      /the spec/,
    ],
    ['a finalizer', asAgent('merge', `${nodes}/node1`, { metadata: { finalizers: ['kubevirt.io/a'] } }), /finalizers/],
    ['its status', asAgent('merge', `${nodes}/node1/status`, { status: { capacity: { a: '1' } } }), /nodes\/status/],
    ['that it is gone', () => api.agent.delete(`${nodes}/node1`), /cannot delete/],
  ];
  for (const [what, call, words] of refusals) test(`its agent may not write: ${what}`, () => refused(call, words));

  test('is not written by a token that tells no node', async () => {
    const account = '/api/v1/namespaces/kubevirt/serviceaccounts/kubevirt-handler/token';
    const request = { apiVersion: 'authentication.k8s.io/v1', kind: 'TokenRequest', spec: {} };
    const { body } = await api.admin.post(account, request);
    const unbound = api.agent.withToken(body.status.token);
    const patch = { metadata: { labels: { 'kubevirt.io/schedulable': 'true' } } };
    await refused(() => unbound.patch(`${nodes}/node1`, 'merge', patch), /its own node only/);
  });
});

suite('a VMI', () => {
  let made = 0;

  /** As an administrator makes it; `change` is what the agent makes of it before its PUT. */
  async function put(given: object, change: (vmi: ApiAnswer['body']) => void): Promise<ApiAnswer> {
    const name = `vm${++made}`;
    const { metadata = {}, ...rest } = given as { metadata?: object };
    const created = await api.admin.post(vmis, {
      apiVersion: 'kubevirt.io/v1',
      kind: 'VirtualMachineInstance',
      spec: { domain: { devices: {}, cpu: { cores: 1 } } },
      metadata: { name, labels: { app: 'a' }, finalizers: ['kubevirt.io/foregroundDeleteVirtualMachine'], ...metadata },
      ...rest,
    });
    assert.equal(created.status, 201, created.text);
    change(created.body);
    return api.agent.put(`${vmis}/${name}`, created.body);
  }
  const own = { status: { nodeName: 'node1', phase: 'Scheduled' } };
  const coming = { status: { nodeName: 'node2', phase: 'Running', migrationState: { targetNode: 'node1' } } };
  const elsewhere = { status: { nodeName: 'node2', phase: 'Running' } };

  test('on the node of the agent gets its status and its marks', async () => {
    const { status, text, body } = await put(own, (vmi) => {
      vmi.status.phase = 'Running';
      vmi.metadata.labels['kubevirt.io/memory-hotplug-overhead-ratio'] = '1.5';
      vmi.metadata.annotations = { 'kubevirt.io/mark': 'x' };
    });
    assert.equal(status, 200, text);
    assert.equal(body.status.phase, 'Running');
  });

  test('that arrives is taken over by the agent of its target', async () => {
    const labels = { 'kubevirt.io/nodeName': 'node2', 'kubevirt.io/migrationTargetNodeName': 'node1' };
    const { status, text } = await put({ ...coming, metadata: { labels } }, (vmi) => {
      vmi.status.nodeName = 'node1';
      vmi.metadata.labels = { 'kubevirt.io/nodeName': 'node1' };
    });
    assert.equal(status, 200, text);
  });

  const refusals: readonly [string, object, (vmi: ApiAnswer['body']) => void, RegExp][] = [
    ['of another node', elsewhere, (vmi) => Object.assign(vmi.status, { phase: 'Failed' }), /neither on the node/],
    ['of no node', {}, (vmi) => Object.assign(vmi, own), /neither on the node/],
    ['with another spec', own, (vmi) => Object.assign(vmi.spec.domain.cpu, { cores: 2 }), /spec of a VMI/],
    ['without its finalizer', own, (vmi) => delete vmi.metadata.finalizers, /finalizers/],
    ['sent to another node', own, (vmi) => Object.assign(vmi.status, { nodeName: 'node2' }), /no node but its own/],
    [
      'labelled for another node',
      own,
      (vmi) => Object.assign(vmi.metadata.labels, { 'kubevirt.io/nodeName': 'node2' }),
      /labels of a VMI/,
    ],
    [
      'as a target that nobody chose',
      own,
      (vmi) => Object.assign(vmi.status, { migrationState: { targetNode: 'node1' } }),
      /target of a migration/,
    ],
    ["without its owner's label", own, (vmi) => delete vmi.metadata.labels.app, /labels of a VMI/],
    [
      "with somebody's annotation",
      own,
      (vmi) => Object.assign(vmi.metadata, { annotations: { a: 'b' } }),
      /annotations/,
    ],
  ];
  for (const [what, given, change, words] of refusals) {
    test(`is not written ${what}`, () => refused(() => put(given, change), words));
  }
});

suite('an event', () => {
  test('that names the agent and its node is taken, and counted on', async () => {
    const created = await api.agent.post(events, event('own', ownSource));
    assert.equal(created.status, 201, created.text);
    const { status, text } = await api.agent.patch(`${events}/own`, 'merge', { count: 2 });
    assert.equal(status, 200, text);
  });

  test('about the own node is taken', async () => {
    const involved = { kind: 'Node', name: 'node1', namespace: undefined };
    const created = await api.agent.post(events, event('node', ownSource, involved));
    assert.equal(created.status, 201, created.text);
  });

  test('of another node is not counted on', async () => {
    const other = { component: 'virt-handler', host: 'node2' };
    const created = await api.admin.post(events, event('foreign', other));
    assert.equal(created.status, 201, created.text);
    await refused(asAgent('merge', `${events}/foreign`, { count: 9 }), /its own node as its source/);
    await refused(asAgent('merge', `${events}/foreign`, { source: ownSource }), /own node only/);
  });

  const refusals: readonly [string, object, object, RegExp][] = [
    ['of another node', { component: 'virt-handler', host: 'node2' }, {}, /its own node as its source/],
    ['of another program', { component: 'kubelet', host: 'node1' }, {}, /its own node as its source/],
    ['about another node', ownSource, { kind: 'Node', name: 'node2' }, /its own node only/],
  ];
  for (const [what, source, involved, words] of refusals) {
    test(`${what} is not taken`, () => refused(() => api.agent.post(events, event('bad', source, involved)), words));
  }
});

suite('beyond its work an agent', () => {
  const calls: readonly [string, () => Promise<ApiAnswer>][] = [
    ['list pods', () => api.agent.get('/api/v1/pods')],
    ['create a pod', () => api.agent.post('/api/v1/namespaces/kubevirt/pods', {})],
    ['read a secret', () => api.agent.get('/api/v1/namespaces/kubevirt/secrets/kubevirt-ca')],
    ['list secrets', () => api.agent.get('/api/v1/secrets')],
    ['list config maps of the cluster', () => api.agent.get('/api/v1/configmaps')],
    ['read another config map', () => api.agent.get('/api/v1/namespaces/kubevirt/configmaps/other')],
    ['list config maps of its namespace', () => api.agent.get('/api/v1/namespaces/kubevirt/configmaps')],
    ['list CRDs', () => api.agent.get('/apis/apiextensions.k8s.io/v1/customresourcedefinitions')],
    ['list KubeVirt objects elsewhere', () => api.agent.get('/apis/kubevirt.io/v1/namespaces/default/kubevirts')],
    ['make a token', () => api.agent.post('/api/v1/namespaces/kubevirt/serviceaccounts/kubevirt-handler/token', {})],
    ['bind itself a role', () => api.agent.post('/apis/rbac.authorization.k8s.io/v1/clusterrolebindings', {})],
    [
      'remove its policy',
      () => api.agent.delete('/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/virt-handler-own-vmis'),
    ],
    ['patch a VMI', () => api.agent.patch(`${vmis}/vm1`, 'merge', {})],
    ['delete a VMI', () => api.agent.delete(`${vmis}/vm1`)],
  ];
  for (const [what, call] of calls) {
    test(`may not ${what}`, async () => assert.equal((await call()).status, 403));
  }

  test('may read what it follows: the authorities, by their name, and the KubeVirt object', async () => {
    const configMaps = '/api/v1/namespaces/kubevirt/configmaps?fieldSelector=metadata.name%3Dkubevirt-ca';
    assert.equal((await api.agent.get(configMaps)).status, 200);
    assert.equal((await api.agent.get('/apis/kubevirt.io/v1/namespaces/kubevirt/kubevirts')).status, 200);
  });
});

test('the agent of another node is held to that node', async () => {
  const other = api.agent.withToken(await tokenOfAgentOn(api.admin, 'node2'));
  const patch = { metadata: { labels: { 'kubevirt.io/schedulable': 'true' } } };
  assert.equal((await other.patch(`${nodes}/node2`, 'merge', patch)).status, 200);
  await refused(() => other.patch(`${nodes}/node1`, 'merge', patch), /its own node only/);
});
