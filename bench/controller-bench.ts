import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { type ResourceType, resources, type VirtualMachine, type VmiSpec } from '../src/api/index.ts';
import { sleep } from '../src/base/index.ts';
import { PlayedNode } from '../test/fixtures/controller/played-node.ts';
import { monotonicMs } from '../test/fixtures/scripted-launcher-fleet.ts';
import { FigureList } from './agent-figures.ts';
import { type ApiUnderLoad, startApi } from './api-under-load.ts';
import type { RequestCounts } from './audit-log.ts';
import { addRequests, requestsOf } from './controller-figures.ts';
import { type ControllerCommand, ControllerUnderTest, leaseHolder } from './controller-under-test.ts';
import { type Figure, percentile } from './figures.ts';
import { installForOtherControllers } from './foreign-crds.ts';
import { storeCopies } from './stored-copies.ts';
import { forEach } from './vmis.ts';
import { waitFor } from './waiting.ts';

/**
 * A controller's life beside another one's: VMs at once, many that do nothing, a restart, the loss of the leader, its end. The API server is a
 * real one and each program has one of its own; kubelet, scheduler and agent are played by this process.
 */
export interface ControllerBenchOptions {
  readonly scenes: readonly ControllerScene[];
  readonly programs: readonly ControllerCommand[];
  readonly runs: number;
  /** Made at once. */
  readonly vms: number;
  /** There while nothing happens; those of the burst count. */
  readonly idleVms: number;
  /** Above 0 only bursts are measured: programs take so many turns on one API server, each time as a new process. */
  readonly turns: number;
  readonly idleSeconds: number;
  /** Pods that nobody here is concerned with; above 0 only memory is measured, with `idleVms` VMs that do not run. */
  readonly foreign: number;
  readonly logsDir: string | undefined;
  readonly say: (text: string) => void;
}

/** After the start, in this order. All but the first are among as many VMs as there shall be. */
export const controllerScenes = ['burst', 'idle', 'restart', 'fail-over'] as const;
export type ControllerScene = (typeof controllerScenes)[number];

export interface ControllerReport {
  readonly programs: readonly { readonly name: string; readonly figures: readonly Figure[] }[];
}

const account = 'kubevirt-controller';
const namespace = 'default';
const parallel = 16;
/** What is left of starts: events, the last status. */
const settleMs = 5_000;
const stallMs = 60_000;
const sayEachMs = 5_000;

interface Stage {
  readonly options: ControllerBenchOptions;
  readonly program: ControllerCommand;
  readonly api: ApiUnderLoad;
  readonly node: PlayedNode;
  readonly figures: FigureList;
  /** A replica of the program, or of another one, by its number. */
  readonly replica: (number: number, program?: ControllerCommand) => ControllerUnderTest;
}

/** All programs in turn, run by run. */
export async function controllerBench(options: ControllerBenchOptions): Promise<ControllerReport> {
  const lists = options.programs.map((program) => ({ program, figures: new FigureList() }));
  const [first] = lists;
  if (first && options.turns > 0) {
    const isOther = lists.some(({ program }) => program.name !== 'ours');
    await onStage(options, { program: first.program, isOther }, first.figures, (stage) => takeTurns(stage, lists));
    return reportOf(lists);
  }
  for (let run = 1; run <= options.runs; run++) {
    for (const { program, figures } of lists) {
      const of = { program, isOther: program.name !== 'ours' };
      await onStage(options, of, figures, options.foreign > 0 ? foreignScene : life);
      options.say(`${program.name}, run ${run}`);
    }
  }
  return reportOf(lists);
}

interface Measured {
  readonly program: ControllerCommand;
  readonly figures: FigureList;
}

function reportOf(lists: readonly Measured[]): ControllerReport {
  return { programs: lists.map(({ program, figures }) => ({ name: program.name, figures: figures.figures })) };
}

async function onStage(
  options: ControllerBenchOptions,
  { program, isOther }: { readonly program: ControllerCommand; readonly isOther: boolean },
  figures: FigureList,
  act: (stage: Stage) => Promise<void>,
): Promise<void> {
  const dir = mkdtempSync(path.join(tmpdir(), 'controller-'));
  const api = await startApi('cluster', dir);
  const node = new PlayedNode(api.admin, 'node1');
  const replicas = new Map<number, ControllerUnderTest>();
  try {
    const kubeconfig = api.controllerKubeconfig();
    await installKubevirt(api);
    if (isOther) await installForOtherControllers(api);
    else api.installController();
    await node.start();
    const replica = (number: number, of = program) => {
      const found = replicas.get(number) ?? new ControllerUnderTest(of, { dir, kubeconfig, admin: api.admin }, number);
      replicas.set(number, found);
      return found;
    };
    await act({ options, program, api, node, figures, replica });
    if (node.problems.length > 0) throw new Error(`the played node: ${node.problems.slice(0, 5).join('; ')}`);
  } catch (error) {
    for (const one of replicas.values()) options.say(one.logTail());
    throw error;
  } finally {
    for (const [number, one] of replicas) {
      if (options.logsDir) one.saveLog(path.join(options.logsDir, `${program.name}-${number}.log`));
      await one.stop('SIGKILL');
    }
    await node.stop();
    await api.stop();
    rmSync(dir, { recursive: true, force: true });
  }
}

/** What an operator makes. */
async function installKubevirt({ admin }: ApiUnderLoad): Promise<void> {
  const kubevirt = {
    apiVersion: 'kubevirt.io/v1',
    kind: 'KubeVirt',
    metadata: { name: 'kubevirt', namespace: 'kubevirt' },
  };
  const spec = { configuration: { developerConfiguration: { useEmulation: true } } };
  await admin.create(resources.kubevirts, { ...kubevirt, spec } as never);
  const status = { status: { phase: 'Deployed' } };
  await admin.patch(resources.kubevirts, kubevirt.metadata, status, 'merge', { subresource: 'status' });
}

async function life(stage: Stage): Promise<void> {
  const { figures, options, api } = stage;
  const first = stage.replica(1);
  const startMs = monotonicMs();
  await first.start();
  await first.leads();
  figures.add('start → leads', 'ms', monotonicMs() - startMs);
  await createVm(api, 'warm');
  await podOf(stage, 'warm');
  figures.add('start → first pod', 'ms', monotonicMs() - startMs);
  await sleep(settleMs);
  figures.add('RSS, one VM', 'MB', first.residentMb());
  const isWanted = (scene: ControllerScene) => options.scenes.includes(scene);
  if (isWanted('burst')) await burst(stage, first, 'vm');
  if (!controllerScenes.some((scene) => scene !== 'burst' && isWanted(scene))) return;
  await fill(stage, first);
  figures.add(`RSS with ${options.idleVms} VMs`, 'MB', first.residentMb());
  if (isWanted('idle')) await idle(stage, first);
  if (isWanted('restart')) await restart(stage, first);
  if (isWanted('fail-over')) await failOver(stage, first);
}

/** What machine and API server do to one program they do to the others, too. */
async function takeTurns(stage: Stage, lists: readonly Measured[]): Promise<void> {
  const { api, options } = stage;
  for (let turn = 1; turn <= options.turns; turn++) {
    for (const [at, { program, figures }] of lists.entries()) {
      const leader = stage.replica(at + 1, program);
      await leader.start();
      await leader.leads();
      const name = `turn${turn}-${at}`;
      await createVm(api, name);
      await podOf(stage, name);
      await sleep(settleMs);
      await burst({ ...stage, program, figures }, leader, name);
      await leader.stop('SIGTERM');
      options.say(`${program.name}, turn ${turn}`);
    }
  }
}

async function burst(stage: Stage, leader: ControllerUnderTest, prefix: string): Promise<void> {
  const { api, figures, options, node } = stage;
  const { vms } = options;
  const title = `${vms} VMs at once`;
  takeRequests(api);
  const before = leader.activity();
  const created = await createVms(stage, prefix, vms);
  const names = [...created.keys()];
  await running(stage, names);
  const msOf = (seen: ReadonlyMap<string, number>) =>
    names.map((name) => (seen.get(name) ?? Number.NaN) - (created.get(name) ?? 0));
  figures.add(`${title}: created → pod, p50`, 'ms', percentile(msOf(node.podSeenMs), 50));
  figures.add(`${title}: created → pod, p95`, 'ms', percentile(msOf(node.podSeenMs), 95));
  figures.add(`${title}: created → Running, p95`, 'ms', percentile(msOf(node.runningSeenMs), 95));
  await sleep(settleMs);
  const after = leader.activity();
  figures.add(`${title}: CPU per VM`, 'ms', (after.cpuMs - before.cpuMs) / vms);
  figures.add(`${title}: of that its first thread`, 'ms', (after.firstThreadMs - before.firstThreadMs) / vms);
  figures.add(`${title}: RSS`, 'MB', leader.residentMb());
  const counts = takeRequests(api);
  options.say(`${stage.program.name}: ${JSON.stringify(counts)}`);
  addRequests(title, counts, vms, figures);
}

/** As many as there shall be; they run. By then its code is compiled: what a start costs from there on. */
async function fill({ api, node, figures, options }: Stage, leader: ControllerUnderTest): Promise<void> {
  const more = options.idleVms - node.runningSeenMs.size;
  if (more <= 0) return;
  takeRequests(api);
  const cpuBefore = leader.activity().cpuMs;
  await running({ node, options }, [...(await createVms({ api, options }, 'more', more)).keys()]);
  const counts = await requestsUntilQuiet(api);
  figures.add(`${more} more: CPU per VM`, 'ms', (leader.activity().cpuMs - cpuBefore) / more);
  addRequests(`${more} more`, counts, more, figures);
}

/** What is left of many starts waits for the program's own rate limit. Of one that is never quiet the idle scene tells. */
async function requestsUntilQuiet(api: ApiUnderLoad): Promise<RequestCounts | undefined> {
  const all = new Map<string, number>();
  const endMs = monotonicMs() + stallMs;
  for (;;) {
    await sleep(settleMs);
    const counts = takeRequests(api);
    if (!counts) return undefined;
    for (const [name, count] of Object.entries(counts)) all.set(name, (all.get(name) ?? 0) + count);
    const { writes, events } = requestsOf(counts);
    if (writes + events === 0 || monotonicMs() > endMs) return Object.fromEntries(all);
  }
}

async function idle({ api, figures, options }: Stage, leader: ControllerUnderTest): Promise<void> {
  const title = `idle with ${options.idleVms} VMs`;
  takeRequests(api);
  const [before, beforeMs] = [leader.activity(), monotonicMs()];
  await sleep(options.idleSeconds * 1000);
  const [after, tookMs] = [leader.activity(), monotonicMs() - beforeMs];
  figures.add(`${title}: part of one core`, '%', ((after.cpuMs - before.cpuMs) / tookMs) * 100);
  figures.add(`${title}: wake-ups`, '1/s', (after.wakeUps - before.wakeUps) / (tookMs / 1000));
  figures.add(`${title}: RSS afterwards`, 'MB', leader.residentMb());
  const counts = takeRequests(api);
  if (counts) figures.add(`${title}: writes`, '1', requestsOf(counts).writes);
}

/** The only replica ends as it is asked to, and comes again. */
async function restart(stage: Stage, leader: ControllerUnderTest): Promise<void> {
  const { api, figures, options } = stage;
  const title = `restart among ${options.idleVms} VMs`;
  const signalMs = monotonicMs();
  await leader.stop('SIGTERM');
  figures.add(`${title}: stop by SIGTERM`, 'ms', monotonicMs() - signalMs);
  await createVm(api, 'meanwhile');
  takeRequests(api);
  const startMs = monotonicMs();
  await leader.start();
  const seenMs = await podOf(stage, 'meanwhile');
  figures.add(`${title}: start → pod of a VM made meanwhile`, 'ms', seenMs - startMs);
  await sleep(settleMs);
  const counts = takeRequests(api);
  options.say(`${stage.program.name}: ${JSON.stringify(counts)}`);
  if (counts) figures.add(`${title}: writes`, '1', requestsOf(counts).writes);
  figures.add(`${title}: RSS, the most`, 'MB', leader.peakMb());
}

/** A leader that is killed, and then one that goes as it is asked to, each with a replica that stands by. */
async function failOver(stage: Stage, first: ControllerUnderTest): Promise<void> {
  const { api, figures } = stage;
  const second = stage.replica(2);
  await second.start();
  await second.standsBy();
  await sleep(settleMs);
  figures.add('RSS of the replica that stands by', 'MB', second.residentMb());
  const killedMs = monotonicMs();
  await first.stop('SIGKILL');
  await createVm(api, 'killed');
  figures.add('leader killed → first pod', 'ms', (await podOf(stage, 'killed')) - killedMs);
  await first.start();
  await first.standsBy();
  await sleep(settleMs);
  const signalMs = monotonicMs();
  const stopped = second.stop('SIGTERM');
  await waitFor('the lease changes hands', stallMs, async () => {
    return (await leaseHolder(api.admin)) === first.identity || undefined;
  });
  figures.add('hand-over: SIGTERM → the other one leads', 'ms', monotonicMs() - signalMs);
  await createVm(api, 'handed');
  figures.add('hand-over: SIGTERM → first pod', 'ms', (await podOf(stage, 'handed')) - signalMs);
  await stopped;
}

/** Memory of a program in a large cluster: most of what is there does not concern it. All but one VM and one pod are copies, as a program that has seen that VM leaves it. */
async function foreignScene(stage: Stage): Promise<void> {
  const { api, figures, options } = stage;
  const { foreign, idleVms, say } = options;
  const only = stage.replica(1);
  await createVm(api, nameOf('idle', 0), 'Halted');
  await only.start();
  await waitFor('a state of the VM', stallMs, () => hasState(api, nameOf('idle', 0)));
  await sleep(settleMs);
  await only.stop('SIGTERM');
  await copies(api, resources.virtualMachines, 'idle', idleVms);
  await api.admin.create(resources.pods, foreignPod(nameOf('foreign', 0)));
  await copies(api, resources.pods, 'foreign', foreign);
  say(`${idleVms} VMs and ${foreign} pods are there`);
  const title = `${idleVms} VMs that do not run, ${foreign} pods`;
  takeRequests(api);
  const startMs = monotonicMs();
  await only.start();
  await only.leads();
  figures.add(`${title}: start → leads`, 'ms', monotonicMs() - startMs);
  await createVm(api, 'warm');
  figures.add(`${title}: start → first pod`, 'ms', (await podOf(stage, 'warm')) - startMs);
  figures.add(`${title}: RSS by then`, 'MB', only.residentMb());
  await sleep(options.idleSeconds * 1000);
  figures.add(`${title}: RSS`, 'MB', only.residentMb());
  figures.add(`${title}: RSS, the most`, 'MB', only.peakMb());
  const counts = takeRequests(api);
  say(`${stage.program.name}: ${JSON.stringify(counts)}`);
  if (counts) figures.add(`${title}: writes, with the start of one VM`, '1', requestsOf(counts).writes);
}

/** All of one length. */
const nameOf = (prefix: string, index: number) => `${prefix}-${String(index).padStart(6, '0')}`;

/** Until there are `count` of the kind, of which the first is there. */
async function copies({ admin, etcdUrl }: ApiUnderLoad, type: ResourceType, prefix: string, count: number) {
  if (etcdUrl === undefined) throw new Error('--foreign needs a real API server: --api cluster');
  const name = nameOf(prefix, 0);
  const { metadata } = await admin.get(type, { namespace, name });
  const group = type.group === '' ? '' : `/${type.group}`;
  const names = Array.from({ length: count - 1 }, (_, index) => nameOf(prefix, index + 1));
  const of = { prefix: `/registry${group}/${type.resource}`, namespace, name, uid: metadata.uid ?? '' };
  await storeCopies({ etcdUrl, ...of, names });
}

async function hasState({ admin }: ApiUnderLoad, name: string): Promise<true | undefined> {
  const vm = await admin.get<VirtualMachine>(resources.virtualMachines, { namespace, name });
  return vm.status?.printableStatus === undefined ? undefined : true;
}

function foreignPod(name: string) {
  const env = Array.from({ length: 20 }, (_, at) => ({
    name: `SETTING_${at}`,
    value: `value-${at}-${'x'.repeat(60)}`,
  }));
  return {
    ...{ apiVersion: 'v1', kind: 'Pod', metadata: { name, namespace, labels: { app: 'foreign' } } },
    spec: { nodeName: 'other', containers: [{ name: 'main', image: 'registry/foreign:1', env }] },
  };
}

function vmNamed(name: string, runStrategy: 'Always' | 'Halted'): VirtualMachine {
  const devices: NonNullable<NonNullable<VmiSpec['domain']>['devices']> = {
    disks: [{ name: 'seed', disk: { bus: 'virtio' } }],
    interfaces: [{ name: 'default', masquerade: {} }],
  };
  const spec: VmiSpec = {
    ...{ architecture: 'amd64', networks: [{ name: 'default', pod: {} }] },
    domain: {
      devices,
      machine: { type: 'q35' },
      memory: { guest: '64Mi' },
      resources: { requests: { memory: '64Mi' } },
    },
    volumes: [{ name: 'seed', cloudInitNoCloud: { userData: '#cloud-config' } }],
  };
  return {
    ...{ apiVersion: 'kubevirt.io/v1', kind: 'VirtualMachine', metadata: { name, namespace } },
    spec: { runStrategy, template: { metadata: { labels: { app: name } }, spec } },
  };
}

/** When it was asked for; monotonic. */
async function createVm(
  { admin }: ApiUnderLoad,
  name: string,
  strategy: 'Always' | 'Halted' = 'Always',
): Promise<number> {
  const atMs = monotonicMs();
  await admin.create(resources.virtualMachines, vmNamed(name, strategy));
  return atMs;
}

/** When each was asked for; monotonic. */
async function createVms(
  { api, options }: Pick<Stage, 'api' | 'options'>,
  prefix: string,
  count: number,
): Promise<Map<string, number>> {
  const created = new Map<string, number>();
  const names = Array.from({ length: count }, (_, index) => `${prefix}-${index}`);
  await forEachShown('VMs', names, options, async (name) => created.set(name, await createVm(api, name)));
  return created;
}

/** What takes long says how far it has come. */
async function forEachShown<T>(
  what: string,
  items: readonly T[],
  { say }: Pick<ControllerBenchOptions, 'say'>,
  work: (item: T) => Promise<unknown>,
): Promise<void> {
  const sinceMs = monotonicMs();
  let [made, saidMs] = [0, sinceMs];
  await forEach(items, parallel, async (item) => {
    await work(item);
    made++;
    if (monotonicMs() - saidMs < sayEachMs) return;
    saidMs = monotonicMs();
    say(`${made} of ${items.length} ${what}, ${Math.round((made * 1000) / (saidMs - sinceMs))} a second`);
  });
}

/** When it was seen; monotonic. */
function podOf({ node }: Stage, name: string): Promise<number> {
  return waitFor(`the pod of ${name}`, stallMs, async () => node.podSeenMs.get(name));
}

/** Gives up when no more run for a minute. */
async function running({ node, options }: Pick<Stage, 'node' | 'options'>, names: readonly string[]): Promise<void> {
  const missing = () => names.filter((name) => !node.runningSeenMs.has(name)).length;
  let [last, sinceMs, saidMs] = [missing(), monotonicMs(), monotonicMs()];
  while (missing() > 0) {
    if (missing() !== last) [last, sinceMs] = [missing(), monotonicMs()];
    if (monotonicMs() - saidMs > sayEachMs) {
      saidMs = monotonicMs();
      options.say(`${last} of ${names.length} VMs do not run yet`);
    }
    if (monotonicMs() - sinceMs > stallMs) throw new Error(`${missing()} of ${names.length} VMs do not run`);
    await sleep(50);
  }
}

/** Of the controller, since the last call. */
function takeRequests(api: ApiUnderLoad) {
  const counts = api.requestsByAccount();
  return counts && (counts.get(account) ?? {});
}
