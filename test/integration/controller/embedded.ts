import { randomUUID } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { Condition, KubeObject, Pod, ResourceType, VirtualMachineInstance } from '../../../src/api/index.ts';
import { resources } from '../../../src/api/index.ts';
import { ApiServer } from '../../../src/apiserver/index.ts';
import { silentLogger } from '../../../src/base/index.ts';
import { Controller } from '../../../src/controller/index.ts';
import { type Credentials, isKubeError, KubeClient } from '../../../src/kube/index.ts';

export const token = 'integration-admin-token';

export function bearer(value: string): Credentials {
  return { current: async () => ({ headers: { authorization: `Bearer ${value}` } }), invalidate: () => false };
}

/** The embedded API on a free port, a client of an administrator, and controllers that a test may kill and start. */
export class Cluster {
  readonly client: KubeClient;
  readonly server: string;
  readonly #api: ApiServer;
  readonly #dir: string;
  #controller: Controller | undefined;

  private constructor(api: ApiServer, dir: string, server: string) {
    this.#api = api;
    this.#dir = dir;
    this.server = server;
    this.client = new KubeClient(
      { userAgent: 'test', rateLimit: { qps: 1000, burst: 1000 } },
      { access: { server, credentials: bearer(token) } },
    );
  }

  static async start(): Promise<Cluster> {
    const dir = await mkdtemp(path.join(tmpdir(), 'controller-test-'));
    const user = { token, user: 'admin', groups: ['system:masters'] };
    const api = new ApiServer(
      { dataDir: dir, host: '127.0.0.1', port: 0, tls: undefined, tokens: [user] },
      { log: silentLogger },
    );
    const { port } = await api.start();
    return new Cluster(api, dir, `http://127.0.0.1:${port}`);
  }

  async startController(): Promise<void> {
    const config = { launcherImage: 'virt-launcher', runtimeUser: 0, architecture: 'amd64' };
    this.#controller = new Controller(
      { config, vmWorkers: 2, vmiWorkers: 2, standaloneScheduler: true },
      { client: this.client, log: silentLogger, randomUuid: randomUUID },
    );
    await this.#controller.start(AbortSignal.timeout(10_000));
  }

  async stopController(): Promise<void> {
    await this.#controller?.stop();
    this.#controller = undefined;
  }

  async stop(): Promise<void> {
    await this.stopController();
    this.client.close();
    await this.#api.stop();
    await rm(this.#dir, { recursive: true, force: true });
  }

  async addNode(name = 'node1', labels: Record<string, string> = { 'kubevirt.io/schedulable': 'true' }): Promise<void> {
    await this.client.create(resources.nodes, {
      apiVersion: 'v1',
      kind: 'Node',
      metadata: { name, labels: { 'kubernetes.io/arch': 'amd64', ...labels } },
    });
  }

  /** Waits until `type` shows an object of which `holds` is true. */
  async until<T extends KubeObject>(
    type: ResourceType,
    name: string,
    what: string,
    holds: (object: T) => boolean,
  ): Promise<T> {
    let last: T | undefined;
    const end = Date.now() + 10_000;
    while (Date.now() < end) {
      last = await this.find<T>(type, name);
      if (last && holds(last)) return last;
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
    throw new Error(
      `${type.kind} ${name}: not "${what}" in 10 s, but ${JSON.stringify(last?.metadata)} ${JSON.stringify(last && 'status' in last ? last.status : undefined)}`,
    );
  }

  untilVmi(name: string, what: string, holds: (vmi: VirtualMachineInstance) => boolean) {
    return this.until<VirtualMachineInstance>(resources.virtualMachineInstances, name, what, holds);
  }

  untilPhase(name: string, phase: string) {
    return this.untilVmi(name, phase, ({ status }) => status?.phase === phase);
  }

  async untilGone(type: ResourceType, name: string): Promise<void> {
    const end = Date.now() + 10_000;
    while (await this.find(type, name)) {
      if (Date.now() > end) throw new Error(`${type.kind} ${name} is still there after 10 s`);
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }

  async find<T extends KubeObject>(type: ResourceType, name: string): Promise<T | undefined> {
    try {
      return await this.client.get<T>(type, { namespace: type.namespaced ? 'default' : undefined, name });
    } catch (error) {
      if (isKubeError(error, 'NOT_FOUND')) return undefined;
      throw error;
    }
  }

  async pods(vmiUid: string): Promise<Pod[]> {
    const list = await this.client.list<Pod>(resources.pods, { labelSelector: `kubevirt.io/created-by=${vmiUid}` });
    return list.items;
  }

  async untilPod(vmiUid: string, what: string, holds: (pod: Pod) => boolean): Promise<Pod> {
    const end = Date.now() + 10_000;
    for (;;) {
      const [pod] = await this.pods(vmiUid);
      if (pod && holds(pod)) return pod;
      if (Date.now() > end) throw new Error(`pod of ${vmiUid}: not "${what}" in 10 s, but ${JSON.stringify(pod)}`);
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }

  /** What a kubelet writes. */
  async setPodStatus(pod: Pod, status: NonNullable<Pod['status']>): Promise<void> {
    await this.client.patch(resources.pods, pod.metadata, { status }, 'merge', { subresource: 'status' });
  }

  async runPod(pod: Pod): Promise<void> {
    const ready: Condition = { type: 'Ready', status: 'True' };
    await this.setPodStatus(pod, {
      phase: 'Running',
      conditions: [...(pod.status?.conditions ?? []), ready],
      containerStatuses: [computeStatus({ running: { startedAt: '2026-01-01T00:00:00Z' } })],
    });
  }

  /** Events are written behind the change they tell of. */
  async untilEvent(name: string, reason: string): Promise<void> {
    const type = resources.events;
    const fieldSelector = `involvedObject.name=${name},reason=${reason}`;
    const end = Date.now() + 10_000;
    while ((await this.client.list(type, { namespace: 'default', fieldSelector })).items.length === 0) {
      if (Date.now() > end) throw new Error(`no event ${reason} of ${name} in 10 s`);
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }
}

export function computeStatus(
  state: NonNullable<NonNullable<Pod['status']>['containerStatuses']>[number]['state'],
): NonNullable<NonNullable<Pod['status']>['containerStatuses']>[number] {
  return {
    name: 'compute',
    ...(state ? { state } : {}),
    ready: state?.running !== undefined,
    restartCount: 0,
    image: 'virt-launcher',
    imageID: 'virt-launcher',
  };
}
