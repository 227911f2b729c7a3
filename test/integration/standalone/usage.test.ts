import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { formatIdentity, identifyProcess } from '../../../src/standalone/process-identity.ts';
import { ProcUsage } from '../../../src/standalone/supervisor/usage.ts';
import { type EmbeddedApi, startEmbeddedApi } from '../../fixtures/embedded-api.ts';
import { Kubectl } from '../../fixtures/kubectl.ts';

/** A process that does nothing, with a child that has 64 MiB and a CPU for itself. */
const busyFamily = `
const child = require('node:child_process').spawn(process.execPath, ['-e', 'const b = Buffer.alloc(67108864, 1); for (;;) b[0]++'], { stdio: 'ignore' });
process.on('exit', () => child.kill('SIGKILL'));
process.on('SIGTERM', () => process.exit());
setInterval(() => {}, 1000);
`;

describe('kubectl top', () => {
  let home: string;
  let api: EmbeddedApi;
  let kubectl: Kubectl;
  let family: ChildProcess;

  before(async () => {
    home = await mkdtemp(path.join(tmpdir(), 'usage-'));
    const pods = path.join(home, 'pods');
    api = await startEmbeddedApi({}, { usage: new ProcUsage([pods, path.join(home, 'of-no-node')]) });
    kubectl = new Kubectl(api.kubeconfig, home);
    const allocatable = { cpu: '64', memory: '1Ti' };
    await api.controller.post('/api/v1/nodes', { metadata: { name: 'node1' }, status: { allocatable } });
    family = spawn(process.execPath, ['-e', busyFamily], { stdio: 'ignore' });
    for (const name of ['busy', 'never-started', 'before-it']) {
      const { body } = await api.controller.post('/api/v1/namespaces/default/pods', {
        metadata: { name, labels: { 'kubevirt.io': 'virt-launcher', vm: name } },
        spec: { containers: [{ name: 'compute', image: 'none' }] },
      });
      const identity = await identifyProcess(family.pid ?? 0);
      assert.ok(identity);
      const dir = path.join(pods, body.metadata.uid, 'sandbox');
      await mkdir(dir, { recursive: true });
      // Its pid is another process's by now.
      const earlier = formatIdentity({ ...identity, startTicks: '1' });
      const written = { busy: formatIdentity(identity), 'before-it': earlier }[name] ?? 'torn';
      await writeFile(path.join(dir, 'pid1'), written);
    }
  });
  after(async () => {
    family.kill('SIGTERM');
    await api.stop();
    await rm(home, { recursive: true, force: true });
  });

  test('pods: CPU and memory of all processes of those that run, by container and label, too', async () => {
    const { status, body } = await api.client.get('/apis/metrics.k8s.io/v1beta1/namespaces/default/pods');
    assert.equal(status, 200);
    assert.deepEqual(
      body.items.map(({ metadata, containers }: { metadata: { name: string }; containers: { name: string }[] }) => [
        metadata.name,
        containers.map(({ name }) => name),
      ]),
      [['busy', ['compute']]],
    );
    const { cpu, memory } = body.items[0].containers[0].usage;
    assert.ok(Number.parseInt(cpu, 10) > 0, cpu);
    assert.ok(Number.parseInt(memory, 10) > 64 * 1024, memory);
    assert.match(await kubectl.run(['top', 'pod']), /^busy +\d+m +\d+Mi *$/m);
    assert.match(await kubectl.run(['top', 'pod', '-A', '--containers']), /^default +busy +compute +\d+m +\d+Mi *$/m);
    assert.match(await kubectl.run(['top', 'pod', '-l', 'vm=busy', '--no-headers']), /^busy /);
    assert.match(await kubectl.run(['top', 'pod', 'busy']), /^busy +\d+m/m);
    assert.notEqual((await kubectl.try(['top', 'pod', 'never-started'])).code, 0);
  });

  test('nodes: what the machine uses, as a share of what the node has', async () => {
    assert.match(await kubectl.run(['top', 'node']), /^node1 +\d+m +\d+% +\d+Mi +\d+% *$/m);
    const { body } = await api.client.get('/apis/metrics.k8s.io/v1beta1/nodes/node1');
    assert.ok(Number.parseInt(body.usage.memory, 10) > 10_000, body.usage.memory);
  });

  test('what is no such figure is refused: another resource, a change, a node that there is not', async () => {
    const base = '/apis/metrics.k8s.io/v1beta1';
    assert.equal((await api.client.get(`${base}/services`)).status, 404);
    assert.equal((await api.client.get(`${base}/nodes/other`)).status, 404);
    assert.equal((await api.client.get(`${base}/namespaces/default/nodes`)).status, 404);
    assert.equal((await api.client.post(`${base}/nodes`, {})).status, 405);
  });
});
