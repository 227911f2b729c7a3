import assert from 'node:assert/strict';
import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { createServer, type Server } from 'node:http';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { controllerExplainApiVersion, explainApiVersion } from '../../../src/api/index.ts';
import { silentLogger } from '../../../src/base/index.ts';
import { dynamicWords } from '../../../src/standalone/cli/completion.ts';
import {
  ApiProgram,
  askExplain,
  type Command,
  listVms,
  migrateVm,
  type NodePaths,
  nodePaths,
  pageUrl,
  parseCommand,
  takeScreenshot,
} from '../../../src/standalone/index.ts';
import { ApiClient } from '../../fixtures/api-client.ts';

const at = '2026-01-02T03:04:05Z';
const now = new Date(at);
const vms = '/apis/kubevirt.io/v1/namespaces/default/virtualmachines';
const vmis = '/apis/kubevirt.io/v1/namespaces/default/virtualmachineinstances';

describe('answers of the command line about VMs that are on no node', () => {
  let paths: NodePaths;
  let program: ApiProgram;
  let admin: ApiClient;
  let controller: ApiClient;
  let explained: Server | undefined;

  before(async () => {
    paths = nodePaths(await mkdtemp(path.join(tmpdir(), 'cli-answers-')));
    program = new ApiProgram({ paths, host: '127.0.0.1', port: 0, nodeName: 'one', nodes: 1 }, { log: silentLogger });
    await program.start();
    admin = ApiClient.fromKubeconfig(paths.kubeconfig);
    controller = ApiClient.fromKubeconfig(paths.kubeconfigs['virt-controller']);
    const template = (volumes: object[] = []) => ({
      spec: { domain: { devices: {}, memory: { guest: '64Mi' } }, volumes },
    });
    const head = (name: string) => ({ apiVersion: 'kubevirt.io/v1', kind: 'VirtualMachine', metadata: { name } });
    const made = [
      await admin.post(vms, { ...head('halted'), spec: { runStrategy: 'Halted', template: template() } }),
      await admin.post(vms, { ...head('wants-disk'), spec: { runStrategy: 'Always', template: withDisk() } }),
      await admin.post(vmis, { ...head('unplaced'), kind: 'VirtualMachineInstance', spec: template().spec }),
    ];
    assert.deepEqual(
      made.map(({ status }) => status),
      [201, 201, 201],
    );
    const uid = made[2]?.body.metadata.uid;
    const message = '0/1 nodes are available: 1 Insufficient memory.';
    const pods = '/api/v1/namespaces/default/pods';
    await controller.post(pods, {
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: { name: 'virt-launcher-unplaced-x', labels: { 'kubevirt.io/created-by': uid } },
      spec: { containers: [{ name: 'compute', image: 'i' }] },
    });
    await controller.patch(`${pods}/virt-launcher-unplaced-x/status`, 'merge', {
      status: { conditions: [{ type: 'PodScheduled', status: 'False', reason: 'Unschedulable', message }] },
    });
    await admin.post('/api/v1/namespaces/default/events', {
      apiVersion: 'v1',
      kind: 'Event',
      metadata: { name: 'unplaced.1', namespace: 'default' },
      involvedObject: { kind: 'VirtualMachineInstance', namespace: 'default', name: 'unplaced', uid },
      ...{ type: 'Warning', reason: 'FailedScheduling', message, lastTimestamp: '2026-01-02T03:04:00Z' },
    });
  });
  after(async () => {
    explained?.close();
    await program.stop();
    await rm(paths.stateDir, { recursive: true, force: true });
  });

  function withDisk() {
    const volumes = [{ name: 'data', persistentVolumeClaim: { claimName: 'no-such-claim' } }];
    const devices = { disks: [{ name: 'data', disk: { bus: 'virtio' } }] };
    return { spec: { domain: { devices, memory: { guest: '64Mi' } }, volumes } };
  }

  const explain = (...argv: string[]) => {
    const command: Command = parseCommand(['explain', ...argv, '--state-dir', paths.stateDir]);
    assert.equal(command.command, 'explain');
    return askExplain(command as Extract<Command, { command: 'explain' }>, { now });
  };

  test('a stopped VM waits for nobody, and how it is started is said', async () => {
    const text = await explain('halted');
    assert.match(text, /^default\/halted is on no node$/m);
    assert.match(text, /waits for nothing: its runStrategy is Halted/);
    assert.match(text, /do +virtctl start halted -n default/);
  });

  test('a missing claim is named, in text, json and yaml', async () => {
    assert.match(
      await explain('wants-disk'),
      /waits for the PersistentVolumeClaim no-such-claim, which does not exist/,
    );
    const report = JSON.parse(await explain('wants-disk', '-o', 'json'));
    assert.deepEqual([report.kind, report.rule, report.name], ['Waiting', 'claim-missing', 'wants-disk']);
    assert.match(await explain('wants-disk', '-o', 'yaml'), /^rule: claim-missing$/m);
  });

  test('a pod that no node takes is told of with its reason, and the warning that said so', async () => {
    const text = await explain('unplaced');
    assert.match(text, /is +instance .*; pod virt-launcher-unplaced-x Pending/);
    assert.match(text, /waits for a node that takes its launcher pod: 0\/1 nodes are available: 1 Insufficient memory/);
    assert.match(text, /no node takes VMs now/);
    assert.match(text, /warning +5 s ago FailedScheduling: 0\/1 nodes/);
  });

  test('where there is one node, who wants to move a VM is told how to have two', async () => {
    const node = (name: string) => ({ apiVersion: 'v1', kind: 'Node', metadata: { name } });
    const signal = new AbortController().signal;
    const wish = { namespace: 'default', name: 'unplaced', to: undefined, noWait: true };
    const move = () => migrateVm(paths, wish, () => undefined, signal);
    const message = 'a disk of this node';
    const conditions = [{ type: 'LiveMigratable', status: 'False', reason: 'DisksNotLiveMigratable', message }];
    await controller.patch(`${vmis}/unplaced`, 'merge', { status: { phase: 'Running', conditions } });
    try {
      await admin.post('/api/v1/nodes', node('one'));
      await assert.rejects(move(), { code: 'UNSUPPORTED', message: /no other node; virt-node start --nodes 2/ });
      await admin.post('/api/v1/nodes', node('two'));
      await assert.rejects(move(), { code: 'UNSUPPORTED', message: /a disk of this node/ });
    } finally {
      for (const name of ['one', 'two']) await admin.delete(`/api/v1/nodes/${name}`);
      await controller.patch(`${vmis}/unplaced`, 'merge', { status: { phase: 'Scheduling', conditions: null } });
    }
  });

  test('what virt-controller decided is told, where it answers', async () => {
    const decision = {
      rule: 'claim-awaited',
      why: 'A claim is waited for.',
      firstAt: at,
      lastAt: at,
      times: 1,
      seen: {},
      steps: [],
    };
    const report = {
      apiVersion: controllerExplainApiVersion,
      kind: 'Explanation',
      at,
      resource: 'vm',
      namespace: 'default',
    };
    const more = {
      name: 'wants-disk',
      nextTry: { state: 'idle' },
      decisions: [{ ...decision, write: { outcome: 'unchanged' } }],
    };
    explained = createServer((request, response) => {
      const isVm = request.url === '/explain/vm/default/wants-disk';
      response.statusCode = isVm ? 200 : 404;
      const error = { apiVersion: controllerExplainApiVersion, kind: 'Error', code: 'NOT_FOUND', message: 'unknown' };
      response.end(JSON.stringify(isVm ? { ...report, ...more } : error));
    });
    await mkdir(path.dirname(paths.controllerSocket), { recursive: true });
    await new Promise<void>((resolve) => explained?.listen(paths.controllerSocket, resolve));
    assert.match(
      await explain('wants-disk'),
      /decided +A claim is waited for\. \(VirtualMachine, rule claim-awaited; next: /,
    );
  });

  test('what the agent knows is over and what keeps the VM now are both told, in json, too', async (t) => {
    const over = { apiVersion: explainApiVersion, kind: 'Why', at, namespace: 'default', name: 'halted', goneAt: at };
    const agent = createServer((_request, response) => response.end(JSON.stringify({ ...over, decisions: [] })));
    await mkdir(path.dirname(paths.agentSocket), { recursive: true });
    await new Promise<void>((resolve) => agent.listen(paths.agentSocket, resolve));
    t.after(() => agent.close());
    const told = JSON.parse(await explain('halted', '-o', 'json'));
    assert.deepEqual(
      told.map(({ kind }: { kind: string }) => kind),
      ['Why', 'Waiting'],
    );
    assert.equal(told[1].rule, 'halted');
  });

  test('a name that there is not is answered with the one that was meant, or where it is', async () => {
    await assert.rejects(explain('haltet'), {
      code: 'NOT_FOUND',
      message: /no VM haltet in namespace default: did you mean halted\?/,
    });
    await assert.rejects(explain('halted', '-n', 'kube-system'), { message: /but in default: -n default/ });
    const elsewhere = takeScreenshot(paths, { namespace: 'default', name: 'halted' });
    await assert.rejects(elsewhere, { name: 'NodeError' });
  });

  test('the list has all of them, one namespace, or refuses one that there is not', async () => {
    const list = (namespace: string | undefined) => listVms(paths, { namespace, output: 'name' }, now);
    const all = ['virtualmachine.kubevirt.io/halted', 'virtualmachineinstance.kubevirt.io/unplaced'];
    assert.deepEqual((await list('default')).split('\n'), [...all, 'virtualmachine.kubevirt.io/wants-disk']);
    assert.equal(await list('kube-system'), '');
    await assert.rejects(list('nowhere'), { code: 'NOT_FOUND', message: /no namespace nowhere; there are: default/ });
  });

  test('names of VMs are offered for completion', async () => {
    const words = await dynamicWords(paths, { kind: 'vms', namespace: 'default' });
    assert.deepEqual(words, ['halted', 'unplaced', 'wants-disk']);
    assert.ok((await dynamicWords(paths, { kind: 'namespaces' })).includes('kubevirt'));
  });

  test('there is no address of a page without a node', async () => {
    await assert.rejects(pageUrl(paths, true), { code: 'NOT_RUNNING' });
  });
});
