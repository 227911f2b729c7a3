import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { isFinalMigration, resources, type VirtualMachineInstance } from '../src/api/index.ts';
import { sleep } from '../src/base/index.ts';
import { readAgentState } from './agent-state.ts';
import type { AgentProgram } from './agent-under-test.ts';
import type { ApiKind } from './api-under-load.ts';
import type { RequestCounts } from './audit-log.ts';
import { type Figure, percentile, type Unit } from './figures.ts';
import { cpuSeconds, residentMegabytes } from './migration-bench.ts';
import { faultsOf, type Move, reportsOf } from './migration-faults.ts';
import { MigrationWatch, mostAtOnce, mostOverlapping, type Sighting, spansOf } from './migration-limits.ts';
import { PlayedCluster, type PlayedNode } from './played-cluster.ts';
import { forEach } from './vmis.ts';
import { waitFor } from './waiting.ts';

export interface MigrationsAtOnceOptions {
  readonly program: AgentProgram;
  readonly api: ApiKind | undefined;
  readonly runs: number;
  readonly vms: number;
  readonly migrations: number;
  /** Directory for logs of agents and controller; undefined: they are thrown away. */
  readonly logsDir: string | undefined;
  readonly say: (text: string) => void;
}

const nodes = 3;
const memoryBytes = 4 * 1024 * 1024;
/** Upstream's defaults. */
const limits = { cluster: 5, node: 2 };
const longestMs = 300_000;
const settleMs = 30_000;
const calmMs = 3_000;

/**
 * Many migrations at once among many guests, and a node that is drained: agents and virt-controller as programs, a real kube-apiserver, scripted
 * launchers with processes and sockets of their own, whose memory goes through the agents' proxies. Throws when a limit is not kept, or
 * anything is lost or left.
 */
export async function migrationsAtOnceBench(options: MigrationsAtOnceOptions): Promise<Figure[]> {
  const samples = new Map<string, Figure & { samples: number[] }>();
  for (let run = 1; run <= options.runs; run++) {
    for (const { name, unit, value } of await oneRun(options, run)) {
      const figure = samples.get(name) ?? { name, unit, samples: [] };
      samples.set(name, figure);
      figure.samples.push(value);
    }
  }
  return [...samples.values()];
}

interface Sample {
  readonly name: string;
  readonly unit: Unit;
  readonly value: number;
}

async function oneRun(options: MigrationsAtOnceOptions, run: number): Promise<Sample[]> {
  const { say, program, api, logsDir } = options;
  const dir = mkdtempSync(path.join(tmpdir(), 'o-'));
  const cluster = await PlayedCluster.start({ dir, api, program, nodes, memoryBytes });
  const watch = new MigrationWatch(cluster.api.admin, 'default');
  try {
    await watch.start();
    const scenes = new Scenes(cluster, watch, options);
    await scenes.fill();
    say(`run ${run}: ${options.vms} guests run`);
    const at = await scenes.atOnce();
    say(`run ${run}: ${options.migrations} migrations at once are over`);
    const drained = await scenes.drained();
    say(`run ${run}: the drain is over`);
    return [...at, ...drained];
  } catch (error) {
    say(cluster.controller.output.split('\n').slice(-15).join('\n'));
    for (const { agent } of cluster.nodes) say(agent.logTail(15));
    throw error;
  } finally {
    if (logsDir) for (const { agent, name } of cluster.nodes) agent.saveLog(path.join(logsDir, `${name}-${run}.log`));
    await watch.stop();
    await cluster.stop();
    rmSync(dir, { recursive: true, force: true });
  }
}

/** What was used up at one moment. */
interface Usage {
  readonly agents: readonly { readonly cpuMs: number; readonly residentMb: number }[];
  readonly controllerMs: number;
  readonly controllerMb: number;
}

/** A part of the nodes whose agents have one figure. */
interface Group {
  readonly title: string;
  readonly nodes: readonly PlayedNode[];
  /** Of the migrations, counted once per side. */
  readonly sides: number;
}

class Scenes {
  readonly #cluster: PlayedCluster;
  readonly #watch: MigrationWatch;
  readonly #options: MigrationsAtOnceOptions;
  /** Those of the first scene that begin on the first node: a hundred of two hundred are left for the drain. */
  readonly #fromFirst: number;

  constructor(cluster: PlayedCluster, watch: MigrationWatch, options: MigrationsAtOnceOptions) {
    this.#cluster = cluster;
    this.#watch = watch;
    this.#options = options;
    this.#fromFirst = Math.ceil(options.migrations / nodes);
  }

  /** Half of the guests on the first node, and the rest on the others. */
  async fill(): Promise<void> {
    const { vms } = this.#options;
    const onFirst = Math.floor(vms / 2) + this.#fromFirst;
    await this.#cluster.scheduleOnto('node1');
    await this.#create(0, onFirst);
    await this.#cluster.scheduleOnto('node2', 'node3');
    await this.#create(onFirst, vms);
  }

  async atOnce(): Promise<Sample[]> {
    const { migrations } = this.#options;
    const movers = this.#cluster.nodes.flatMap(({ name }, at) => {
      const here = this.#watch.vmis.filter(({ status }) => status?.nodeName === name);
      return here.slice(0, at === 0 ? this.#fromFirst : Math.ceil((migrations - this.#fromFirst) / (nodes - 1)));
    });
    const moving = movers.slice(0, migrations).map(({ metadata }) => metadata.name);
    if (moving.length < migrations)
      throw new Error(`${migrations} guests are to move, and ${moving.length} are where they can`);
    const groups = [{ title: 'an agent', nodes: this.#cluster.nodes, sides: 2 * migrations }];
    return this.#scene(`${migrations} at once`, moving, groups, async () => {
      const { admin } = this.#cluster.api;
      await forEach(moving, migrations, (name) => admin.create(resources.migrations, migrationOf(name)));
    });
  }

  async drained(): Promise<Sample[]> {
    const [first, ...others] = this.#cluster.nodes;
    const moving = this.#watch.vmis.filter(({ status }) => status?.nodeName === first?.name);
    const names = moving.map(({ metadata }) => metadata.name);
    const groups = [
      { title: "the source's agent", nodes: first ? [first] : [], sides: names.length },
      { title: "a target's agent", nodes: others, sides: names.length },
    ];
    return this.#scene(`drain of ${names.length}`, names, groups, () => this.#cluster.drain('node1'));
  }

  async #create(from: number, to: number): Promise<void> {
    const numbers = Array.from({ length: to - from }, (_, at) => from + at);
    await forEach(numbers, 16, (number) =>
      this.#cluster.api.admin.create(resources.virtualMachineInstances, guest(number)),
    );
    await waitFor('all guests to run and to be able to move', longestMs, async () => {
      return this.#watch.vmis.filter(isReady).length === to || undefined;
    });
  }

  async #scene(
    title: string,
    moving: readonly string[],
    groups: readonly Group[],
    begin: () => Promise<void>,
  ): Promise<Sample[]> {
    const moves = this.#moves(moving);
    const rest = this.#watch.vmis.filter(({ metadata }) => !moving.includes(metadata.name));
    const earlier = new Set(this.#watch.migrations.map(({ metadata }) => metadata.name));
    const own = () => this.#watch.migrations.filter(({ metadata }) => !earlier.has(metadata.name));
    await this.#calm();
    const before = this.#usage();
    this.#cluster.api.requestsByAccount();
    this.#watch.take();
    const beganMs = performance.now();
    await begin();
    await waitFor(`${title}: the end of all migrations`, longestMs, async () => {
      const all = own();
      return (all.length >= moving.length && all.every(isFinalMigration)) || undefined;
    });
    const tookMs = performance.now() - beganMs;
    const sightings = this.#watch.take();
    const limit = this.#keptLimits(title, sightings, await reportsOf(this.#cluster, moves));
    await this.#settled(title, moves, rest);
    const spans = [...spansOf(sightings)].filter(([name]) => !earlier.has(name)).map(([, span]) => span);
    const each = (percent: number) =>
      percentile(
        spans.map(({ beganMs, endedMs }) => endedMs - beganMs),
        percent,
      );
    const one = (name: string, unit: Unit, value: number) => ({ name: `${title}: ${name}`, unit, value });
    return [
      one('until the last has ended', 'ms', tookMs),
      one('one migration, p50', 'ms', each(50)),
      one('one migration, p95', 'ms', each(95)),
      ...limit.map(({ name, value }) => one(name, '1', value)),
      ...this.#used(before, this.#usage(), groups, moving.length).map(({ name, unit, value }) =>
        one(name, unit, value),
      ),
      ...this.#writes(moving.length).map(({ name, value }) => one(name, '1', value)),
      ...(await this.#delays(groups)).map(({ name, value }) => one(name, 'ms', value)),
    ];
  }

  /** What was done before is written to its end: events wait their turn. */
  async #calm(): Promise<void> {
    await waitFor('agents and controller to be calm', longestMs, async () => {
      this.#cluster.api.requestsByAccount();
      await sleep(calmMs);
      const counts = [...(this.#cluster.api.requestsByAccount()?.values() ?? [])];
      return counts.every((each) => writesOf(each, () => true) === 0) || undefined;
    });
  }

  #moves(names: readonly string[]): Move[] {
    return this.#watch.vmis
      .filter(({ metadata }) => names.includes(metadata.name))
      .map(({ metadata, status }) => {
        const pod = this.#cluster.kubelets.pods.find((each) => isOf(each, metadata.uid) && isActive(each));
        return {
          name: metadata.name,
          uid: metadata.uid ?? '',
          from: status?.nodeName ?? '',
          pod: pod?.metadata.uid ?? '',
        };
      });
  }

  /** In the API by each state of the cluster, and by what launchers carried at a time. */
  #keptLimits(title: string, sightings: readonly Sighting[], moves: Awaited<ReturnType<typeof reportsOf>>) {
    const most = mostAtOnce(sightings);
    const carried = mostOverlapping(moves);
    const ofNode = Math.max(
      ...this.#cluster.nodes.map(({ name }) => mostOverlapping(moves.filter((m) => m.from === name))),
    );
    if (most.cluster > limits.cluster || most.node > limits.node || carried > limits.cluster || ofNode > limits.node) {
      throw new Error(`${title}: limits are not kept: ${JSON.stringify({ most, carried, ofNode })}`);
    }
    return [
      { name: `under way at once in the cluster (limit ${limits.cluster})`, value: most.cluster },
      { name: `under way at once from one node (limit ${limits.node})`, value: most.node },
      { name: 'launchers that sent at once', value: carried },
    ];
  }

  /** What ends after the last migration's end has a little time. */
  async #settled(title: string, moves: readonly Move[], rest: readonly VirtualMachineInstance[]): Promise<void> {
    let faults: readonly string[] = ['nothing was looked at'];
    await waitFor('nothing to be left', settleMs, async () => {
      faults = await faultsOf(this.#cluster, this.#watch, { moves, rest, memoryBytes });
      return faults.length === 0 || undefined;
    }).catch(() => {
      throw new Error(`${title}: ${faults.length} faults:\n${faults.slice(0, 20).join('\n')}`);
    });
  }

  #usage(): Usage {
    const { nodes: all, controller } = this.#cluster;
    return {
      agents: all.map(({ agent }) => ({ cpuMs: agent.cpuMs(), residentMb: agent.residentMb() })),
      controllerMs: cpuSeconds(controller.pid ?? 0) * 1_000,
      controllerMb: residentMegabytes(controller.pid ?? 0),
    };
  }

  #used(before: Usage, after: Usage, groups: readonly Group[], migrations: number): Sample[] {
    const sum = (group: Group, usage: Usage, pick: (of: Usage['agents'][number]) => number) =>
      this.#cluster.nodes.reduce((all, node, at) => {
        const used = usage.agents[at];
        return group.nodes.includes(node) && used ? all + pick(used) : all;
      }, 0);
    const cpu = ({ cpuMs }: Usage['agents'][number]) => cpuMs;
    const resident = ({ residentMb }: Usage['agents'][number]) => residentMb;
    const ofAgents = groups.flatMap((group): Sample[] => [
      {
        ...{ name: `CPU of ${group.title} per migration, with its proxies`, unit: 'ms' },
        value: (sum(group, after, cpu) - sum(group, before, cpu)) / group.sides,
      },
      { name: `RSS of ${group.title} before`, unit: 'MB', value: sum(group, before, resident) / group.nodes.length },
      { name: `RSS of ${group.title} after`, unit: 'MB', value: sum(group, after, resident) / group.nodes.length },
    ]);
    return [
      ...ofAgents,
      {
        ...{ name: 'CPU of virt-controller per migration', unit: 'ms' },
        value: (after.controllerMs - before.controllerMs) / migrations,
      },
      { name: 'RSS of virt-controller before', unit: 'MB', value: before.controllerMb },
      { name: 'RSS of virt-controller after', unit: 'MB', value: after.controllerMb },
    ];
  }

  #writes(migrations: number): { readonly name: string; readonly value: number }[] {
    const requests = this.#cluster.api.requestsByAccount();
    if (!requests) return [];
    const accounts = { agents: 'kubevirt-handler', 'virt-controller': 'kubevirt-controller' };
    return Object.entries(accounts).flatMap(([who, account]) => {
      const counts = requests.get(account) ?? {};
      this.#options.say(`${who}, requests per migration: ${perMigration(counts, migrations)}`);
      const [events, others] = [writesOf(counts, isEvent), writesOf(counts, (resource) => !isEvent(resource))];
      return [
        { name: `writes of ${who} per migration`, value: others / migrations },
        { name: `events of ${who} per migration`, value: events / migrations },
        { name: `requests of ${who} that were refused`, value: refusedOf(counts) },
      ];
    });
  }

  async #delays(groups: readonly Group[]): Promise<{ readonly name: string; readonly value: number }[]> {
    const delays = groups.map(async ({ title, nodes: own }) => {
      const states = await Promise.all(own.map(({ agent }) => readAgentState(agent.privateDir)));
      const worst = (pick: 'p99' | 'max') => Math.max(...states.map(({ eventLoopDelayMs }) => eventLoopDelayMs[pick]));
      return [
        { name: `event-loop delay of ${title} since its start, p99`, value: worst('p99') },
        { name: `event-loop delay of ${title} since its start, max`, value: worst('max') },
      ];
    });
    return (await Promise.all(delays)).flat();
  }
}

const isEvent = (resource: string) => resource.startsWith('events');
/** Heartbeats, leases and questions about rights are of no migration. */
const background = /^(create|update|patch|delete) (?!nodes|leases|\w+reviews)/;

function writesOf(counts: RequestCounts, isMeant: (resource: string) => boolean): number {
  const meant = Object.entries(counts).filter(([name]) => {
    return background.test(name) && isMeant(name.slice(name.indexOf(' ') + 1));
  });
  return meant.reduce((sum, [, count]) => sum + count, 0);
}

function refusedOf(counts: RequestCounts): number {
  return Object.entries(counts).reduce((sum, [name, count]) => sum + (name.endsWith(')') ? count : 0), 0);
}

function perMigration(counts: RequestCounts, migrations: number): string {
  const sorted = Object.entries(counts).sort(([, one], [, other]) => other - one);
  return sorted.map(([name, count]) => `${name} ${(count / migrations).toFixed(2)}`).join(', ');
}

function isReady({ status }: VirtualMachineInstance): boolean {
  const migratable = status?.conditions?.find(({ type }) => type === 'LiveMigratable');
  return status?.phase === 'Running' && migratable?.status === 'True';
}

type LauncherPod = {
  readonly metadata: { readonly labels?: Readonly<Record<string, string>> };
  readonly status?: { readonly phase?: string };
};

const isOf = ({ metadata }: LauncherPod, uid: string | undefined) =>
  metadata.labels?.['kubevirt.io/created-by'] === uid;
const isActive = ({ status }: LauncherPod) => status?.phase !== 'Succeeded' && status?.phase !== 'Failed';

function guest(number: number): VirtualMachineInstance {
  return {
    apiVersion: 'kubevirt.io/v1',
    kind: resources.virtualMachineInstances.kind,
    metadata: { name: `vm${number}`, namespace: 'default' },
    spec: {
      domain: { memory: { guest: '64Mi' }, devices: { autoattachPodInterface: false } },
      evictionStrategy: 'LiveMigrate',
    },
  };
}

function migrationOf(vmiName: string) {
  const metadata = { name: `job-${vmiName}`, namespace: 'default' };
  return { apiVersion: 'kubevirt.io/v1', kind: resources.migrations.kind, metadata, spec: { vmiName } };
}
