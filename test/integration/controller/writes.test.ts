import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import {
  finalizers,
  type KubeObject,
  type ResourceType,
  resources,
  type VirtualMachine,
  type VirtualMachineInstance,
} from '../../../src/api/index.ts';
import { memberAt, sleep } from '../../../src/base/index.ts';
import {
  type KubeAccess,
  KubeClient,
  type RawRequest,
  type WatchEvent,
  type WatchOptions,
} from '../../../src/kube/index.ts';
import { Cluster, embeddedApi } from '../../fixtures/controller/cluster.ts';
import { PlayedNode } from '../../fixtures/controller/played-node.ts';

/** Pods are shown late, as on a busy API server: VMIs wake the controller meanwhile. */
const podsLateMs = 300;
/** Less than what is only told waits, more than two answers of the API take. */
const podTakesMs = 100;

/** Keeps each request that changes something, and sees pods late. */
class CountingClient extends KubeClient {
  readonly writes: RawRequest[] = [];

  constructor(access: KubeAccess) {
    super({ userAgent: 'counted', rateLimit: { qps: 1000, burst: 1000 } }, { access });
  }

  override async raw<T>(request: RawRequest): Promise<T> {
    if (request.method === 'POST' && /\/pods$/.test(request.path)) await this.#untilMoreIsTold();
    if (request.method !== 'GET') this.writes.push(request);
    return super.raw<T>(request);
  }

  async #untilMoreIsTold(): Promise<void> {
    const statuses = () => this.of('PUT', /virtualmachines\/[^/]+\/status$/).length;
    const [before, end] = [statuses(), Date.now() + podTakesMs];
    while (statuses() === before && Date.now() < end) await sleep(5);
  }

  override async *watch<T extends KubeObject>(
    type: ResourceType,
    options: WatchOptions,
  ): AsyncGenerator<WatchEvent<T>, void, undefined> {
    for await (const event of super.watch<T>(type, options)) {
      if (type === resources.pods) await sleep(podsLateMs);
      yield event;
    }
  }

  of(method: string, path: RegExp): RawRequest[] {
    return this.writes.filter((write) => write.method === method && path.test(write.path));
  }
}

let cluster: Cluster;
let node: PlayedNode;
let client: CountingClient;
before(async () => {
  const api = await embeddedApi();
  cluster = new Cluster(api);
  client = new CountingClient(api.access);
  node = new PlayedNode(cluster.client, 'node1');
  await node.start();
  await cluster.startController(client);
});
after(async () => {
  await node?.stop();
  await cluster?.stop();
  client?.close();
});

const phasesPut = (name: string) =>
  client
    .of('PUT', new RegExp(`virtualmachineinstances/${name}$`))
    .map(({ body }) => (body as VirtualMachineInstance).status?.phase);

test('a start of a VM writes nothing twice, and tells nothing of the VM that its next write takes back', async () => {
  await cluster.client.create<VirtualMachine>(resources.virtualMachines, {
    ...{ apiVersion: 'kubevirt.io/v1', kind: 'VirtualMachine', metadata: { name: 'one', namespace: 'default' } },
    spec: { runStrategy: 'Always', template: { spec: { domain: { memory: { guest: '64Mi' } } } } },
  });
  await cluster.until<VirtualMachine>(
    resources.virtualMachines,
    'one',
    'ready',
    ({ status }) => status?.ready === true,
  );
  const [pod] = node.pods;
  const patches = client
    .of('PATCH', /\/pods\//)
    .map(({ path, body }) => [path.split('/').at(-1), JSON.stringify(body)]);
  assert.deepEqual(
    patches.map(([last]) => last),
    ['status'],
    `the gate and the node's name: ${JSON.stringify(patches)}`,
  );
  assert.equal(pod?.metadata.labels?.['kubevirt.io/nodeName'], 'node1');
  const told = client.of('PUT', /virtualmachines\/one\/status$/).map(({ body }) => (body as VirtualMachine).status);
  assert.deepEqual(
    told.filter((status) => !status?.created),
    [],
  );
  assert.deepEqual(phasesPut('one'), ['Pending', 'Scheduling', 'Scheduled'], 'nobody else admits VMIs here');
  assert.equal(client.of('PATCH', /virtualmachineinstances\/one$/).length, 1, 'it is ready');
  await cluster.client.create<VirtualMachine>(resources.virtualMachines, {
    ...{ apiVersion: 'kubevirt.io/v1', kind: 'VirtualMachine', metadata: { name: 'next', namespace: 'default' } },
    spec: { runStrategy: 'Always', template: { spec: { domain: { memory: { guest: '64Mi' } } } } },
  });
  const type = resources.virtualMachines;
  await cluster.until<VirtualMachine>(type, 'next', 'ready', ({ status }) => status?.ready === true);
  assert.deepEqual(phasesPut('next'), ['Scheduling', 'Scheduled'], 'it is made Pending');
  const statuses = client.of('PUT', /virtualmachines\/next\/status$/);
  assert.ok(statuses.length <= 3, `it starts, it runs, and perhaps that it is not ready yet: ${statuses.length}`);
  const vmi = await cluster.find<VirtualMachineInstance>(resources.virtualMachineInstances, 'next');
  assert.deepEqual(
    vmi?.status?.phaseTransitionTimestamps?.map(({ phase }) => phase),
    ['Pending', 'Scheduling', 'Scheduled', 'Running'],
  );
  assert.deepEqual(vmi?.metadata.finalizers, [finalizers.vm, finalizers.vmi]);
  assert.deepEqual(node.problems, []);
});

test('that a request to start was followed is recorded before the VMI is handed over: a guest that shuts down at once is not started again', async () => {
  const type = resources.virtualMachines;
  const metadata = { name: 'two', namespace: 'default' };
  await cluster.client.create<VirtualMachine>(type, {
    ...{ apiVersion: 'kubevirt.io/v1', kind: 'VirtualMachine', metadata },
    spec: { runStrategy: 'Manual', template: { spec: { domain: { memory: { guest: '64Mi' } } } } },
  });
  await cluster.until<VirtualMachine>(type, 'two', 'seen', ({ status }) => status?.printableStatus === 'Stopped');
  const request = { status: { stateChangeRequests: [{ action: 'Start' }] } };
  await cluster.client.patch(type, metadata, request, 'merge', { subresource: 'status' });
  await cluster.until<VirtualMachine>(type, 'two', 'ready', ({ status }) => status?.ready === true);
  const places = (method: string, path: RegExp) =>
    client.of(method, path).map((write) => ({ at: client.writes.indexOf(write), body: write.body as VirtualMachine }));
  const [made] = places('POST', /virtualmachineinstances$/).filter(({ body }) => body.metadata.name === 'two');
  const told = places('PUT', /virtualmachines\/two\/status$/).filter(({ at }) => at > (made?.at ?? Infinity));
  assert.equal(told[0]?.body.status?.stateChangeRequests, undefined);
  const given = places('PUT', /virtualmachineinstances\/two$/).filter(
    ({ body }) => memberAt(body, 'status', 'phase') === 'Scheduled',
  );
  const givenAt = given[0]?.at ?? 0;
  assert.ok((told[0]?.at ?? Infinity) < givenAt, `told as write ${told[0]?.at}, not before ${givenAt}`);
});
