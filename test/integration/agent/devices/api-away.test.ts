import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdirSync, writeFileSync } from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { embeddedLoopApi, type LoopApi } from '../../../fixtures/agent-bench.ts';
import { AgentProgram, stopped } from '../../../fixtures/agent-process.ts';
import { agentState } from '../../../fixtures/agent-state.ts';
import { eventually } from '../../../fixtures/eventually.ts';
import { KubeletStandIn } from '../../../fixtures/kubelet-stand-in.ts';

const program = new AgentProgram();
const pluginsDir = path.join(program.kubeletRoot, 'device-plugins');
/** Node.js takes its time on a loaded machine. */
const generousMs = 30_000;
let kubelet: KubeletStandIn;

before(async () => {
  await program.build();
  mkdirSync(pluginsDir, { recursive: true });
  kubelet = await new KubeletStandIn(pluginsDir).start();
});
after(async () => {
  await program.dispose();
  await kubelet?.close();
});

/** Of an API server that is not there: nobody listens on its port any more. */
async function kubeconfigOfNobody(): Promise<string> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  const config = {
    'current-context': 'c',
    contexts: [{ name: 'c', context: { cluster: 'a', user: 'u' } }],
    clusters: [{ name: 'a', cluster: { server: `http://127.0.0.1:${port}` } }],
    users: [{ name: 'u', user: {} }],
  };
  const file = path.join(program.dir, 'nobody.kubeconfig');
  writeFileSync(file, JSON.stringify(config));
  return file;
}

test('an agent that starts while the API server is away offers its node’s devices to the kubelet', async () => {
  const agent = program.start(await kubeconfigOfNobody());
  for (const name of ['kvm', 'tun', 'vhost-net', 'sev']) {
    const resource = `devices.kubevirt.io/${name}`;
    await eventually(() => assert.equal(kubelet.devices(resource).length, 1_000), generousMs);
  }
  assert.equal(agent.exitCode, null);
  const [code] = await stopped(agent, 'SIGTERM');
  assert.equal(code, 0, program.log());
  for (const name of ['kvm', 'tun']) assert.deepEqual(kubelet.lists(`devices.kubevirt.io/${name}`).at(-1), []);
});

const vsock = 'devices.kubevirt.io/vhost-vsock';

/** The cluster's configuration, as virt-operator leaves it. */
async function configure({ admin }: LoopApi, configuration: object): Promise<void> {
  const kubevirts = '/apis/kubevirt.io/v1/namespaces/kubevirt/kubevirts';
  const metadata = { name: 'kubevirt', namespace: 'kubevirt' };
  await admin.delete(`${kubevirts}/kubevirt`);
  const object = { apiVersion: 'kubevirt.io/v1', kind: 'KubeVirt', metadata, spec: { configuration } };
  const { status, text } = await admin.post(kubevirts, object);
  assert.equal(status, 201, text);
  await admin.patch(`${kubevirts}/kubevirt/status`, 'merge', { status: { phase: 'Deployed' } });
}

test('an agent that starts while the API server is away goes on with the configuration that it last had', async () => {
  const api = await embeddedLoopApi();
  try {
    await configure(api, { developerConfiguration: { featureGates: ['VSOCK'] } });
    const before = program.start(api.kubeconfig);
    await eventually(() => assert.equal(kubelet.devices(vsock).length, 1_000), generousMs);
    const { configuration } = await agentState(program.privateDir);
    assert.equal(configuration?.from, 'object');
    await stopped(before, 'SIGKILL');
  } finally {
    await api.stop();
  }
  await eventually(() => assert.equal(kubelet.isConnected(vsock), false), generousMs);
  const agent = program.start(await kubeconfigOfNobody());
  await eventually(() => assert.equal(kubelet.devices(vsock).length, 1_000), generousMs);
  const { configuration, phase } = await agentState(program.privateDir);
  assert.deepEqual([configuration?.from, phase], ['kept', 'starting']);
  assert.ok(Date.now() - Date.parse(configuration?.asOf ?? '') < 600_000, configuration?.asOf);
  assert.notEqual(configuration?.resourceVersion, undefined);
  await stopped(agent, 'SIGTERM');
});
