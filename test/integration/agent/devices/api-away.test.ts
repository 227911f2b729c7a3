import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdirSync, writeFileSync } from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { AgentProgram, stopped } from '../../../fixtures/agent-process.ts';
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
