import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, type TestContext, test } from 'node:test';
import {
  type KubeObject,
  type RunStrategy,
  resources,
  type VirtualMachine,
  type VirtualMachineInstance,
} from '../../../src/api/index.ts';
import { writeKubeconfig } from '../../../src/apiserver/index.ts';
import { silentLogger } from '../../../src/base/index.ts';
import { KubeClient, loadKubeAccess } from '../../../src/kube/index.ts';
import { KubeVmFeed, startVm, stopVm } from '../../../src/standalone/index.ts';
import { vmRow } from '../../../src/web/index.ts';
import { type EmbeddedApi, startEmbeddedApi } from '../../fixtures/embedded-api.ts';
import { eventually, settled, stays } from '../../fixtures/eventually.ts';

const ref = { namespace: 'default', name: 'one' };
const template = { spec: { domain: { devices: {}, memory: { guest: '64Mi' } } } };

describe('what the page shows and does', () => {
  let api: EmbeddedApi;
  let client: KubeClient;
  const signal = AbortSignal.timeout(120_000);

  beforeEach(async () => {
    api = await startEmbeddedApi();
    const access = await loadKubeAccess({ kubeconfig: api.kubeconfig });
    client = new KubeClient({ userAgent: 'test', retry: { attempts: 1 } }, { access });
  });
  afterEach(async () => {
    client.close();
    await api.stop();
  });

  function makeVm(spec: { runStrategy?: RunStrategy; running?: boolean }): Promise<VirtualMachine> {
    const head = { apiVersion: 'kubevirt.io/v1', kind: 'VirtualMachine', metadata: { ...ref } };
    return client.create<VirtualMachine>(resources.virtualMachines, { ...head, spec: { ...spec, template } });
  }

  function makeVmi(): Promise<VirtualMachineInstance> {
    const head = { apiVersion: 'kubevirt.io/v1', kind: 'VirtualMachineInstance', metadata: { ...ref } };
    return client.create<VirtualMachineInstance>(resources.virtualMachineInstances, { ...head, ...template });
  }

  const ended = (phase: string) =>
    api.controller.patch(
      `/apis/kubevirt.io/v1/namespaces/${ref.namespace}/virtualmachineinstances/${ref.name}`,
      'merge',
      { status: { phase } },
    );

  const vm = () => client.get<VirtualMachine>(resources.virtualMachines, ref);
  const requests = async () => (await vm()).status?.stateChangeRequests;
  const vmis = async () => (await client.list<KubeObject>(resources.virtualMachineInstances)).items.length;

  test('start switches a halted VM to Always, in the field that it uses, and asks the others to start once', async () => {
    await makeVm({ runStrategy: 'Halted' });
    await startVm(client, ref, signal);
    assert.equal((await vm()).spec.runStrategy, 'Always');
    await client.delete(resources.virtualMachines, ref);
    await makeVm({ running: false });
    await startVm(client, ref, signal);
    const { running, runStrategy } = (await vm()).spec;
    assert.deepEqual([running, runStrategy], [true, undefined]);
    await client.delete(resources.virtualMachines, ref);
    await makeVm({ runStrategy: 'Manual' });
    await startVm(client, ref, signal);
    assert.equal((await vm()).spec.runStrategy, 'Manual');
    assert.deepEqual(await requests(), [{ action: 'Start' }]);
    await assert.rejects(startVm(client, ref, signal), { message: /the last start or stop has not been done yet/ });
  });

  test('stop halts an Always VM, asks the others to stop this instance, and deletes an instance of its own', async () => {
    await makeVm({ runStrategy: 'Always' });
    await makeVmi();
    await stopVm(client, ref, signal);
    assert.equal((await vm()).spec.runStrategy, 'Halted');
    await client.patch(resources.virtualMachines, ref, { spec: { runStrategy: 'RerunOnFailure' } }, 'merge');
    const { uid } = (await client.get<KubeObject>(resources.virtualMachineInstances, ref)).metadata;
    await stopVm(client, ref, signal);
    assert.deepEqual(await requests(), [{ action: 'Stop', uid }]);
    await client.delete(resources.virtualMachines, ref);
    await stopVm(client, ref, signal);
    await eventually(async () => assert.equal(await vmis(), 0));
  });

  test('what cannot be started or stopped is refused in words', async () => {
    await assert.rejects(stopVm(client, ref, signal), {
      code: 'NOT_FOUND',
      message: 'there is no VirtualMachine default/one',
    });
    await assert.rejects(startVm(client, ref, signal), { code: 'NOT_FOUND', message: /there is no VirtualMachine/ });
    await makeVm({ runStrategy: 'Always' });
    await assert.rejects(startVm(client, ref, signal), { code: 'UNSUPPORTED', message: /being started already/ });
    await makeVmi();
    await assert.rejects(startVm(client, ref, signal), { code: 'UNSUPPORTED', message: /is started already/ });
  });

  for (const [runStrategy, phase, message] of [
    ['Always', 'Succeeded', /is being started already \(Always\)/],
    ['RerunOnFailure', 'Failed', /is being started already: it failed \(RerunOnFailure\)/],
    ['Once', 'Failed', /has run, and has the run strategy Once: .*kubectl delete vmi -n default one/],
    ['Once', undefined, /is being started already \(Once\)/],
  ] as const) {
    test(`${runStrategy} with ${phase ?? 'no instance'}: a start is refused in words`, async () => {
      await makeVm({ runStrategy });
      if (phase) {
        await makeVmi();
        await ended(phase);
      }
      await assert.rejects(startVm(client, ref, signal), { code: 'UNSUPPORTED', message });
    });
  }

  test('a halted VM with what is left of a run is started', async () => {
    await makeVm({ runStrategy: 'Halted' });
    await makeVmi();
    await ended('Succeeded');
    await startVm(client, ref, signal);
    assert.equal((await vm()).spec.runStrategy, 'Always');
  });

  test('a start by hand ends the back-off of starts that failed, and a stop takes the place of a start', async () => {
    await makeVm({ runStrategy: 'RerunOnFailure' });
    const startFailure = { consecutiveFailCount: 3, retryAfterTimestamp: '2100-01-01T00:00:00Z' };
    await client.patch(resources.virtualMachines, ref, { status: { startFailure } }, 'merge', {
      subresource: 'status',
    });
    await startVm(client, ref, signal);
    assert.equal((await vm()).status?.startFailure, undefined);
    await makeVmi();
    await stopVm(client, ref, signal);
    assert.deepEqual(
      (await requests())?.map(({ action }) => action),
      ['Stop'],
    );
  });

  test('the list follows VMs and instances, and says when it may be old', async () => {
    const feed = new KubeVmFeed({ client, log: silentLogger });
    await feed.start();
    try {
      assert.equal(feed.problem(), 'the list is being read');
      await eventually(() => assert.equal(feed.problem(), undefined));
      let changes = 0;
      const end = feed.onChange(() => changes++);
      await makeVm({ runStrategy: 'Manual' });
      await makeVmi();
      await eventually(() =>
        assert.deepEqual(
          feed.rows().map(({ name, vmi }) => [name, vmi?.phase]),
          [['one', 'Pending']],
        ),
      );
      assert.ok(changes >= 2);
      await client.delete(resources.virtualMachineInstances, ref);
      await eventually(() => assert.equal(feed.rows()[0]?.vmi, undefined));
      await api.stop();
      await eventually(() => assert.match(feed.problem() ?? '', /the Kubernetes API does not answer: /), 30_000);
      assert.equal(feed.rows().length, 1);
      end();
    } finally {
      await feed.stop();
      api = await startEmbeddedApi();
    }
  });
});

/** An API without TLS that answers what it is told to; ends with the test. */
async function playedApi(t: TestContext, answer: (url: string, response: ServerResponse) => void) {
  const server = createServer(({ url = '' }, response) => {
    response.setHeader('content-type', 'application/json');
    answer(url, response);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const dir = await mkdtemp(path.join(tmpdir(), 'page-feed-'));
  const kubeconfig = path.join(dir, 'kubeconfig');
  const address = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  await writeKubeconfig(kubeconfig, { server: address, ca: undefined, user: 'user', token: 'x' });
  const client = new KubeClient({ userAgent: 'test' }, { access: await loadKubeAccess({ kubeconfig }) });
  t.after(async () => {
    client.close();
    server.closeAllConnections();
    server.close();
    await rm(dir, { recursive: true, force: true });
  });
  return { client, server };
}

test('nothing is asked while nobody looks at the list, and at once when somebody does', async (t) => {
  const list = JSON.stringify({ kind: 'List', metadata: { resourceVersion: '1' }, items: [] });
  let asked = 0;
  const { client } = await playedApi(t, (url, response) => {
    if (url === '/readyz') asked++;
    if (url.includes('watch=')) response.flushHeaders();
    else response.end(url === '/readyz' ? 'ok' : list);
  });
  const feed = new KubeVmFeed({ client, log: silentLogger }, { checkMs: 20 });
  await feed.start();
  t.after(() => feed.stop());
  await eventually(() => assert.equal(feed.problem(), undefined));
  await stays(() => assert.equal(asked, 0), 200);
  const ends = [feed.onChange(() => undefined), feed.onChange(() => undefined)];
  await eventually(() => assert.ok(asked >= 3));
  ends[0]?.();
  const before = asked;
  await eventually(() => assert.ok(asked > before, 'one of two has left'));
  ends[1]?.();
  const left = await settled(() => asked, 200);
  await stays(() => assert.equal(asked, left), 200);
});

test('an API that takes requests and answers none is told, though its watches stand; when it answers again it is not, before anything changes', async (t) => {
  let hangs = false;
  let fails = false;
  const list = JSON.stringify({ kind: 'List', metadata: { resourceVersion: '1' }, items: [] });
  const hung = new Set<ServerResponse>();
  const { client, server } = await playedApi(t, (url, response) => {
    if (fails && url !== '/readyz') response.writeHead(500).end();
    else if (url.includes('watch=')) response.flushHeaders();
    else if (hangs) hung.add(response);
    else response.end(url === '/readyz' ? 'ok' : list);
  });
  const feed = new KubeVmFeed({ client, log: silentLogger }, { checkMs: 20, answerMs: 200 });
  try {
    await feed.start();
    await eventually(() => assert.equal(feed.problem(), undefined));
    let told = 0;
    feed.onChange(() => told++);
    hangs = true;
    await eventually(() => assert.match(feed.problem() ?? '', /takes requests and does not answer/));
    assert.ok(told > 0);
    hangs = false;
    for (const response of hung) response.end('ok');
    await eventually(() => assert.equal(feed.problem(), undefined));
    fails = true;
    server.closeAllConnections();
    await eventually(() => assert.match(feed.problem() ?? '', /the Kubernetes API does not answer: /), 15_000);
    fails = false;
    await eventually(() => assert.equal(feed.problem(), undefined), 15_000);
    // One that hangs and is killed then is away all the time.
    const problems = new Set<string | undefined>();
    hangs = true;
    await eventually(() => assert.match(feed.problem() ?? '', /takes requests and does not answer/));
    feed.onChange(() => problems.add(feed.problem()));
    server.close();
    server.closeAllConnections();
    await eventually(() => assert.match(feed.problem() ?? '', /the Kubernetes API does not answer: /), 15_000);
    assert.equal(problems.has(undefined), false);
  } finally {
    await feed.stop();
  }
});

describe('a row of the page', () => {
  const metadata = { namespace: 'n', name: 'v', uid: 'u', creationTimestamp: '2026-01-01T00:00:00Z' };
  const vmi: VirtualMachineInstance = {
    apiVersion: 'kubevirt.io/v1',
    kind: 'VirtualMachineInstance',
    metadata,
    spec: { domain: {} },
    status: {
      phase: 'Running',
      conditions: [{ type: 'Paused', status: 'True' }],
      interfaces: [{}, { ipAddress: '10.0.2.15' }],
      guestOSInfo: { prettyName: 'Debian 12' },
    },
  };
  const vm: VirtualMachine = {
    apiVersion: 'kubevirt.io/v1',
    kind: 'VirtualMachine',
    metadata: { ...metadata, creationTimestamp: '2025-01-01T00:00:00Z' },
    spec: { running: true, template: { spec: { domain: {} } } },
    status: { printableStatus: 'Paused', conditions: [{ type: 'Ready', status: 'False' }] },
  };
  const instance = { uid: 'u', phase: 'Running', paused: true, ip: '10.0.2.15', guestOs: 'Debian 12' };

  test('of an instance alone has its phase, and no strategy', () => {
    const row = vmRow(undefined, vmi);
    assert.deepEqual([row?.status, row?.vmi, row && 'runStrategy' in row], ['Running', instance, false]);
  });

  test('of both has the status and the age of the VM, and the conditions of the instance', () => {
    const row = vmRow(vm, vmi);
    assert.deepEqual([row?.status, row?.runStrategy, row?.createdAt], ['Paused', 'Always', '2025-01-01T00:00:00Z']);
    assert.deepEqual(row?.conditions, vmi.status?.conditions);
  });

  test('of a VM alone, also one without a status yet, is stopped', () => {
    const { status: _none, ...bare } = vm;
    assert.deepEqual([vmRow(bare, undefined)?.status, vmRow(bare, undefined)?.vmi], ['Stopped', undefined]);
    assert.equal(vmRow(undefined, undefined), undefined);
  });
});
