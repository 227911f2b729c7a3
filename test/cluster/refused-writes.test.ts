import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { kubeVmiWriter } from '../../src/agent/vmi/adapters/index.ts';
import { resources, type VirtualMachineInstance } from '../../src/api/index.ts';
import { KubeClient, loadKubeAccess } from '../../src/kube/index.ts';
import { vmiUpdatePolicy } from '../fixtures/admission-policy.ts';
import { eventually } from '../fixtures/eventually.ts';
import { type KubeApiserver, startKubeApiserver } from '../fixtures/kube-apiserver.ts';

/** What a real API server with etcd answers to a status that it does not take, with upstream's CRDs and rights. */

let cluster: KubeApiserver;
let admin: KubeClient;
let handler: KubeClient;
const { signal } = new AbortController();

before(async () => {
  const assets = process.env.KUBEBUILDER_ASSETS;
  assert.ok(assets, 'KUBEBUILDER_ASSETS is set by npm run test:cluster');
  cluster = await startKubeApiserver(assets);
  admin = new KubeClient(
    { userAgent: 'test' },
    { access: await loadKubeAccess({ kubeconfig: cluster.adminKubeconfig }) },
  );
  handler = new KubeClient(
    { userAgent: 'virt-handler' },
    { access: await loadKubeAccess({ kubeconfig: cluster.handlerKubeconfig }) },
  );
});

after(async () => {
  admin?.close();
  handler?.close();
  await cluster?.stop();
});

async function created(name: string): Promise<VirtualMachineInstance> {
  return admin.create<VirtualMachineInstance>(resources.virtualMachineInstances, {
    apiVersion: 'kubevirt.io/v1',
    kind: 'VirtualMachineInstance',
    metadata: { name, namespace: 'default' },
    spec: { domain: { devices: {}, resources: {} } },
  } as VirtualMachineInstance);
}

function put(vmi: VirtualMachineInstance, status: object) {
  return kubeVmiWriter(handler).put({ ...vmi, status: { ...vmi.status, ...status } }, signal);
}

const sizes = [
  ['more than etcd takes', 1_700_000],
  ['more than gRPC sends', 2_500_000],
  ['more than a request may have', 3_500_000],
] as const;
for (const [situation, bytes] of sizes) {
  test(`an object that is too large is refused as such: ${situation}`, async () => {
    const vmi = await created(`large-${bytes}`);
    const result = await put(vmi, { reason: 'x'.repeat(bytes) });
    assert.equal(result.kind, 'refused', JSON.stringify(result).slice(0, 300));
    assert.equal(result.kind === 'refused' && result.code, 'TOO_LARGE');
    const small = await put(vmi, { phase: 'Running' });
    assert.equal(small.kind, 'written');
  });
}

test('an invalid object is refused', async () => {
  const vmi = await created('invalid');
  vmi.metadata.labels = { 'example.com/label': 'no label value!' };
  const result = await put(vmi, {});
  assert.equal(result.kind, 'refused', JSON.stringify(result));
  assert.equal(result.kind === 'refused' && result.code, 'NOT_ALLOWED');
});

test('what an admission policy forbids is refused with its words', async () => {
  const policies = vmiUpdatePolicy('no-bad-os', {
    expression:
      "!has(object.status.guestOSInfo) || !has(object.status.guestOSInfo.name) || object.status.guestOSInfo.name != 'BadOS'",
    message: 'BadOS is not welcome',
  });
  for (const object of policies) cluster.kubectlStdin(JSON.stringify(object), 'create', '-f', '-');
  let vmi = await created('admission');
  let words = '';
  await eventually(async () => {
    const result = await put(vmi, { guestOSInfo: { name: 'BadOS' } });
    if (result.kind === 'written') vmi = result.vmi;
    words = result.kind === 'refused' ? `${result.code} ${result.message}` : result.kind;
    assert.match(words, /^NOT_ALLOWED .*BadOS is not welcome/);
  }, 30_000);
  assert.equal((await put(vmi, { guestOSInfo: { name: 'GoodOS' } })).kind, 'written');
});
