import { keyOf, labels, resources, type VirtualMachineInstance, type VmiPhase } from '../src/api/index.ts';
import type { KubeClient } from '../src/kube/index.ts';
import { monotonicMs } from '../test/fixtures/scripted-launcher-fleet.ts';

const type = resources.virtualMachineInstances;

/**
 * A VMI as virt-controller hands it over, but for phase and label; its pod is `pod-<name>`. Without a network: agents differ in
 * what they do for one inside the launcher's namespaces, and this is about the loop.
 */
export function newVmi(namespace: string, name: string): VirtualMachineInstance {
  return {
    apiVersion: 'kubevirt.io/v1',
    kind: 'VirtualMachineInstance',
    metadata: { name, namespace, annotations: { 'kubevirt.io/latest-observed-api-version': 'v1' } },
    spec: {
      architecture: 'amd64',
      terminationGracePeriodSeconds: 30,
      domain: {
        machine: { type: 'q35' },
        cpu: { cores: 1, sockets: 1, threads: 1, model: 'host-model' },
        memory: { guest: '512Mi' },
        resources: { requests: { memory: '512Mi' } },
        firmware: { uuid: '5d307ca9-b3ef-428c-8861-06e72d69f223' },
        devices: {
          disks: [
            { name: 'root', disk: { bus: 'virtio' } },
            { name: 'cloudinit', disk: { bus: 'virtio' } },
          ],
          autoattachPodInterface: false,
        },
      },
      volumes: [
        { name: 'root', emptyDisk: { capacity: '1Gi' } },
        { name: 'cloudinit', cloudInitNoCloud: { userData: '#cloud-config\nhostname: bench\n' } },
      ],
    },
    status: { phase: 'Scheduling', guestOSInfo: {}, runtimeUser: 0, qosClass: 'Burstable' },
  } as VirtualMachineInstance;
}

export const podUidOf = (name: string) => `pod-${name}`;

/** Runs `work` for each item, `parallel` at a time. */
export async function forEach<T>(
  items: readonly T[],
  parallel: number,
  work: (item: T) => Promise<unknown>,
): Promise<void> {
  const rest = [...items];
  const next = async () => {
    for (let item = rest.shift(); item !== undefined; item = rest.shift()) await work(item);
  };
  await Promise.all(Array.from({ length: parallel }, next));
}

export function createVmis(admin: KubeClient, vmis: readonly VirtualMachineInstance[]): Promise<void> {
  return forEach(vmis, 16, (vmi) => admin.create(type, vmi));
}

export function deleteVmis(admin: KubeClient, namespace: string, names: readonly string[]): Promise<void> {
  return forEach(names, 16, (name) => admin.delete(type, { namespace, name }).catch(() => undefined));
}

/** The hand-over: label and phase in one write. */
export async function schedule(admin: KubeClient, namespace: string, name: string, nodeName: string): Promise<void> {
  const status = { phase: 'Scheduled', nodeName, activePods: { [podUidOf(name)]: nodeName } };
  const patch = { metadata: { labels: { [labels.nodeName]: nodeName } }, status };
  await admin.patch(type, { namespace, name }, patch, 'merge');
}

/** When each VMI of a namespace was first seen in each phase, by a watch. */
export class PhaseTimes {
  readonly #admin: KubeClient;
  readonly #namespace: string;
  readonly #seen = new Map<string, Map<string, number>>();
  readonly #stopping = new AbortController();
  #loop: Promise<void> | undefined;
  #failure: unknown;

  constructor(admin: KubeClient, namespace: string) {
    this.#admin = admin;
    this.#namespace = namespace;
  }

  async start(): Promise<void> {
    const { resourceVersion } = await this.#admin.list(type, { namespace: this.#namespace });
    await new Promise<void>((opened, reject) => {
      this.#loop = this.#follow(resourceVersion, opened).catch((error: unknown) => {
        this.#failure = error;
        reject(error);
      });
    });
  }

  /** Monotonic; undefined: not yet. */
  at(name: string, phase: VmiPhase): number | undefined {
    return this.#seen.get(name)?.get(phase);
  }

  /** Throws when the watch broke: what it did not see proves nothing. */
  count(phase: VmiPhase): number {
    if (this.#failure !== undefined) throw new Error('the watch of the bench broke', { cause: this.#failure });
    return [...this.#seen.values()].filter((phases) => phases.has(phase)).length;
  }

  async stop(): Promise<void> {
    this.#stopping.abort(new Error('enough'));
    await this.#loop;
  }

  async #follow(resourceVersion: string, onOpen: () => void): Promise<void> {
    const { signal } = this.#stopping;
    const options = { namespace: this.#namespace, resourceVersion, signal, onOpen };
    for await (const event of this.#admin.watch<VirtualMachineInstance>(type, options)) {
      if (event.type !== 'ADDED' && event.type !== 'MODIFIED') continue;
      const now = monotonicMs();
      const name = event.object.metadata.name ?? keyOf(event.object);
      const phase = event.object.status?.phase ?? '';
      const phases = this.#seen.get(name) ?? new Map<string, number>();
      this.#seen.set(name, phases);
      if (!phases.has(phase)) phases.set(phase, now);
    }
  }
}
