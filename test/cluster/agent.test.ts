import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, openSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { bundleProgram } from '../../scripts/bundle.mjs';
import type { VirtualMachineInstance } from '../../src/api/index.ts';
import { eventually } from '../fixtures/eventually.ts';
import { type KubeApiserver, startKubeApiserver } from '../fixtures/kube-apiserver.ts';
import { type LauncherProcess, type LauncherProgram, launcherProgram } from '../fixtures/launcher-process.ts';
import { scriptedDomain, socketFileOf } from '../fixtures/scripted-launcher.ts';

/** The agent's own program against a real kube-apiserver, with upstream's CRDs and rights, and a scripted launcher. */

const dir = mkdtempSync(path.join(tmpdir(), 'cluster-agent-'));
const podsDir = path.join(dir, 'pods');
const program = path.resolve('.build/cluster/virt-handler.mjs');
const logFile = path.join(dir, 'virt-handler.log');
/** Where the launcher finds the pipe in its own mount namespace. */
const pipe = '/run/kubevirt/domain-notify-pipe.sock';

let cluster: KubeApiserver;
let launchers: LauncherProgram;
let agent: ChildProcess;

before(async () => {
  await bundleProgram('virt-handler', program);
  const assets = process.env.KUBEBUILDER_ASSETS;
  assert.ok(assets, 'KUBEBUILDER_ASSETS is set by npm run test:cluster');
  [cluster, launchers] = await Promise.all([startKubeApiserver(assets), launcherProgram()]);
  cluster.kubectlStdin('{"apiVersion":"v1","kind":"Node","metadata":{"name":"node1"}}', 'create', '-f', '-');
  agent = startAgent();
});

after(async () => {
  agent?.kill('SIGKILL');
  await launchers?.dispose();
  await cluster?.stop();
  rmSync(dir, { recursive: true, force: true });
});

function startAgent(): ChildProcess {
  const log = openSync(logFile, 'a');
  for (const name of ['share', 'private']) mkdirSync(path.join(dir, name), { recursive: true });
  const args = [
    ...['--kubeconfig', cluster.handlerKubeconfig, '--hostname-override', 'node1', '--pod-ip-address', '127.0.0.1'],
    ...['--kubevirt-share-dir', path.join(dir, 'share'), '--kubevirt-private-dir', path.join(dir, 'private')],
  ];
  const env = { ...process.env, NODE_NAME: 'node1', KUBEVIRT_PODS_DIR: podsDir, KUBEVIRT_HOST_ROOT: '/' };
  return spawn(process.execPath, [program, ...args], { env, stdio: ['ignore', log, log] });
}

function apply(name: string, node: string, more: object = {}): VirtualMachineInstance {
  const object = {
    apiVersion: 'kubevirt.io/v1',
    kind: 'VirtualMachineInstance',
    metadata: {
      name,
      namespace: 'default',
      labels: { 'kubevirt.io/nodeName': node },
      finalizers: ['kubevirt.io/foregroundDeleteVirtualMachine'],
    },
    spec: {
      terminationGracePeriodSeconds: 30,
      domain: { devices: { disks: [{ name: 'data', disk: { bus: 'virtio' } }] } },
      volumes: [{ name: 'data', emptyDisk: { capacity: '1Mi' } }],
      fieldOfTomorrow: { keep: ['me'] },
    },
    status: { phase: 'Scheduled', nodeName: node, activePods: { [`pod-${name}`]: node }, statusOfTomorrow: 7 },
    ...more,
  };
  return JSON.parse(cluster.kubectlStdin(JSON.stringify(object), 'create', '-f', '-', '-o', 'json'));
}

function read(name: string): VirtualMachineInstance {
  return JSON.parse(cluster.kubectl('get', 'vmi', name, '-o', 'json'));
}

function eventReasons(name: string): string[] {
  const output = cluster.kubectl('get', 'events', '--field-selector', `involvedObject.name=${name}`, '-o', 'json');
  return JSON.parse(output).items.map(({ reason }: { reason: string }) => reason);
}

async function bootedVmi(name: string): Promise<{ launcher: LauncherProcess; uid: string }> {
  const launcher = await launchers.start(socketFileOf(podsDir, `pod-${name}`), { ownRun: true });
  const uid = apply(name, 'node1').metadata.uid ?? '';
  await eventually(() => assert.ok(eventReasons(name).includes('Created')));
  const domain = scriptedDomain(`default/${name}`, uid);
  await launcher.setDomain(domain);
  await launcher.sendEvent(pipe, 'ADDED', domain);
  await eventually(() => assert.equal(read(name).status?.phase, 'Running'));
  return { launcher, uid };
}

test('a Scheduled VMI becomes Running with stock rights, and fields of tomorrow survive the write', async () => {
  await bootedVmi('boots');
  const vmi = read('boots');
  assert.deepEqual(vmi.spec.fieldOfTomorrow, { keep: ['me'] });
  assert.equal(vmi.status?.statusOfTomorrow, 7);
  await eventually(() => assert.deepEqual(eventReasons('boots').sort(), ['Created', 'Started']));
});

test('kill -9 of the agent changes nothing of a running VMI, and the next agent takes it over without a write', async () => {
  const { launcher, uid } = await bootedVmi('survives');
  const before = read('survives').metadata.resourceVersion;
  const killed = once(agent, 'exit');
  agent.kill('SIGKILL');
  await killed;
  const served = () => readFileSync(logFile, 'utf8').split('serves this node').length;
  const servedBefore = served();
  agent = startAgent();
  await eventually(() => assert.ok(served() > servedBefore));
  // The new agent has its own pipe there: an event through it is answered.
  await eventually(async () => {
    const answer = await launcher.sendEvent(pipe, 'MODIFIED', scriptedDomain('default/survives', uid));
    assert.equal(answer.success, true);
  });
  assert.equal(read('survives').metadata.resourceVersion, before);
});

test('a deleted VMI is shut down, becomes Succeeded, and its finalizer is left to its owner', async () => {
  const { launcher, uid } = await bootedVmi('ends');
  cluster.kubectl('delete', 'vmi', 'ends', '--wait=false');
  await eventually(() => assert.ok(eventReasons('ends').includes('ShuttingDown')));
  const stopped = scriptedDomain('default/ends', uid, 'Shutoff', 'Shutdown');
  await launcher.setDomain(stopped);
  await launcher.sendEvent(pipe, 'MODIFIED', stopped);
  await eventually(() => assert.equal(read('ends').status?.phase, 'Succeeded'));
  assert.deepEqual(read('ends').metadata.finalizers, ['kubevirt.io/foregroundDeleteVirtualMachine']);
});

test('a launcher that is killed makes its VMI Failed and leaves the others alone', async () => {
  const { launcher } = await bootedVmi('dies');
  const other = read('boots').metadata.resourceVersion;
  await launcher.kill();
  await eventually(() => assert.equal(read('dies').status?.phase, 'Failed'), 30_000);
  assert.equal(read('boots').metadata.resourceVersion, other);
});

test('a VMI of another node is never written', async () => {
  const created = apply('foreign', 'node2');
  await bootedVmi('neighbour');
  assert.equal(read('foreign').metadata.resourceVersion, created.metadata.resourceVersion);
});

test('SIGTERM ends the agent with exit code 0, and nothing was ever forbidden to it', async () => {
  const exited = once(agent, 'exit');
  agent.kill('SIGTERM');
  assert.deepEqual(await exited, [0, null]);
  const node = JSON.parse(cluster.kubectl('get', 'node', 'node1', '-o', 'json'));
  assert.equal(node.metadata.labels['kubevirt.io/schedulable'], 'false');
  const log = readFileSync(logFile, 'utf8');
  assert.ok(log.includes('serves this node'));
  assert.equal(
    log.includes('FORBIDDEN'),
    false,
    log.split('\n').find((line) => line.includes('FORBIDDEN')),
  );
});
