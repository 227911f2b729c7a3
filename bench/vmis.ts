import { labels, resources, type VirtualMachineInstance, type VmiPhase, type Volume } from '../src/api/index.ts';
import { Informer, type KubeClient } from '../src/kube/index.ts';
import { monotonicMs } from '../test/fixtures/scripted-launcher-fleet.ts';
import { waitFor } from './waiting.ts';

const type = resources.virtualMachineInstances;

export interface VmiParts {
  readonly metadata: object;
  readonly cpuModel: string;
  readonly runtimeUser: number;
  readonly volumes: readonly Volume[];
  /** Without one nothing is done inside of the launcher's namespaces, and all is about the loop. */
  readonly network?: VmiNetwork;
}

export type VmiNetwork = 'none' | 'masquerade';

/** A VMI as virt-controller hands it over, but for phase and label; a virtio disk for each of its volumes. */
export function vmiOf(
  namespace: string,
  name: string,
  { metadata, cpuModel, runtimeUser, volumes, network = 'none' }: VmiParts,
): VirtualMachineInstance {
  const annotations = { 'kubevirt.io/latest-observed-api-version': 'v1' };
  return {
    apiVersion: 'kubevirt.io/v1',
    kind: 'VirtualMachineInstance',
    metadata: { name, namespace, annotations, ...metadata },
    spec: {
      architecture: 'amd64',
      terminationGracePeriodSeconds: 30,
      domain: {
        machine: { type: 'q35' },
        cpu: { cores: 1, sockets: 1, threads: 1, model: cpuModel },
        memory: { guest: '512Mi' },
        resources: { requests: { memory: '512Mi' } },
        firmware: { uuid: '5d307ca9-b3ef-428c-8861-06e72d69f223' },
        devices: {
          disks: volumes.map((volume) => ({ name: volume.name, disk: { bus: 'virtio' } })),
          ...(network === 'none'
            ? { autoattachPodInterface: false }
            : { interfaces: [{ name: 'default', masquerade: {} }] }),
        },
      },
      ...(network !== 'none' && { networks: [{ name: 'default', pod: {} }] }),
      volumes: [...volumes],
    },
    status: { phase: 'Scheduling', guestOSInfo: {}, runtimeUser, qosClass: 'Burstable' },
  };
}

/** Its pod is `pod-<name>`. */
export function newVmi(namespace: string, name: string, network: VmiNetwork = 'none'): VirtualMachineInstance {
  return vmiOf(namespace, name, {
    metadata: {},
    cpuModel: 'host-model',
    runtimeUser: 0,
    network,
    volumes: [
      { name: 'root', emptyDisk: { capacity: '1Gi' } },
      { name: 'cloudinit', cloudInitNoCloud: { userData: '#cloud-config\nhostname: bench\n' } },
    ],
  });
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

/** When each VMI of a namespace was first seen in each phase, by an informer, which survives a watch that breaks. */
export class PhaseTimes {
  readonly #informer: Informer<VirtualMachineInstance>;
  readonly #seen = new Map<string, Map<string, number>>();

  constructor(client: KubeClient, namespace: string) {
    this.#informer = new Informer({ type, namespace }, { client });
    const see = (vmi: VirtualMachineInstance) => this.#see(vmi);
    this.#informer.addHandlers({ added: see, updated: (_old, vmi) => see(vmi) });
  }

  async start(): Promise<void> {
    await this.#informer.start();
    await this.#informer.waitForSync();
    await waitFor('the watch of the bench', 30_000, async () => this.#informer.health.isConnected || undefined);
  }

  /** Monotonic; undefined: not yet. */
  at(name: string, phase: VmiPhase): number | undefined {
    return this.#seen.get(name)?.get(phase);
  }

  stop(): Promise<void> {
    return this.#informer.stop();
  }

  #see({ metadata, status }: VirtualMachineInstance): void {
    const now = monotonicMs();
    const name = metadata.name ?? '';
    const phases = this.#seen.get(name) ?? new Map<string, number>();
    this.#seen.set(name, phases);
    const phase = status?.phase ?? '';
    if (!phases.has(phase)) phases.set(phase, now);
  }
}
