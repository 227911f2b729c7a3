import assert from 'node:assert/strict';
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { bundleProgram } from '../../../scripts/bundle.mjs';
import { resources, type VirtualMachineInstance } from '../../../src/api/index.ts';
import { Cluster, embeddedApi, token } from '../../fixtures/controller/cluster.ts';
import { eventually, stays } from '../../fixtures/eventually.ts';

/** The program as it is shipped, against the embedded API; it may be killed at any point. */

let dir: string;
let program: string;
let cluster: Cluster;
const running = new Set<ChildProcess>();

before(async () => {
  dir = mkdtempSync(path.join(tmpdir(), 'virt-controller-'));
  program = path.join(dir, 'virt-controller.mjs');
  await bundleProgram('virt-controller', program);
  cluster = new Cluster(await embeddedApi());
  await cluster.addNode();
  writeFileSync(
    path.join(dir, 'kubeconfig'),
    JSON.stringify({
      apiVersion: 'v1',
      kind: 'Config',
      'current-context': 'c',
      contexts: [{ name: 'c', context: { cluster: 'c', user: 'u' } }],
      clusters: [{ name: 'c', cluster: { server: cluster.server } }],
      users: [{ name: 'u', user: { token } }],
    }),
  );
});
after(async () => {
  for (const child of running) child.kill('SIGKILL');
  await cluster.stop();
  rmSync(dir, { recursive: true, force: true });
});

function start(...args: string[]): ChildProcess & { output: string } {
  const access = ['--kubeconfig', path.join(dir, 'kubeconfig'), '--standalone-scheduler', '-v', '4'];
  const child = Object.assign(
    spawn(process.execPath, [program, ...access, ...args], { stdio: ['ignore', 'pipe', 'pipe'] }),
    {
      output: '',
    },
  );
  running.add(child);
  child.stdout?.on('data', (chunk) => {
    child.output += chunk;
  });
  child.stderr?.on('data', (chunk) => {
    child.output += chunk;
  });
  child.once('exit', () => running.delete(child));
  return child;
}

async function end(child: ChildProcess, signal: NodeJS.Signals): Promise<number | null> {
  const exit = once(child, 'exit');
  child.kill(signal);
  const [code] = await exit;
  return code as number | null;
}

async function createVmi(name: string): Promise<VirtualMachineInstance> {
  return cluster.client.create<VirtualMachineInstance>(resources.virtualMachineInstances, {
    apiVersion: 'kubevirt.io/v1',
    kind: 'VirtualMachineInstance',
    metadata: { name, namespace: 'default' },
    spec: { domain: { memory: { guest: '64Mi' } } },
  });
}

test('an unknown flag prints the usage and ends with code 2', () => {
  const { status, stderr } = spawnSync(process.execPath, [program, '--no-such-flag'], { encoding: 'utf8' });
  assert.equal(status, 2);
  assert.match(stderr, /unknown flag: --no-such-flag\n\nUsage of virt-controller:/);
});

test('without a way to the API the program ends with code 1 and says what is missing', () => {
  const env = { PATH: process.env.PATH };
  const { status, stdout } = spawnSync(process.execPath, [program], { encoding: 'utf8', env });
  assert.equal(status, 1);
  assert.match(stdout, /neither --kubeconfig nor --master is given/);
});

test('SIGTERM ends the program with code 0 and gives the lease back', async () => {
  const child = start();
  const vmi = await createVmi('term');
  await cluster.untilPod(vmi.metadata.uid ?? '', 'bound', ({ spec }) => spec.nodeName === 'node1');
  assert.equal(await end(child, 'SIGTERM'), 0, child.output);
  const leases = { group: 'coordination.k8s.io', version: 'v1', resource: 'leases', kind: 'Lease', namespaced: true };
  const lease = await cluster.client.get(leases, { namespace: 'kubevirt', name: 'virt-controller' });
  assert.equal((lease as unknown as { spec: { holderIdentity: string } }).spec.holderIdentity, '');
});

/** Plays the kubelet for all pods of a VMI: runs them, or lets go of them. */
async function runPods(vmiUid: string): Promise<void> {
  for (const pod of await cluster.pods(vmiUid)) {
    if (pod.metadata.deletionTimestamp) await cluster.client.delete(resources.pods, pod.metadata, { graceSeconds: 0 });
    else if (pod.status?.phase !== 'Running') await cluster.runPod(pod);
  }
}

test('killed at any moment, the program hands a VMI over with exactly one pod; one that it could not record is replaced', async () => {
  for (let round = 0; round < 6; round++) {
    const name = `killed-${round}`;
    const vmi = await createVmi(name);
    // From before its first list to after the pod was made.
    const child = start();
    await new Promise((resolve) => setTimeout(resolve, 250 + round * 40));
    await end(child, 'SIGKILL');
    const next = start();
    const uid = vmi.metadata.uid ?? '';
    await cluster.untilPod(uid, 'bound', ({ spec }) => spec.nodeName === 'node1');
    await end(next, 'SIGKILL');
    await runPods(uid);
    const last = start();
    await eventually(async () => {
      await runPods(uid);
      const { status } = (await cluster.find<VirtualMachineInstance>(resources.virtualMachineInstances, name)) ?? {};
      const pods = await cluster.pods(uid);
      assert.equal(status?.phase, 'Scheduled');
      assert.deepEqual(
        pods.map(({ metadata }) => metadata.uid),
        Object.keys(status.activePods ?? {}),
      );
      assert.equal(pods.length, 1);
    });
    await end(last, 'SIGKILL');
  }
});

test('an API server that is away at the start is waited for', async () => {
  const child = start('--master', 'http://127.0.0.1:9');
  await stays(() => assert.equal(child.exitCode, null, child.output), 500);
  await end(child, 'SIGKILL');
});
