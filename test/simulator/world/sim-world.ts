import { isBeingDeleted, isFinal, type Key, type VirtualMachineInstance } from '../../../src/api/index.ts';
import { node as nodeName } from '../../fixtures/agent/builders.ts';
import type { Chance } from '../engine/chance.ts';
import { type Life, newLife, Scheduler, type Wall } from '../engine/scheduler.ts';
import type { Trace } from '../engine/trace.ts';
import { Wire } from '../engine/wire.ts';
import type { Judge } from '../judge.ts';
import type { Plan, VmiPlan } from '../plan.ts';
import type { Migration } from './migration.ts';
import { SimAgent } from './sim-agent.ts';
import { SimApi } from './sim-api.ts';
import { sriovInterface } from './sim-domain.ts';
import { SimNode } from './sim-host.ts';
import type { ApiTrouble } from './sim-kube-client.ts';
import { SimLauncher } from './sim-launcher.ts';
import type { WatchStream } from './watch-stream.ts';

type Vmi = VirtualMachineInstance;

/** A question about a launcher's end that was under way has an answer by then. */
const questionMs = 1_000;
/** What an agent began before it stopped has ended by then. */
const longestRequestMs = 35_000;

/** One VMI that was ever there, with its pod. */
export interface WorldVmi {
  readonly key: Key;
  readonly uid: string;
  readonly plan: VmiPlan;
  /** The launcher in which the guest lives, or is to. */
  home: SimLauncher;
  /** All there were, also those that guests came to or left. */
  readonly launchers: SimLauncher[];
  /** The same as `home`. */
  readonly launcher: SimLauncher;
  /** When somebody wanted its guest to end: deleted, removed, evicted. */
  unwantedMs: number | undefined;
}

/** Nodes with their API server, launchers and agents, and what the rest of the cluster does: controllers, a kubelet. */
export class SimWorld {
  readonly scheduler: Scheduler;
  readonly life: Life = newLife('world');
  readonly wall: Wall = { epochMs: Date.parse('2026-01-02T03:00:00Z') - 1_000_000 };
  readonly api = new SimApi();
  readonly nodes: readonly [SimNode, ...SimNode[]];
  readonly migrations: Migration[] = [];
  /** Also of those that are no more. */
  readonly nodeOfAgent = new Map<string, string>();
  readonly trouble: ApiTrouble = { downUntilMs: 0, errorRate: 0, lostRate: 0, oldLists: false, silentUntilMs: 0 };
  readonly streams = new Set<WatchStream>();
  readonly vmis: WorldVmi[] = [];
  readonly agents: SimAgent[] = [];
  readonly plan: Plan;
  readonly chance: Chance;
  readonly trace: Trace;
  readonly judge: Judge;
  wallJumped = false;
  readonly #wire: Wire;
  #made = 0;
  #agentsMade = 0;

  constructor(plan: Plan, chance: Chance, trace: Trace, judgeOf: (world: SimWorld) => Judge) {
    this.plan = plan;
    this.chance = chance;
    this.trace = trace;
    this.scheduler = new Scheduler(chance, trace);
    const first = new SimNode(nodeName, '10.0.0.1');
    this.nodes = plan.migrations.length > 0 ? [first, new SimNode(`${nodeName}-b`, '10.0.0.2')] : [first];
    this.#wire = new Wire(this.scheduler, chance, this.life);
    this.judge = judgeOf(this);
    this.api.hooks = { onWrite: (writer, before, after) => this.#onWrite(writer, before, after) };
  }

  note(text: string): void {
    this.trace.note(this.scheduler.nowMs, text);
  }

  after(ms: number, label: string, run: () => void): void {
    this.scheduler.after(ms, label, this.life, run);
  }

  /** The present VMI of a name, with the pod that belongs to it. */
  latest(name: string): WorldVmi | undefined {
    return this.vmis.findLast(({ plan }) => plan.name === name);
  }

  agentsOf(name: string): SimAgent[] {
    return this.agents.filter(({ node, life }) => node.name === name && !life.dead);
  }

  nodeOf({ options }: SimLauncher): SimNode {
    return this.nodes.find(({ name }) => name === options.nodeName) ?? this.nodes[0];
  }

  byUid(uid: string): WorldVmi | undefined {
    return this.vmis.find((vmi) => vmi.uid === uid);
  }

  createVmi(plan: VmiPlan): void {
    const key = `default/${plan.name}`;
    if (this.api.get(key)) return;
    const uid = `uid-${++this.#made}`;
    const launcher = this.#createLauncher(plan, key, uid, this.#made, this.nodes[0]);
    const isRunning = plan.begins !== 'scheduled';
    if (isRunning) launcher.boot();
    this.vmis.push(worldVmi(key, uid, plan, launcher));
    this.api.create(this.#vmiObject(plan, uid, launcher.options.podUid, isRunning), 'controller');
    // A record that comes after the agent has read them is nobody's.
    if (plan.begins === 'running-recorded' && this.#agentsMade === 0) {
      const { pid, startTime } = launcher.process;
      const record = { name: plan.name, namespace: 'default', socketFile: launcher.socketFile, uid, pid, startTime };
      this.nodes[0].disk.files.set(uid, JSON.stringify({ ...record, version: 1 }));
    }
  }

  /** A pod that a guest can come to. */
  addLauncher(vmi: WorldVmi, node: SimNode): SimLauncher {
    const launcher = this.#createLauncher(vmi.plan, vmi.key, vmi.uid, ++this.#made, node);
    vmi.launchers.push(launcher);
    return launcher;
  }

  spawnAgent(node: SimNode = this.nodes[0]): SimAgent {
    const agent = new SimAgent(`agent-${++this.#agentsMade}`, {
      node,
      wire: this.#wire,
      scheduler: this.scheduler,
      chance: this.chance,
      api: this.api,
      trouble: this.trouble,
      streams: this.streams,
      wall: this.wall,
      note: (text) => this.note(text),
      moveOf: (uid) => this.migrations.find((migration) => migration.uid === uid)?.move,
      onNews: () => this.judge.onNews(),
      onPut: (by, vmi) => this.judge.onPut(by, vmi),
      onWritten: (by, vmi) => this.judge.onWritten(by, vmi),
      onCall: (...call) => this.judge.onCall(...call),
      onDomainSeen: (seer, launcher, json) => this.judge.onDomainSeen(seer.life.name, launcher, json),
      hasHostWork: this.plan.hasHostWork,
      onUnmount: (by, mount) => this.judge.onUnmount(by, mount),
      onPass: (_passing, key) => this.judge.onPass(key),
      mayGoOn: () => this.judge.violation === undefined,
    });
    this.agents.push(agent);
    this.nodeOfAgent.set(agent.life.name, node.name);
    agent.start().catch((error: unknown) => {
      if (agent.life.dead) return;
      this.note(`${agent.life.name} did not start: ${String(error)}`);
      this.killAgent(agent);
      this.after(this.chance.between(100, 3_000), 'the agent is started again', () => this.ensureAgent());
    });
    return agent;
  }

  /** SIGKILL: the process and its connections are no more. */
  killAgent(agent: SimAgent): void {
    agent.kill();
    this.agents.splice(this.agents.indexOf(agent), 1);
    for (const stream of [...this.streams]) if (stream.life === agent.life) stream.close();
    for (const connection of agent.node.connectionsOf(agent.life)) agent.node.connections.delete(connection);
    this.note(`${agent.life.name} was killed`);
  }

  /** SIGTERM; what it leaves behind is the judge's to see, once what was under way has ended. */
  stopAgent(agent: SimAgent, then: () => void): void {
    const { life } = agent;
    agent.stop().then(
      () => {
        if (life.dead) return;
        this.agents.splice(this.agents.indexOf(agent), 1);
        this.note(`${life.name} has stopped`);
        this.scheduler.after(questionMs, `${life.name} is quiet`, this.life, () => this.judge.onSaidStopped(agent));
        then();
        this.scheduler.after(longestRequestMs, `${life.name} is looked at`, this.life, () => {
          this.judge.onStopped(agent);
          life.dead = true;
        });
      },
      (error: unknown) => this.judge.violate('an-agent-stops', String(error)),
    );
  }

  /** `size`: how many steps of the agent later it is killed. */
  disturbAgents(kind: 'agent-killed' | 'agent-restarted' | 'two-agents', forMs: number, size: number): void {
    const node = this.nodes[size % this.nodes.length] ?? this.nodes[0];
    const agent = this.agents.find((each) => each.node === node);
    const again = () => this.after(Math.min(forMs, 30_000), 'a new agent starts', () => this.ensureAgent());
    if (kind === 'two-agents') {
      const second = this.spawnAgent(node);
      this.after(forMs, 'one agent is enough', () => {
        const [one] = [agent, second].filter((each) => each && this.agents.includes(each));
        if (one && this.agents.filter((each) => each.node === node).length > 1) this.killAgent(one);
      });
    } else if (!agent) again();
    else if (kind === 'agent-restarted') this.stopAgent(agent, again);
    else
      this.scheduler.onSteps(agent.life, size, () => {
        if (!this.agents.includes(agent)) return;
        this.killAgent(agent);
        again();
      });
  }

  /** The newest migration of the present VMI of a name. */
  migrationOf(name: string): Migration | undefined {
    const vmi = this.latest(name);
    return this.migrations.findLast((migration) => migration.vmi === vmi);
  }

  /** On each node. */
  ensureAgent(): void {
    for (const node of this.nodes) if (!this.agents.some((agent) => agent.node === node)) this.spawnAgent(node);
  }

  /** A record is cut off, as after a crash of the machine. */
  tearRecord(): void {
    const { files } = this.nodes[0].disk;
    const file = [...files.keys()][0];
    if (file === undefined) return;
    files.set(file, (files.get(file) ?? '').slice(0, 20));
  }

  /** The same of a checkpoint. */
  tearCheckpoint(node: SimNode): void {
    const [file] = [...node.checkpoints.files.keys()];
    if (file === undefined) return;
    node.checkpoints.files.set(file, (node.checkpoints.files.get(file) ?? '').slice(0, 30));
    node.tornCheckpoints.add(file);
  }

  #createLauncher(plan: VmiPlan, key: Key, uid: string, number: number, node: SimNode): SimLauncher {
    const { graceSeconds, habit, socketDelayMs } = plan;
    const launcher = new SimLauncher(
      {
        key,
        uid,
        podUid: `pod-${number}`,
        nodeName: node.name,
        pid: 1000 + number,
        graceSeconds,
        habit,
        socketDelayMs,
        hasSriov: this.#hasSriov(plan),
      },
      {
        scheduler: this.scheduler,
        chance: this.chance,
        wallNow: () => new Date(this.wall.epochMs + this.scheduler.nowMs),
        note: (text) => this.note(text),
        onTaken: (taken, agent, json) => this.judge.onDomainSeen(agent.name, taken, json),
        onChange: (changed) => this.#onLauncherChange(changed),
      },
    );
    node.launchers.set(launcher.options.podUid, launcher);
    return launcher;
  }

  #hasSriov({ name }: VmiPlan): boolean {
    return this.plan.migrations.some((migration) => migration.name === name);
  }

  #vmiObject(plan: VmiPlan, uid: string, podUid: string, isRunning: boolean): Vmi {
    const interfaces = this.#hasSriov(plan) ? [{ name: sriovInterface }] : [];
    return {
      apiVersion: 'kubevirt.io/v1',
      kind: 'VirtualMachineInstance',
      metadata: {
        name: plan.name,
        namespace: 'default',
        uid,
        labels: { 'kubevirt.io/nodeName': this.nodes[0].name, 'example.org/team': 'blue' },
        annotations: { 'example.org/note': '0' },
        finalizers: ['foregroundDeleteVirtualMachine'],
      },
      spec: {
        terminationGracePeriodSeconds: plan.graceSeconds,
        domain: {
          devices: {
            disks: [{ name: 'root', disk: { bus: 'virtio' } }],
            interfaces: interfaces.map((each) => ({ ...each, sriov: {} })),
          },
        },
        volumes: [{ name: 'root', containerDisk: { image: 'demo' } }],
      },
      status: {
        phase: isRunning ? 'Running' : 'Scheduled',
        nodeName: this.nodes[0].name,
        activePods: { [podUid]: this.nodes[0].name },
        runtimeUser: 0,
        foreign: { counter: 0 },
        interfaces: interfaces.map((each) => ({ ...each, infoSource: 'multus-status' })),
      },
    };
  }

  #onLauncherChange(launcher: SimLauncher): void {
    const node = this.nodeOf(launcher);
    node.changed(launcher);
    if (launcher.alive) return;
    this.after(this.chance.between(500, 15_000), `kubelet removes ${launcher.options.podUid}`, () => {
      node.launchers.delete(launcher.options.podUid);
      this.#removeIfDone(launcher.options.uid);
    });
  }

  #onWrite(writer: string, before: Vmi | undefined, after: Vmi | undefined): void {
    if (writer.startsWith('agent-') && before && after) this.judge.onAgentWrite(writer, before, after);
    const vmi = this.byUid((after ?? before)?.metadata.uid ?? '');
    if (!vmi) return;
    const isUnwanted = !after || isBeingDeleted(after);
    if (isUnwanted) vmi.unwantedMs ??= this.scheduler.nowMs;
    const wasOver = before !== undefined && (isFinal(before) || isBeingDeleted(before));
    if ((isUnwanted || isFinal(after)) && !wasOver) this.#endPod(vmi);
    if (after && isUnwanted) this.#removeIfDone(vmi.uid);
  }

  /** virt-controller, or for an object that was removed by force the garbage collector, deletes the pod. */
  #endPod(vmi: WorldVmi): void {
    const lateMs = this.chance.happens(0.2) ? this.chance.between(3_000, 40_000) : this.chance.between(20, 3_000);
    this.after(lateMs, `the pod of ${vmi.uid} is deleted`, () => this.terminate(vmi));
  }

  /** SIGTERM to the pod; kubelet's patience is longer than the guest's. */
  terminate(vmi: WorldVmi): void {
    if (vmi.launcher.alive) vmi.unwantedMs ??= this.scheduler.nowMs;
    for (const launcher of vmi.launchers) this.endLauncher(launcher);
    this.#removeIfDone(vmi.uid);
  }

  /** The same for one pod. */
  endLauncher(launcher: SimLauncher): void {
    if (!launcher.alive) return;
    launcher.terminate();
    const { graceSeconds, uid } = launcher.options;
    this.after((graceSeconds + 60) * 1_000, `kubelet kills ${uid}`, () => launcher.exit());
  }

  /** A deleted VMI goes when its pod has gone. */
  #removeIfDone(uid: string): void {
    const vmi = this.byUid(uid);
    const stored = vmi && this.api.get(vmi.key);
    if (!vmi || stored?.metadata.uid !== uid || !isBeingDeleted(stored)) return;
    if (vmi.launchers.some((launcher) => this.nodeOf(launcher).launchers.has(launcher.options.podUid))) return;
    this.after(this.chance.between(10, 1_000), `controller lets ${uid} go`, () => {
      if (this.api.get(vmi.key)?.metadata.uid === uid) this.api.remove(vmi.key, 'controller');
    });
  }
}

function worldVmi(key: Key, uid: string, plan: VmiPlan, home: SimLauncher): WorldVmi {
  return {
    key,
    uid,
    plan,
    home,
    launchers: [home],
    get launcher() {
      return this.home;
    },
    unwantedMs: undefined,
  };
}
