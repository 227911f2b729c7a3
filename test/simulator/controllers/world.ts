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
import { Actors } from './agents.ts';
import { simClient, type Trouble } from './client.ts';
import { type Change, ClusterStore, type Loose } from './store.ts';

const nodes = ['node1', 'node2', 'node3', 'node4'];
const guests = 8;
const perCluster = 5;
const perNode = 2;
const { migrations, pods, virtualMachineInstances: vmis } = resources;
const config = { launcherImage: 'virt-launcher', runtimeUser: 0, architecture: 'amd64' };
const begun = ['Scheduling', 'Scheduled', 'PreparingTarget', 'TargetReady', 'Running'];

export interface WorldResult {
  readonly problems: readonly string[];
  readonly lines: readonly string[];
  readonly steps: number;
  /** Equal hashes: equal runs. */
  readonly hash: string;
  readonly succeeded: number;
  readonly failed: number;
}

/** One seeded cluster: the whole virt-controller with its scheduler, scripted kubelets and agents, people who ask for too much. */
export class ControllersWorld {
  readonly #chance: Chance;
  readonly #trace = new Trace();
  readonly #wall: Wall = { epochMs: Date.parse('2026-01-01T00:00:00Z') };
  readonly #scheduler: Scheduler;
  readonly #store: ClusterStore;
  readonly #actors: Actors;
  readonly #life = newLife('world');
  readonly #trouble: Trouble;
  readonly #away = new Set<string>();
  readonly #problems: string[] = [];
  readonly #ends = { succeeded: 0, failed: 0 };
  #controller: Life | undefined;
  #failRate: number;
  #mayMisbehave = true;
  #named = 0;

  constructor(seed: number) {
    this.#chance = new Chance(seed);
    this.#scheduler = new Scheduler(this.#chance, this.#trace);
    const clock = new SimClock(this.#scheduler, this.#chance, this.#wall, this.#life);
    this.#store = new ClusterStore(() => clock.now());
    const chance = this.#chance;
    this.#failRate = chance.pick([0, 0.02, 0.1, 0.3]);
    this.#trouble = {
      errorRate: chance.pick([0, 0.02, 0.15]),
      lostRate: chance.pick([0, 0.02, 0.15]),
      watchDelayMs: chance.pick([0, 100, 3_000]),
      cutRate: chance.pick([0, 0.01]),
    };
    this.#actors = new Actors({
      store: this.#store,
      chance,
      now: () => clock.now().toISOString(),
      isAway: (node) => this.#away.has(node),
      failRate: () => this.#failRate,
    });
    this.#store.onChange = (change) => this.#judge(change);
  }

  async run(): Promise<WorldResult> {
    for (const name of nodes) {
      const own = { 'kubevirt.io/schedulable': 'true', 'kubernetes.io/hostname': name, 'kubernetes.io/arch': 'amd64' };
      const metadata = {
        name,
        labels: {
          ...own,
          'machine-type.node.kubevirt.io/q35': 'true',
          'host-model-cpu.node.kubevirt.io/Penryn': 'true',
          'cpu-model-migration.node.kubevirt.io/Penryn': 'true',
        },
      };
      this.#store.create(resources.nodes, { apiVersion: 'v1', kind: 'Node', metadata, spec: {} }, 'world');
    }
    for (let number = 0; number < guests; number++) this.#guest(`vm${number}`);
    this.#every(300, () => this.#actors.tick());
    this.#startController();
    await this.#until(20_000);
    this.#every(3_000, () => this.#mischief());
    await this.#until(this.#scheduler.nowMs + 120_000);
    await this.#calm();
    this.#problems.push(...this.#left());
    const { steps, lines, hash } = this.#trace;
    return { problems: this.#problems, lines, steps, hash, ...this.#ends };
  }

  /** Nothing goes wrong any more; what was begun gets all the time that it may take. */
  async #calm(): Promise<void> {
    this.#failRate = 0;
    this.#mayMisbehave = false;
    Object.assign(this.#trouble, { errorRate: 0, lostRate: 0, watchDelayMs: 0, cutRate: 0 });
    this.#away.clear();
    for (const node of nodes) this.#store.change(resources.nodes, node, (each) => delete each.spec.unschedulable);
    if (!this.#controller || this.#controller.dead) this.#startController();
    const endMs = this.#scheduler.nowMs + 3_600_000;
    while (this.#scheduler.nowMs < endMs && this.#problems.length === 0) {
      await this.#until(this.#scheduler.nowMs + 30_000);
      if (this.#left().length === 0) return;
    }
  }

  #guest(name: string): void {
    const spec = { domain: { memory: { guest: '64Mi' } }, evictionStrategy: 'LiveMigrate' };
    const metadata = { name, namespace: 'default' };
    this.#store.create(vmis, { apiVersion: 'kubevirt.io/v1', kind: vmis.kind, metadata, spec }, 'world');
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
    });
    const controller = new Controller(
      {
        config,
        vmWorkers: 2,
        vmiWorkers: 2,
        migrationWorkers: 3,
        evacuationWorkers: 2,
        nodeWorkers: 2,
        replicaSetWorkers: 2,
        poolWorkers: 2,
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

  /** What people, nodes and fate do. */
  #mischief(): void {
    if (!this.#mayMisbehave) return;
    const chance = this.#chance;
    const vmi = chance.pick(
      this.#store.list(vmis).concat([{ metadata: { name: 'none', namespace: 'default' } } as Loose]),
    );
    const node = chance.pick(nodes);
    switch (chance.int(10)) {
      case 0:
      case 1:
      case 2:
        this.#migrate(vmi);
        break;
      case 3:
        this.#cancel();
        break;
      case 4:
        this.#store.change(vmis, keyOf(vmi), ({ status }) =>
          Object.assign(status ?? {}, { evacuationNodeName: status?.nodeName }),
        );
        break;
      case 5:
        this.#store.change(resources.nodes, node, (each) => Object.assign(each.spec, { unschedulable: true }));
        break;
      case 6:
        this.#store.change(resources.nodes, node, (each) => delete each.spec.unschedulable);
        break;
      case 7:
        this.#away.add(node);
        this.#scheduler.after(chance.between(1_000, 60_000), 'node is back', this.#life, () => this.#away.delete(node));
        break;
      case 8:
        this.#kill();
        break;
      default:
        if (chance.happens(0.15) && vmi.metadata.uid) this.#store.delete(vmis, keyOf(vmi), {}, 'world');
    }
  }

  #migrate({ metadata, status }: Loose): void {
    const chance = this.#chance;
    const addedNodeSelector = chance.happens(0.2) && { 'kubernetes.io/hostname': status?.nodeName ?? 'node9' };
    const priority = chance.pick(['', 'system-critical', 'user-triggered', 'system-maintenance', 'nonsense']);
    const spec = {
      vmiName: metadata.name,
      ...(priority && { priority }),
      ...(addedNodeSelector && { addedNodeSelector }),
    };
    const name = `job-${++this.#named}`;
    this.#store.create(
      migrations,
      { apiVersion: 'kubevirt.io/v1', kind: migrations.kind, metadata: { name, namespace: 'default' }, spec },
      'world',
    );
  }

  #cancel(): void {
    const open = this.#store.list(migrations, (each) => !isFinal(each));
    if (open.length > 0) this.#store.delete(migrations, keyOf(this.#chance.pick(open)), {}, 'world');
  }

  #kill(): void {
    if (!this.#controller || this.#controller.dead) return;
    this.#controller.dead = true;
    const name = this.#controller.name;
    for (const watcher of this.#store.watchers) if (watcher.writer === name) this.#store.watchers.delete(watcher);
    this.#scheduler.after(this.#chance.between(10, 20_000), 'controller begins', this.#life, () => {
      if (this.#controller?.dead) this.#startController();
    });
  }

  #judge({ type, before, after, writer }: Change): void {
    const fail = (text: string) => this.#problems.push(`${writer}: ${text}`);
    if (type === pods.resource && !before && after && isTargetPod(after)) this.#judgeTarget(after, fail);
    if (type === pods.resource && writer !== 'world' && before) this.#judgeEndOfPod(before, after, fail);
    if (type !== migrations.resource || !after) return;
    if (isFinal(after) && !isFinal(before)) {
      const cause = after.status.conditions?.find((each: { type: string }) => each.type === 'migrationFailed');
      if (after.status.phase === 'Failed' && !cause?.message) fail(`${after.metadata.name} has failed without a cause`);
      this.#ends[after.status.phase === 'Failed' ? 'failed' : 'succeeded']++;
    }
    const vmi = after.spec.vmiName;
    const active = this.#store.list(
      migrations,
      (each) => each.spec.vmiName === vmi && begun.includes(each.status?.phase),
    );
    if (active.length > 1)
      fail(`two migrations of ${vmi} at once: ${active.map(({ metadata }) => metadata.name).join(', ')}`);
  }

  /** Limits hold when a target pod comes to be. */
  #judgeTarget(pod: Loose, fail: (text: string) => void): void {
    const job = pod.metadata.labels?.[labels.migrationJobUid];
    const jobs = new Set(
      this.#store.list(pods, isTargetPod).map(({ metadata }) => metadata.labels?.[labels.migrationJobUid]),
    );
    const active = this.#store.list(migrations, (each) => !isFinal(each) && jobs.has(each.metadata.uid));
    if (active.length > perCluster) fail(`${active.length} migrations at once in the cluster`);
    const nodeOf = ({ spec }: Loose) => this.#store.find(vmis, `default/${spec.vmiName}`)?.status?.nodeName;
    const own = active.find(({ metadata }) => metadata.uid === job);
    const beside = active.filter((each) => own && nodeOf(each) === nodeOf(own) && !hasArrived(each, this.#store));
    if (beside.length > perNode) fail(`${beside.length} migrations leave ${own && nodeOf(own)} at once`);
  }

  #judgeEndOfPod(before: Loose, after: Loose | undefined, fail: (text: string) => void): void {
    const isEnding = !before.metadata.deletionTimestamp && (!after || after.metadata.deletionTimestamp);
    const [vmi] = this.#store.list(
      vmis,
      ({ metadata }) => this.#actors.guests.get(metadata.uid ?? '') === before.metadata.uid,
    );
    if (isEnding && vmi?.status.phase === 'Running' && !vmi.metadata.deletionTimestamp)
      fail(`the pod of ${vmi.metadata.name} is deleted`);
  }

  /** What is not as it shall be in the end. */
  #left(): string[] {
    const left: string[] = [];
    const open = this.#store.list(migrations, (each) => !isFinal(each));
    for (const { metadata, status } of open) left.push(`${metadata.name} is ${status?.phase} in the end`);
    const held = this.#store.list(migrations, (each) => isFinal(each) && (each.metadata.finalizers ?? []).length > 0);
    for (const { metadata } of held) left.push(`${metadata.name} is not released`);
    const alive = this.#store.list(pods, (pod) => pod.status?.phase !== 'Succeeded' && pod.status?.phase !== 'Failed');
    const guests = [...this.#actors.guests.values()];
    for (const { metadata } of alive.filter((pod) => isTargetPod(pod) && !guests.includes(pod.metadata.uid ?? ''))) {
      left.push(`target pod ${metadata.name} is left`);
    }
    for (const { metadata, status } of this.#store.list(vmis)) {
      if (status?.evacuationNodeName === status?.nodeName && status?.nodeName)
        left.push(`${metadata.name} is marked for ever`);
      if (status?.phase !== 'Running') left.push(`${metadata.name} is ${status?.phase}`);
    }
    return left;
  }
}

function isFinal(migration: Loose | undefined): boolean {
  return migration !== undefined && isFinalMigration(migration as VirtualMachineInstanceMigration);
}

function isTargetPod({ metadata }: Loose): boolean {
  return metadata.labels?.[labels.migrationJobUid] !== undefined && metadata.labels?.[labels.app] === 'virt-launcher';
}

function hasArrived({ metadata, spec }: Loose, store: ClusterStore): boolean {
  const state = store.find(vmis, `default/${spec.vmiName}`)?.status?.migrationState;
  return state?.migrationUid === metadata.uid && state?.completed === true;
}
