import {
  isFinalMigration,
  keyOf,
  labels,
  resources,
  type VirtualMachineInstanceMigration,
} from '../../../src/api/index.ts';
import { silentLogger } from '../../../src/base/index.ts';
import { Controller } from '../../../src/controller/index.ts';
import { Chance } from '../engine/chance.ts';
import { type Life, newLife, Scheduler, SimClock, type Wall } from '../engine/scheduler.ts';
import { Trace } from '../engine/trace.ts';
import { simClient, type Trouble } from './client.ts';
import { HalvesActors } from './halves-agents.ts';
import { ClusterStore, type Loose } from './store.ts';

const { migrations, pods, virtualMachineInstances: vmis, virtualMachines: vms } = resources;
const guests = 4;
const places = ['here', 'there'] as const;
const address = 'target:9185';

/** One seeded cluster of two namespaces between which guests move: controllers that are killed, halves that are missing, cancelled or do not reach each other. */
export class HalvesWorld {
  readonly #chance: Chance;
  readonly #trace = new Trace();
  readonly #wall: Wall = { epochMs: Date.parse('2026-01-01T00:00:00Z') };
  readonly #scheduler: Scheduler;
  readonly #store: ClusterStore;
  readonly #actors: HalvesActors;
  readonly #life = newLife('world');
  readonly #trouble: Trouble;
  readonly #problems: string[] = [];
  #controller: Life | undefined;
  #failRate: number;
  #isSynchronizing = true;
  #named = 0;

  constructor(seed: number) {
    this.#chance = new Chance(seed);
    const chance = this.#chance;
    this.#scheduler = new Scheduler(chance, this.#trace);
    const clock = new SimClock(this.#scheduler, chance, this.#wall, this.#life);
    this.#store = new ClusterStore(() => clock.now());
    this.#failRate = chance.pick([0, 0.02, 0.1]);
    this.#trouble = {
      errorRate: chance.pick([0, 0.02, 0.15]),
      lostRate: chance.pick([0, 0.02, 0.15]),
      watchDelayMs: chance.pick([0, 100, 3_000]),
      cutRate: chance.pick([0, 0.01]),
    };
    this.#actors = new HalvesActors({
      store: this.#store,
      chance,
      now: () => clock.now().toISOString(),
      failRate: () => this.#failRate,
      isSynchronizing: () => this.#isSynchronizing,
      onProblem: (text) => this.#problems.push(text),
    });
  }

  async run(): Promise<{
    readonly problems: readonly string[];
    readonly lines: readonly string[];
    readonly moved: number;
  }> {
    for (const name of ['node1', 'node2']) this.#node(name);
    const kubevirt = {
      apiVersion: 'kubevirt.io/v1',
      kind: 'KubeVirt',
      metadata: { name: 'kubevirt', namespace: 'kubevirt' },
    };
    const configuration = {
      developerConfiguration: { featureGates: ['DecentralizedLiveMigration'], useEmulation: true },
    };
    this.#store.create(
      resources.kubevirts,
      { ...kubevirt, spec: { configuration }, status: { phase: 'Deployed' } },
      'world',
    );
    for (let number = 0; number < guests; number++) for (const place of places) this.#vm(`vm${number}`, place);
    this.#every(300, () => this.#actors.tick());
    this.#startController();
    await this.#until(20_000);
    const mischief = this.#scheduler.nowMs + 180_000;
    this.#every(2_000, () => this.#scheduler.nowMs < mischief && this.#mischief());
    await this.#until(mischief);
    await this.#calm();
    const moved = this.#store.list(
      vms,
      ({ metadata, spec }) => metadata.namespace === 'here' && spec.runStrategy === 'Halted',
    ).length;
    this.#problems.push(...this.#left());
    return { problems: this.#problems, lines: this.#trace.lines, moved };
  }

  #node(name: string): void {
    const own = { 'kubevirt.io/schedulable': 'true', 'kubernetes.io/hostname': name, 'kubernetes.io/arch': 'amd64' };
    const metadata = { name, labels: { ...own, 'machine-type.node.kubevirt.io/q35': 'true' } };
    this.#store.create(resources.nodes, { apiVersion: 'v1', kind: 'Node', metadata, spec: {} }, 'world');
  }

  #vm(name: string, namespace: (typeof places)[number]): void {
    const isHere = namespace === 'here';
    const annotations = isHere ? {} : { 'kubevirt.io/restore-run-strategy': 'Always' };
    const template = { spec: { domain: { memory: { guest: '64Mi' } } } };
    const spec = { runStrategy: isHere ? 'Always' : 'WaitAsReceiver', template };
    const metadata = { name, namespace, annotations };
    this.#store.create(vms, { apiVersion: 'kubevirt.io/v1', kind: vms.kind, metadata, spec }, 'world');
  }

  /** Nothing goes wrong any more; people take back what has not come to its end. */
  async #calm(): Promise<void> {
    this.#failRate = 0;
    this.#isSynchronizing = true;
    Object.assign(this.#trouble, { errorRate: 0, lostRate: 0, watchDelayMs: 0, cutRate: 0 });
    if (!this.#controller || this.#controller.dead) this.#startController();
    await this.#until(this.#scheduler.nowMs + 120_000);
    for (const each of this.#store.list(migrations, (one) => !isFinal(one) && !one.metadata.deletionTimestamp))
      this.#store.delete(migrations, keyOf(each), {}, 'world');
    const endMs = this.#scheduler.nowMs + 1_800_000;
    while (this.#scheduler.nowMs < endMs && this.#problems.length === 0) {
      await this.#until(this.#scheduler.nowMs + 30_000);
      if (this.#left().length === 0) return;
    }
  }

  #startController(): void {
    const life = newLife(`controller-${++this.#named}`);
    this.#controller = life;
    const clock = new SimClock(this.#scheduler, this.#chance, this.#wall, life);
    const client = simClient({
      store: this.#store,
      scheduler: this.#scheduler,
      chance: this.#chance,
      life,
      trouble: this.#trouble,
      onWrite: () => undefined,
      guard: () => undefined,
    });
    const two = { vmWorkers: 2, vmiWorkers: 2, migrationWorkers: 3, evacuationWorkers: 2, nodeWorkers: 2 };
    const others = { replicaSetWorkers: 1, poolWorkers: 1, snapshotWorkers: 1, restoreWorkers: 1, cloneWorkers: 1 };
    const controller = new Controller(
      {
        ...two,
        ...others,
        exportWorkers: 1,
        backupWorkers: 1,
        config: { launcherImage: 'virt-launcher', runtimeUser: 0, architecture: 'amd64' },
        authorities: { exportCaDir: '/nonexistent', backupCaDir: '/nonexistent', namespace: 'kubevirt' },
        standaloneScheduler: true,
      },
      {
        client,
        log: silentLogger,
        randomUuid: () => `random-${this.#chance.next()}`,
        random: () => this.#chance.next(),
        clock,
      },
    );
    controller.start(new AbortController().signal).catch((error: unknown) => this.#problems.push(`start: ${error}`));
  }

  #kill(): void {
    const { name } = this.#controller ?? {};
    if (!this.#controller || this.#controller.dead) return;
    this.#controller.dead = true;
    for (const watcher of this.#store.watchers) if (watcher.writer === name) this.#store.watchers.delete(watcher);
    this.#scheduler.after(this.#chance.between(10, 20_000), 'controller begins', this.#life, () => {
      if (this.#controller?.dead) this.#startController();
    });
  }

  #every(ms: number, act: () => void): void {
    const again = () => {
      this.#scheduler.after(ms * this.#chance.between(0.5, 1.5), 'world', this.#life, () => {
        act();
        again();
      });
    };
    again();
  }

  async #until(ms: number): Promise<void> {
    while (await this.#scheduler.step(ms)) if (this.#problems.length > 0) return;
  }

  /** What people and fate do. */
  #mischief(): void {
    const chance = this.#chance;
    const name = `vm${chance.int(guests)}`;
    switch (chance.int(8)) {
      case 0:
        this.#ask(name, chance.pick([...places]));
        break;
      case 1:
      case 2:
      case 3:
        for (const place of places) this.#ask(name, place);
        break;
      case 4: {
        const open = this.#store.list(migrations, (each) => !isFinal(each));
        if (open.length > 0) this.#store.delete(migrations, keyOf(chance.pick(open)), {}, 'world');
        break;
      }
      case 5:
        this.#isSynchronizing = !this.#isSynchronizing;
        break;
      case 6:
        this.#kill();
        break;
      default:
    }
  }

  /** As virt-api admits it: one at a time, of a VMI that is there and not over. */
  #ask(vmiName: string, namespace: (typeof places)[number]): void {
    const vmi = this.#store.find(vmis, `${namespace}/${vmiName}`);
    const isOpen = (each: Loose) =>
      each.metadata.namespace === namespace && each.spec.vmiName === vmiName && !isFinal(each);
    const phase = vmi?.status?.phase;
    const isAdmitted = namespace === 'here' ? phase === 'Running' : phase === 'WaitingForSync';
    if (!isAdmitted || this.#store.list(migrations, isOpen).length > 0) return;
    const half =
      namespace === 'here'
        ? { sendTo: { migrationID: vmiName, connectURL: address } }
        : { receive: { migrationID: vmiName } };
    const metadata = { name: `job-${++this.#named}`, namespace };
    const migration = { apiVersion: 'kubevirt.io/v1', kind: migrations.kind, metadata, spec: { vmiName, ...half } };
    this.#store.create(migrations, migration, 'world');
  }

  /** What is not as it shall be in the end. */
  #left(): string[] {
    const left = this.#store
      .list(migrations, (each) => !isFinal(each) || (each.metadata.finalizers ?? []).length > 0)
      .map(({ metadata, status }) => `${keyOf({ metadata } as Loose)} is ${status?.phase} in the end`);
    const held = [...this.#actors.guests.values()];
    const isTarget = ({ metadata }: Loose) => metadata.labels?.[labels.migrationJobUid] !== undefined;
    const isLeft = (pod: Loose) =>
      isTarget(pod) && !['Succeeded', 'Failed'].includes(pod.status?.phase) && !held.includes(pod.metadata.uid ?? '');
    for (const pod of this.#store.list(pods, isLeft)) left.push(`target pod ${keyOf(pod)} is left`);
    for (let number = 0; number < guests; number++) left.push(...this.#leftOf(`vm${number}`));
    return left;
  }

  /** The guest runs at one place, and both VMs say where. */
  #leftOf(name: string): string[] {
    const [here, there] = places.map((place) => this.#store.find(vmis, `${place}/${name}`)?.status?.phase ?? 'none');
    const [from, to] = places.map((place) => this.#store.find(vms, `${place}/${name}`)?.spec.runStrategy);
    const seen = `${from}/${here} ${to}/${there}`;
    const ok = ['Always/Running WaitAsReceiver/WaitingForSync', 'Halted/none Always/Running'];
    return ok.includes(seen) ? [] : [`${name}: ${seen}`];
  }
}

function isFinal(migration: Loose): boolean {
  return isFinalMigration(migration as VirtualMachineInstanceMigration);
}
