import { isBeingDeleted, isFinal, type Key, type VirtualMachineInstance } from '../../../src/api/index.ts';
import { node as nodeName } from '../../fixtures/agent/builders.ts';
import type { Chance } from '../engine/chance.ts';
import { type Life, newLife, Scheduler, type Wall } from '../engine/scheduler.ts';
import type { Trace } from '../engine/trace.ts';
import { Wire } from '../engine/wire.ts';
import type { Judge } from '../judge.ts';
import type { Plan, VmiPlan } from '../plan.ts';
import { SimAgent } from './sim-agent.ts';
import { SimApi } from './sim-api.ts';
import { SimDisk } from './sim-disk.ts';
import { SimNode } from './sim-host.ts';
import type { ApiTrouble } from './sim-kube-client.ts';
import { SimLauncher } from './sim-launcher.ts';
import type { WatchStream } from './watch-stream.ts';

type Vmi = VirtualMachineInstance;

/** What an agent began before it stopped has ended by then. */
const longestRequestMs = 35_000;

/** One VMI that was ever there, with its pod. */
export interface WorldVmi {
  readonly key: Key;
  readonly uid: string;
  readonly plan: VmiPlan;
  readonly launcher: SimLauncher;
  /** When somebody wanted its guest to end: deleted, removed, evicted. */
  unwantedMs: number | undefined;
}

/** One node with its API server, launchers and agents, and what the rest of the cluster does: a controller, a kubelet. */
export class SimWorld {
  readonly scheduler: Scheduler;
  readonly life: Life = newLife('world');
  readonly wall: Wall = { epochMs: Date.parse('2026-01-02T03:00:00Z') - 1_000_000 };
  readonly api = new SimApi();
  readonly node = new SimNode(nodeName);
  readonly disk = new SimDisk();
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

  byUid(uid: string): WorldVmi | undefined {
    return this.vmis.find((vmi) => vmi.uid === uid);
  }

  createVmi(plan: VmiPlan): void {
    const key = `default/${plan.name}`;
    if (this.api.get(key)) return;
    const number = ++this.#made;
    const uid = `uid-${number}`;
    const launcher = this.#createLauncher(plan, key, uid, number);
    const isRunning = plan.begins !== 'scheduled';
    if (isRunning) launcher.boot();
    this.vmis.push({ key, uid, plan, launcher, unwantedMs: undefined });
    this.api.create(this.#vmiObject(plan, uid, launcher.options.podUid, isRunning), 'controller');
    // A record that comes after the agent has read them is nobody's.
    if (plan.begins === 'running-recorded' && this.#agentsMade === 0) {
      const { pid, startTime } = launcher.process;
      const record = { name: plan.name, namespace: 'default', socketFile: launcher.socketFile, uid, pid, startTime };
      this.disk.files.set(uid, JSON.stringify({ ...record, version: 1 }));
    }
  }

  spawnAgent(): SimAgent {
    const agent = new SimAgent(`agent-${++this.#agentsMade}`, {
      node: this.node,
      wire: this.#wire,
      scheduler: this.scheduler,
      chance: this.chance,
      api: this.api,
      trouble: this.trouble,
      streams: this.streams,
      disk: this.disk,
      wall: this.wall,
      note: (text) => this.note(text),
      onNews: () => this.judge.onNews(),
      onCall: (...call) => this.judge.onCall(...call),
      onDomainSeen: (seer, launcher, json) => this.judge.onDomainSeen(seer.life.name, launcher, json),
      onPass: (_passing, key) => this.judge.onPass(key),
      mayGoOn: () => this.judge.violation === undefined,
    });
    this.agents.push(agent);
    agent.start().catch((error: unknown) => {
      if (agent.life.dead) return;
      this.note(`${agent.life.name} did not start: ${String(error)}`);
      this.killAgent(agent);
      this.after(this.chance.between(100, 3_000), 'the agent is started again', () => this.spawnAgent());
    });
    return agent;
  }

  /** SIGKILL: the process and its connections are no more. */
  killAgent(agent: SimAgent): void {
    agent.kill();
    this.agents.splice(this.agents.indexOf(agent), 1);
    for (const stream of [...this.streams]) if (stream.life === agent.life) stream.close();
    for (const connection of this.node.connectionsOf(agent.life)) this.node.connections.delete(connection);
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
    const agent = this.agents[0];
    const again = () => this.after(Math.min(forMs, 30_000), 'a new agent starts', () => this.ensureAgent());
    if (kind === 'two-agents') {
      const second = this.spawnAgent();
      this.after(forMs, 'one agent is enough', () => {
        const [one] = [agent, second].filter((each) => each && this.agents.includes(each));
        if (one && this.agents.length > 1) this.killAgent(one);
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

  ensureAgent(): void {
    if (this.agents.length === 0) this.spawnAgent();
  }

  /** A record is cut off, as after a crash of the machine. */
  tearRecord(): void {
    const file = [...this.disk.files.keys()][0];
    if (file === undefined) return;
    this.disk.files.set(file, (this.disk.files.get(file) ?? '').slice(0, 20));
  }

  #createLauncher(plan: VmiPlan, key: Key, uid: string, number: number): SimLauncher {
    const { graceSeconds, habit, socketDelayMs } = plan;
    const launcher = new SimLauncher(
      { key, uid, podUid: `pod-${number}`, pid: 1000 + number, graceSeconds, habit, socketDelayMs },
      {
        scheduler: this.scheduler,
        chance: this.chance,
        wallNow: () => new Date(this.wall.epochMs + this.scheduler.nowMs),
        note: (text) => this.note(text),
        onTaken: (taken, agent, json) => this.judge.onDomainSeen(agent.name, taken, json),
        onChange: (changed) => this.#onLauncherChange(changed),
      },
    );
    this.node.launchers.set(launcher.options.podUid, launcher);
    return launcher;
  }

  #vmiObject(plan: VmiPlan, uid: string, podUid: string, isRunning: boolean): Vmi {
    return {
      apiVersion: 'kubevirt.io/v1',
      kind: 'VirtualMachineInstance',
      metadata: {
        name: plan.name,
        namespace: 'default',
        uid,
        labels: { 'kubevirt.io/nodeName': this.node.name, 'example.org/team': 'blue' },
        annotations: { 'example.org/note': '0' },
        finalizers: ['foregroundDeleteVirtualMachine'],
      },
      spec: {
        terminationGracePeriodSeconds: plan.graceSeconds,
        domain: { devices: { disks: [{ name: 'root', disk: { bus: 'virtio' } }], interfaces: [] } },
        volumes: [{ name: 'root', containerDisk: { image: 'demo' } }],
      },
      status: {
        phase: isRunning ? 'Running' : 'Scheduled',
        nodeName: this.node.name,
        activePods: { [podUid]: this.node.name },
        runtimeUser: 0,
        foreign: { counter: 0 },
      },
    };
  }

  #onLauncherChange(launcher: SimLauncher): void {
    this.node.changed(launcher);
    if (launcher.alive) return;
    this.after(this.chance.between(500, 15_000), `kubelet removes ${launcher.options.podUid}`, () => {
      this.node.launchers.delete(launcher.options.podUid);
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
    if (!vmi.launcher.alive) {
      this.#removeIfDone(vmi.uid);
      return;
    }
    vmi.unwantedMs ??= this.scheduler.nowMs;
    vmi.launcher.terminate();
    this.after((vmi.plan.graceSeconds + 60) * 1_000, `kubelet kills ${vmi.uid}`, () => vmi.launcher.exit());
  }

  /** A deleted VMI goes when its pod has gone. */
  #removeIfDone(uid: string): void {
    const vmi = this.byUid(uid);
    const stored = vmi && this.api.get(vmi.key);
    if (!vmi || stored?.metadata.uid !== uid || !isBeingDeleted(stored)) return;
    if (this.node.launchers.has(vmi.launcher.options.podUid)) return;
    this.after(this.chance.between(10, 1_000), `controller lets ${uid} go`, () => {
      if (this.api.get(vmi.key)?.metadata.uid === uid) this.api.remove(vmi.key, 'controller');
    });
  }
}
