import {
  isFinalMigration,
  keyOf,
  labels,
  resources,
  type VirtualMachineInstanceMigration,
} from '../../../src/api/index.ts';
import { silentLogger } from '../../../src/base/index.ts';
import { Controller } from '../../../src/controller/index.ts';
import { NotLeadingError } from '../../../src/kube/index.ts';
import { Chance } from '../engine/chance.ts';
import { type Life, newLife, Scheduler, SimClock, type Wall } from '../engine/scheduler.ts';
import { Trace } from '../engine/trace.ts';
import { Actors } from './agents.ts';
import { simClient, type Trouble } from './client.ts';
import { Retries } from './retries.ts';
import { type Change, ClusterStore, type Loose } from './store.ts';

const nodes = ['node1', 'node2', 'node3', 'node4'];
const guests = 8;
const perCluster = 5;
const perNode = 2;
const { migrations, pods, virtualMachineInstances: vmis, virtualMachines: vms } = resources;
const config = { launcherImage: 'virt-launcher', runtimeUser: 0, architecture: 'amd64' };
const begun = ['Scheduling', 'Scheduled', 'PreparingTarget', 'TargetReady', 'Running'];

/** Seeds from here on are clusters of VMs whose nodes die, or are cut off, for longer than a heartbeat is waited for. */
export const firstLossSeed = 1_000_000;
/** Seeds from here on are clusters in which leaders stop and wake up beside their successors, and die at their writes. */
export const firstLeaderSeed = 2_000_000;
/** Stock lease, and how long a leader that was stopped takes to end. Its guard lets nothing new be written; what it had sent before arrives late. */
const [leaseMs, retryMs] = [15_000, 2_000];
/** A node counts as living when its agent was there for so long. */
const livingMs = 60_000;

export interface WorldResult {
  readonly problems: readonly string[];
  readonly lines: readonly string[];
  readonly steps: number;
  /** Equal hashes: equal runs. */
  readonly hash: string;
  readonly succeeded: number;
  readonly failed: number;
  /** VMIs that were given up with their node. */
  readonly lost: number;
  /** Migrations that try another one again. */
  readonly retried: number;
  /** Writes of a leader that had been asleep beside another one. */
  readonly lateWrites: number;
  /** Leaders that died at a write. */
  readonly diedAtWrites: number;
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
  readonly #losesNodes: boolean;
  readonly #losesLeaders: boolean;
  readonly #away = new Set<string>();
  /** Of these nodes only the agent is silent. */
  readonly #silent = new Set<string>();
  /** Machines that are off. */
  readonly #dead = new Set<string>();
  /** When an agent that was silent came back. */
  readonly #backMs = new Map<string, number>();
  /** Leaders that were stopped for longer than their lease lasts. */
  readonly #deposed = new Set<Life>();
  /** Pods that a leader made when another one led already. */
  readonly #late = new Set<string>();
  readonly #problems: string[] = [];
  readonly #ends = { succeeded: 0, failed: 0, lost: 0, lateWrites: 0, diedAtWrites: 0 };
  readonly #retries: Retries;
  #controller: Life | undefined;
  /** The leader is stopped when it has sent so many writes more. */
  #sleepy: number | undefined;
  /** The leader dies before or after this write of its. */
  #deadly: { left: number; readonly moment: 'before' | 'after' } | undefined;
  #failRate: number;
  #mayMisbehave = true;
  #named = 0;

  constructor(seed: number) {
    this.#chance = new Chance(seed);
    this.#losesNodes = seed >= firstLossSeed && seed < firstLeaderSeed;
    this.#losesLeaders = seed >= firstLeaderSeed;
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
      isAgentAway: (node) => this.#isAgentAway(node),
      losesNodes: this.#losesNodes,
      onTwin: (name) => this.#problems.push(`two guests of ${name} run at once`),
      failRate: () => this.#failRate,
    });
    this.#retries = new Retries({ store: this.#store, guests: this.#actors.guests });
    this.#store.onChange = (change) => this.#judge(change);
  }

  async run(): Promise<WorldResult> {
    for (const name of nodes) this.#node(name);
    for (let number = 0; number < guests; number++) this.#guest(`vm${number}`);
    this.#every(300, () => this.#actors.tick());
    this.#startController();
    await this.#until(20_000);
    this.#every(this.#losesNodes ? 15_000 : 3_000, () => this.#mischief());
    await this.#until(this.#scheduler.nowMs + (this.#losesNodes ? 1_200_000 : 120_000));
    await this.#calm();
    this.#problems.push(...this.#left());
    const { steps, lines, hash } = this.#trace;
    return { problems: this.#problems, lines, steps, hash, ...this.#ends, retried: this.#retries.count };
  }

  #node(name: string): void {
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

  #isAgentAway(node: string): boolean {
    return this.#away.has(node) || this.#silent.has(node);
  }

  /** Nothing goes wrong any more; what was begun gets all the time that it may take. */
  async #calm(): Promise<void> {
    this.#failRate = 0;
    this.#mayMisbehave = false;
    this.#sleepy = undefined;
    this.#deadly = undefined;
    Object.assign(this.#trouble, { errorRate: 0, lostRate: 0, watchDelayMs: 0, cutRate: 0 });
    for (const node of [...this.#away, ...this.#silent]) this.#nodeIsBack(node);
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
    if (this.#losesNodes || this.#losesLeaders) {
      const vm = { apiVersion: 'kubevirt.io/v1', kind: vms.kind, metadata };
      this.#store.create(vms, { ...vm, spec: { runStrategy: 'Always', template: { spec } } }, 'world');
      return;
    }
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
      onWrite: (moment) => this.#wrote(life, moment),
      guard: () => this.#guard(life),
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
        snapshotWorkers: 2,
        restoreWorkers: 2,
        cloneWorkers: 2,
        exportWorkers: 2,
        backupWorkers: 2,
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
    if (this.#losesNodes && chance.happens(0.5)) {
      this.#lose(node);
      return;
    }
    if (this.#losesLeaders && chance.happens(0.4)) {
      if (chance.happens(0.5)) this.#sleepy = chance.int(6);
      else this.#deadly = { left: chance.int(6), moment: chance.pick(['before', 'after']) };
      return;
    }
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
        if (this.#isAgentAway(node)) break;
        this.#away.add(node);
        this.#backLater(node, chance.between(1_000, 60_000));
        break;
      case 8:
        this.#kill();
        break;
      default:
        if (chance.happens(0.15) && vmi.metadata.uid) this.#store.delete(vmis, keyOf(vmi), {}, 'world');
    }
  }

  /** For so long that its agent may count as gone, or a little less. */
  #lose(node: string): void {
    const chance = this.#chance;
    if (this.#isAgentAway(node)) return;
    const kind = chance.pick(['agent', 'agent', 'cut off', 'machine', 'machine'] as const);
    (kind === 'agent' ? this.#silent : this.#away).add(node);
    this.#trace.note(this.#scheduler.nowMs, `${node} is lost: ${kind}`);
    const forMs = chance.between(30_000, 900_000);
    this.#backLater(node, forMs);
    if (kind !== 'machine') return;
    this.#actors.loseNode(node);
    this.#dead.add(node);
    this.#scheduler.after(chance.between(20_000, 600_000), 'an admin gives a node up', this.#life, () => {
      if (this.#dead.has(node)) this.#giveUp(node);
    });
  }

  /** Who knows that the machine is off says so: its pods, and sometimes the node itself, are removed. */
  #giveUp(node: string): void {
    const there = this.#store.list(pods, ({ spec }) => spec?.nodeName === node);
    // One may go with its owner meanwhile.
    for (const pod of there)
      if (this.#store.find(pods, keyOf(pod))) this.#store.delete(pods, keyOf(pod), { graceSeconds: 0 }, 'world');
    if (this.#chance.happens(0.3)) this.#store.delete(resources.nodes, node, {}, 'world');
  }

  #backLater(node: string, ms: number): void {
    this.#scheduler.after(ms, 'node is back', this.#life, () => this.#nodeIsBack(node));
  }

  #nodeIsBack(node: string): void {
    if (!this.#isAgentAway(node)) return;
    if (this.#dead.delete(node)) this.#actors.rebootNode(node);
    if (!this.#store.find(resources.nodes, node)) this.#node(node);
    this.#away.delete(node);
    this.#silent.delete(node);
    this.#backMs.set(node, this.#scheduler.nowMs);
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

  /** It is stopped for longer than its lease lasts. What it had sent arrives when it goes on, beside the writes of its successor. */
  #stopLeader(): void {
    const old = this.#controller;
    if (!old || old.dead || old.asleep) return;
    old.asleep = true;
    this.#deposed.add(old);
    const chance = this.#chance;
    this.#scheduler.after(leaseMs + chance.between(0, retryMs), 'another one leads', this.#life, () => {
      if (this.#controller === old && !old.dead) this.#startController();
    });
    const wakesMs = leaseMs + chance.between(retryMs, 30_000);
    this.#scheduler.after(wakesMs, 'a leader wakes up', this.#life, () => this.#scheduler.wake(old));
    const endMs = wakesMs + chance.between(0, retryMs);
    this.#scheduler.after(endMs, 'it finds its lease lost', this.#life, () => this.#end(old));
  }

  /** Who was stopped for too long sends nothing more; who is to be stopped is, with a write on its way. */
  #guard(life: Life): void {
    if (this.#deposed.has(life)) throw new NotLeadingError('NOT_LEADING', 'the lease is over');
    if (life !== this.#controller || this.#sleepy === undefined || this.#sleepy-- > 0) return;
    this.#sleepy = undefined;
    this.#stopLeader();
  }

  #wrote(life: Life, moment: 'before' | 'after'): void {
    if (life !== this.#controller) {
      if (moment === 'after') this.#ends.lateWrites++;
    } else if (this.#deadly?.moment === moment && this.#deadly.left-- === 0) {
      this.#deadly = undefined;
      this.#ends.diedAtWrites++;
      this.#kill();
    }
  }

  #end(life: Life): void {
    life.dead = true;
    for (const watcher of this.#store.watchers) if (watcher.writer === life.name) this.#store.watchers.delete(watcher);
  }

  #kill(): void {
    if (!this.#controller || this.#controller.dead) return;
    this.#end(this.#controller);
    this.#scheduler.after(this.#chance.between(10, 20_000), 'controller begins', this.#life, () => {
      if (this.#controller?.dead) this.#startController();
    });
  }

  #judge({ type, before, after, writer }: Change): void {
    const fail = (text: string) => this.#problems.push(`${writer}: ${text}`);
    if (type === vmis.resource && after) this.#judgeTwins(after, fail);
    const isByAnother = writer !== 'world' && writer !== this.#controller?.name;
    if (type === pods.resource && !before && after && isByAnother) this.#late.add(after.metadata.uid ?? '');
    if (type === pods.resource && !before && after && isTargetPod(after)) this.#judgeTarget(after, fail);
    if (type === pods.resource && writer !== 'world' && before) this.#judgeEndOfPod(before, after, fail);
    if (type === vmis.resource && before && after) this.#judgeFailure(before, after, fail);
    if (type !== migrations.resource || !after) return;
    for (const problem of this.#retries.judge(before, after, isByAnother)) fail(problem);
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

  /** Nothing is given up that runs, or whose agent looks after it. */
  #judgeFailure(before: Loose, after: Loose, fail: (text: string) => void): void {
    const isByNode = after.status?.reason === 'NodeUnresponsive' && before.status?.reason !== 'NodeUnresponsive';
    if (!isByNode) return;
    this.#ends.lost++;
    const { nodeName: node = '' } = before.status ?? {};
    const { name, uid = '' } = after.metadata;
    if (this.#actors.guests.has(uid)) fail(`${name} has failed, and its guest runs on ${node}`);
    const isLiving = !this.#isAgentAway(node) && this.#scheduler.nowMs - (this.#backMs.get(node) ?? 0) > livingMs;
    if (isLiving && this.#store.find(resources.nodes, node)) fail(`${name} has failed, and ${node} lives`);
  }

  /** Of the pods that a VMI takes for its own one is there that no migration made: in any other no guest begins. */
  #judgeTwins({ metadata, status }: Loose, fail: (text: string) => void): void {
    const isOwn = (pod: Loose) => status?.activePods?.[pod.metadata.uid ?? ''] !== undefined;
    const there = this.#store.list(pods, (pod) => isOwn(pod) && !isTargetPod(pod) && !isEnded(pod));
    if (there.length > 1) fail(`${metadata.name} has the pods ${there.map((pod) => pod.metadata.name).join(', ')}`);
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
    left.push(...this.#retries.left());
    const held = this.#store.list(migrations, (each) => isFinal(each) && (each.metadata.finalizers ?? []).length > 0);
    for (const { metadata } of held) left.push(`${metadata.name} is not released`);
    // A launcher that gets no guest ends by itself, so a pod that nobody knew of is no harm.
    const alive = this.#store.list(pods, (pod) => !isEnded(pod) && !this.#late.has(pod.metadata.uid ?? ''));
    const guests = [...this.#actors.guests.values()];
    for (const { metadata } of alive.filter((pod) => isTargetPod(pod) && !guests.includes(pod.metadata.uid ?? ''))) {
      left.push(`target pod ${metadata.name} is left`);
    }
    for (const { metadata } of this.#store.list(vms)) {
      const vmi = this.#store.find(vmis, keyOf({ metadata } as Loose));
      const runs = vmi?.status?.phase === 'Running' && this.#actors.guests.has(vmi.metadata.uid ?? '');
      if (!runs) left.push(`${metadata.name} does not run`);
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

function isEnded({ status }: Loose): boolean {
  return status?.phase === 'Succeeded' || status?.phase === 'Failed';
}

function isTargetPod({ metadata }: Loose): boolean {
  return metadata.labels?.[labels.migrationJobUid] !== undefined && metadata.labels?.[labels.app] === 'virt-launcher';
}

function hasArrived({ metadata, spec }: Loose, store: ClusterStore): boolean {
  const state = store.find(vmis, `default/${spec.vmiName}`)?.status?.migrationState;
  return state?.migrationUid === metadata.uid && state?.completed === true;
}
