import assert from 'node:assert/strict';
import {
  findCondition,
  isMigrationTarget,
  type KubeObject,
  labels,
  type MigrationState,
  type Pod,
  type ResourceType,
  resources,
  type VirtualMachine,
  type VirtualMachineInstance,
  type VirtualMachineInstanceMigration,
} from '../../src/api/index.ts';
import { sleep } from '../../src/base/index.ts';
import { getIfThere, type KubeClient } from '../../src/kube/index.ts';
import { vmSpec } from './controller-scenes.ts';
import { synchronizationAddress } from './synchronization-controller.ts';

type Migration = VirtualMachineInstanceMigration;
type Vmi = VirtualMachineInstance;
type Place = 'here' | 'there';

const { virtualMachines, virtualMachineInstances, migrations } = resources;
const lookMs = 100;
const targetAddress = '10.0.0.2';
const ports = { '40001': 0, '40002': 49152 };
const now = () => new Date().toISOString().replace(/\.\d+/, '');

interface MoveOptions {
  /** Of both VMs. */
  readonly spec?: (runStrategy: string) => object;
  /** False: there are real ones, and what they would say is not played. */
  readonly playsAgents?: boolean;
  /** For each wait. */
  readonly limitMs?: number;
}

/** A VM in one namespace and one that waits for its guest in another: what people, agents and kubelets do to move it, one act after the other. */
export class GuestMove {
  readonly #client: KubeClient;
  readonly #id: string;
  readonly #limitMs: number;

  private constructor(client: KubeClient, id: string, limitMs: number) {
    this.#client = client;
    this.#id = id;
    this.#limitMs = limitMs;
  }

  /** The guest runs here, and is waited for there. */
  static async begin(
    client: KubeClient,
    id: string,
    { spec = vmSpec, playsAgents = true, limitMs = 45_000 }: MoveOptions = {},
  ): Promise<GuestMove> {
    const move = new GuestMove(client, id, limitMs);
    for (const place of ['here', 'there'] as const) {
      const namespace = { apiVersion: 'v1', kind: 'Namespace', metadata: { name: move.#namespace(place) } };
      await client.create(resources.namespaces, namespace);
    }
    await move.#createVm('here', spec('Always'), {});
    await move.#createVm('there', spec('WaitAsReceiver'), { 'kubevirt.io/restore-run-strategy': 'Always' });
    await move.vm('here', 'runs', ({ status }) => status?.printableStatus === 'Running');
    if (playsAgents) await move.#report('here', { selinuxContext: 'none' });
    await move.vm('there', 'waits', ({ status }) => status?.printableStatus === 'WaitingForReceiver');
    return move;
  }

  #namespace(place: Place): string {
    return `${this.#id}-${place}`;
  }

  async #createVm(place: Place, spec: object, annotations: Record<string, string>): Promise<void> {
    await this.#client.create<KubeObject>(virtualMachines, {
      ...{ apiVersion: 'kubevirt.io/v1', kind: virtualMachines.kind },
      metadata: { name: 'vm', namespace: this.#namespace(place), annotations },
      spec,
    } as KubeObject);
  }

  /** Half of a migration. */
  async ask(
    place: Place,
    name = 'move',
    migrationID = this.#id,
    annotations: Record<string, string> = {},
  ): Promise<void> {
    const half =
      place === 'here' ? { sendTo: { migrationID, connectURL: synchronizationAddress } } : { receive: { migrationID } };
    await this.#client.create<Migration>(migrations, {
      ...{ apiVersion: 'kubevirt.io/v1', kind: migrations.kind },
      // As virt-api's webhook makes them.
      metadata: {
        name,
        namespace: this.#namespace(place),
        labels: { [labels.migrationVmi]: 'vm' },
        finalizers: ['kubevirt.io/migrationJobFinalize'],
        annotations,
      },
      spec: { vmiName: 'vm', ...half },
    });
  }

  async askBoth(name = 'move'): Promise<void> {
    await this.ask('there', name);
    await this.ask('here', name);
  }

  async cancel(place: Place, name = 'move'): Promise<void> {
    await this.#client.delete(migrations, { namespace: this.#namespace(place), name });
  }

  /** The target's agent can be seen to be asked. */
  async handedOver(): Promise<Vmi> {
    return this.vmi('there', 'handed over', ({ metadata, status }) => {
      return (
        metadata.labels?.[labels.migrationTargetNodeName] === 'node2' && Boolean(status?.migrationState?.targetPod)
      );
    });
  }

  /** The target's agent listens, and the source knows it. */
  async prepared(): Promise<void> {
    await this.#reportState('there', {
      targetNodeAddress: targetAddress,
      targetDirectMigrationNodePorts: ports,
      targetState: { nodeAddress: targetAddress, directMigrationNodePorts: ports },
    });
    await this.vmi('here', 'prepared', ({ status }) => status?.migrationState?.targetNodeAddress === targetAddress);
    await this.migration('here', 'ready', ({ status }) => status?.phase === 'TargetReady');
    await this.migration('there', 'ready', ({ status }) => status?.phase === 'TargetReady');
  }

  /** The source's agent has begun. */
  async moving(): Promise<void> {
    await this.#reportState('here', { startTimestamp: now(), mode: 'PreCopy' });
    await this.vmi('there', 'moving', ({ status }) => status?.migrationState?.startTimestamp !== undefined);
    for (const place of ['here', 'there'] as const)
      await this.migration(place, 'moving', ({ status }) => status?.phase === 'Running');
  }

  /** The guest runs on the target; the source's agent has heard of it. */
  async arrived(): Promise<void> {
    const time = now();
    const migrationState = {
      ...{ completed: true, endTimestamp: time, targetNodeDomainReadyTimestamp: time, targetNodeDomainDetected: true },
      targetState: { domainDetected: true, domainReadyTimestamp: time },
    };
    await this.#report(
      'there',
      { phase: 'Running', nodeName: 'node2', migrationState },
      {
        annotations: { 'kubevirt.io/create-migration-target': null },
        labels: { [labels.nodeName]: 'node2', [labels.migrationTargetNodeName]: null },
      },
    );
    await this.vmi('here', 'told of its end', ({ status }) => status?.migrationState?.completed === true);
    const pod = (await this.vmi('here', 'there', () => true)).status?.migrationState?.sourcePod ?? '';
    await this.#client.patch(
      resources.pods,
      { namespace: this.#namespace('here'), name: pod },
      { status: { phase: 'Succeeded' } },
      'merge',
      { subresource: 'status' },
    );
  }

  /** The source's agent has ended it. */
  async aborted(): Promise<void> {
    await this.vmi('here', 'to be aborted', ({ status }) => status?.migrationState?.abortRequested === true);
    const ended = { failed: true, completed: true, endTimestamp: now(), abortStatus: 'Succeeded' };
    await this.#reportState('here', { ...ended, failureReason: 'aborted' });
  }

  /** The target's agent has let go of all it prepared for a guest that does not come. */
  async tidiedUp(): Promise<void> {
    await this.vmi('there', 'told of the failure', ({ status }) => status?.migrationState?.failed === true);
    await this.#report('there', {}, { labels: { [labels.migrationTargetNodeName]: null } });
  }

  /** It runs there alone, and both VMs say what is so. */
  async settled(): Promise<void> {
    await this.migration('there', 'over', ({ status }) => status?.phase === 'Succeeded');
    await this.vm(
      'here',
      'halted',
      ({ spec, status }) => spec.runStrategy === 'Halted' && status?.printableStatus === 'Stopped',
    );
    await this.vm(
      'there',
      'runs',
      ({ spec, status }) => spec.runStrategy === 'Always' && status?.printableStatus === 'Running',
    );
    const there = await this.vmi('there', 'runs', ({ status }) => status?.phase === 'Running');
    assert.equal(isMigrationTarget(there), false);
    await this.gone('here', virtualMachineInstances);
    const source = await this.find<Migration>(migrations, 'here', 'move');
    assert.match(source?.status?.phase ?? 'gone with its VMI', /^Succeeded$|^gone/);
  }

  vm(place: Place, what: string, holds: (vm: VirtualMachine) => boolean): Promise<VirtualMachine> {
    return this.#until(virtualMachines, place, 'vm', what, holds);
  }

  vmi(place: Place, what: string, holds: (vmi: Vmi) => boolean): Promise<Vmi> {
    return this.#until(virtualMachineInstances, place, 'vm', what, holds);
  }

  migration(place: Place, what: string, holds: (migration: Migration) => boolean, name = 'move'): Promise<Migration> {
    return this.#until(migrations, place, name, what, holds);
  }

  /** What it says it waits for. */
  async blocked(place: Place, words: RegExp): Promise<void> {
    await this.migration(place, `says ${words}`, ({ status }) => {
      const { status: is, message = '' } = findCondition(status?.conditions, 'decentralizedMigrationBlocked') ?? {};
      return is === 'True' && words.test(message);
    });
  }

  async gone(place: Place, type: ResourceType = migrations): Promise<void> {
    const name = type === migrations ? 'move' : 'vm';
    await this.#wait(`${type.kind} ${name} gone ${place}`, async () => {
      return (await this.#find(type, place, name)) ? undefined : true;
    });
  }

  async pods(place: Place): Promise<Pod[]> {
    return (await this.#client.list<Pod>(resources.pods, { namespace: this.#namespace(place) })).items;
  }

  find<T extends KubeObject>(type: ResourceType, place: Place, name = 'vm'): Promise<T | undefined> {
    return this.#find<T>(type, place, name);
  }

  #find<T extends KubeObject>(type: ResourceType, place: Place, name: string): Promise<T | undefined> {
    const signal = AbortSignal.timeout(this.#limitMs);
    return getIfThere<T>(this.#client, type, { namespace: this.#namespace(place), name }, { signal });
  }

  #reportState(place: Place, migrationState: MigrationState): Promise<void> {
    return this.#report(place, { migrationState });
  }

  /** What an agent writes. */
  async #report(place: Place, status: object, metadata: object = {}): Promise<void> {
    const target = { namespace: this.#namespace(place), name: 'vm' };
    await this.#client.patch(virtualMachineInstances, target, { metadata, status }, 'merge');
  }

  async #until<T extends KubeObject>(
    type: ResourceType,
    place: Place,
    name: string,
    what: string,
    holds: (object: T) => boolean,
  ): Promise<T> {
    let last: T | undefined;
    const found = await this.#wait(undefined, async () => {
      last = await this.#find<T>(type, place, name);
      return last && holds(last) ? last : undefined;
    });
    if (found) return found;
    const { metadata, status } = (last ?? {}) as { metadata?: object; status?: object };
    const seen = JSON.stringify({ metadata: { ...metadata, managedFields: undefined }, status });
    throw new Error(`${type.kind} ${name} ${place}: not "${what}", but ${seen}`);
  }

  /** Undefined after the limit, unless it has a name: then that is an error. */
  async #wait<T>(what: string | undefined, look: () => Promise<T | undefined>): Promise<T | undefined> {
    const end = performance.now() + this.#limitMs;
    for (;;) {
      const found = await look();
      if (found !== undefined) return found;
      if (performance.now() > end) {
        if (what === undefined) return undefined;
        throw new Error(`${what}: not in ${this.#limitMs} ms`);
      }
      await sleep(lookMs);
    }
  }
}
