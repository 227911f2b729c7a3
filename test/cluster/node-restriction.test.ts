import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { after, before, suite, test } from 'node:test';
import { vmiUpdatePolicy } from '../fixtures/admission-policy.ts';
import { AgentBench, kubeconfigFor, type LoopApi, realLoopApi } from '../fixtures/agent-bench.ts';
import { ApiClient } from '../fixtures/api-client.ts';
import { eventually } from '../fixtures/eventually.ts';

/**
 * KubeVirt's feature gate NodeRestriction: a write of a VMI is let through only if the node of the agent's token is
 * the node, or the migration target, of the VMI as it was. Said here as an admission policy of the API server itself.
 */

const vmis = '/apis/kubevirt.io/v1/namespaces/default/virtualmachineinstances';
const handler = 'system:serviceaccount:kubevirt:kubevirt-handler';
const tokenNode = "request.userInfo.extra['authentication.kubernetes.io/node-name'][0]";
const oldNode = "(has(oldObject.status) && has(oldObject.status.nodeName) ? oldObject.status.nodeName : '')";
const oldTarget =
  '(has(oldObject.status) && has(oldObject.status.migrationState) && has(oldObject.status.migrationState.targetNode)' +
  " ? oldObject.status.migrationState.targetNode : '')";

const [policy, binding] = vmiUpdatePolicy('own-node-only', {
  condition: `request.userInfo.username == '${handler}'`,
  expression: `${tokenNode} in [${oldNode}, ${oldTarget}]`,
  message: 'this VMI is not of the node of this agent',
});

suite('an agent that may write VMIs of its own node only', () => {
  let api: LoopApi;
  let bound: ApiClient;
  let bench: AgentBench;

  before(async () => {
    api = await realLoopApi();
    await api.admin.post('/api/v1/nodes', { apiVersion: 'v1', kind: 'Node', metadata: { name: 'node1' } });
    bound = new ApiClient(api.server, await tokenOfPodOn('node1'), api.ca);
    for (const [resource, object] of [
      ['validatingadmissionpolicies', policy],
      ['validatingadmissionpolicybindings', binding],
    ] as const) {
      const { status, text } = await api.admin.post(`/apis/admissionregistration.k8s.io/v1/${resource}`, object);
      assert.equal(status, 201, text);
    }
    const restricted: LoopApi = { ...api, agent: bound, kubeconfig: path.join(path.dirname(api.kubeconfig), 'bound') };
    writeFileSync(restricted.kubeconfig, kubeconfigFor(api.server, bound.token));
    bench = await AgentBench.start(restricted);
  });
  after(async () => {
    await bench?.dispose();
    await api?.stop();
  });

  /** A token as kubelet mounts it into the agent's pod. */
  async function tokenOfPodOn(nodeName: string): Promise<string> {
    const pods = '/api/v1/namespaces/kubevirt/pods';
    const spec = { nodeName, serviceAccountName: 'kubevirt-handler', containers: [{ name: 'c', image: 'i' }] };
    const pod = await api.admin.post(pods, { apiVersion: 'v1', kind: 'Pod', metadata: { name: 'agent' }, spec });
    assert.equal(pod.status, 201, pod.text);
    const boundObjectRef = { kind: 'Pod', apiVersion: 'v1', name: 'agent', uid: pod.body.metadata.uid };
    const { status, body, text } = await api.admin.post(
      '/api/v1/namespaces/kubevirt/serviceaccounts/kubevirt-handler/token',
      { apiVersion: 'authentication.k8s.io/v1', kind: 'TokenRequest', spec: { boundObjectRef } },
    );
    assert.equal(status, 201, text);
    return body.status.token;
  }

  /** Labelled for this node, and of another by its status. */
  const foreignStatus = { phase: 'Running', nodeName: 'node2', activePods: {} };

  test('has a token that tells its node', async () => {
    const { body } = await bound.post('/apis/authentication.k8s.io/v1/selfsubjectreviews', {
      apiVersion: 'authentication.k8s.io/v1',
      kind: 'SelfSubjectReview',
    });
    assert.deepEqual(body.status.userInfo.extra['authentication.kubernetes.io/node-name'], ['node1']);
  });

  test('is refused the VMI of another node', async () => {
    const labels = { 'kubevirt.io/nodeName': 'node2' };
    await bench.create('foreign', { metadata: { name: 'foreign', labels }, status: foreignStatus });
    await eventually(async () => {
      const vmi = await bench.read('foreign');
      const { status, text } = await bound.put(`${vmis}/foreign`, { ...vmi, status: { phase: 'Failed' } });
      assert.equal(status, 422, text);
      assert.match(text, /not of the node of this agent/);
    });
  });

  test('brings its own VMIs from Scheduled to Succeeded', async () => {
    const { launcher } = await bench.play('own');
    await launcher.act({ guest: 'shutdown' });
    await bench.untilPhase('own', 'Succeeded');
    assert.doesNotMatch(bench.program.log(), /not of the node of this agent/);
  });
});
