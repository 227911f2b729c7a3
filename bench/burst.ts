import { sleep } from '../src/base/index.ts';
import type { EventOrder } from '../test/fixtures/scripted-guest.ts';
import { type FloodResult, type LauncherFleet, monotonicMs } from '../test/fixtures/scripted-launcher-fleet.ts';
import type { AgentUnderTest } from './agent-under-test.ts';
import type { ApiUnderLoad } from './api-under-load.ts';
import type { RequestCounts } from './audit-log.ts';
import { podAddressOf, withoutNetwork } from './pod-networks.ts';
import { randomOf, shuffled } from './random.ts';
import { createVmis, deleteVmis, newVmi, PhaseTimes, podUidOf, schedule, type VmiNetwork } from './vmis.ts';

export interface BurstOptions {
  readonly namespace: string;
  readonly nodeName: string;
  /** VMIs are named `<prefix>-<number>`. */
  readonly prefix: string;
  readonly vms: number;
  /** Of all VMIs; with one each launcher has a network namespace of its own. */
  readonly network: VmiNetwork;
  readonly seed: number;
  /** Between two hand-overs; 0: all at once. */
  readonly pauseMs: number;
  /** Orders that the launchers are given, mixed by the seed. */
  readonly orders: readonly EventOrder[];
  /** Without any progress for so long the missing ones are lost. */
  readonly stallMs: number;
}

export interface BurstResult {
  readonly names: readonly string[];
  /** Of those that got there. */
  readonly syncMs: readonly number[];
  readonly runningMs: readonly number[];
  /** Do not run, or run without the network that they ask for. */
  readonly lost: readonly string[];
  /** With that of the agent's helpers: programs that it started and that have ended. */
  readonly cpuMsPerStart: number;
  readonly helperMsPerStart: number;
  readonly residentMb: number;
  readonly syncsPerStart: number;
  readonly requests: RequestCounts | undefined;
}

const settleMs = 3_000;

/** N VMIs with ready launchers become Scheduled; ends when all run or nothing moves any more. */
export async function runBurst(
  options: BurstOptions,
  api: ApiUnderLoad,
  agent: AgentUnderTest,
  fleet: LauncherFleet,
): Promise<BurstResult> {
  const { namespace, prefix, vms, network, nodeName, seed, pauseMs, orders } = options;
  const random = randomOf(seed);
  const names = shuffled(
    Array.from({ length: vms }, (_, index) => `${prefix}-${index}`),
    random,
  );
  const specs = names.map((name, index) => ({
    podUid: podUidOf(name),
    ...(network !== 'none' && { address: podAddressOf(index) }),
    order: orders[Math.floor(random() * orders.length)] ?? 'define-first',
    bootMs: 2 + Math.round(random() * 8),
  }));
  await fleet.add(specs);
  await createVmis(
    api.admin,
    names.map((name) => newVmi(namespace, name, network)),
  );
  const phases = new PhaseTimes(api.admin, namespace);
  await phases.start();
  await sleep(500);
  api.requests();
  const before = agent.cpu();
  const handOvers: Promise<void>[] = [];
  for (const name of names) {
    handOvers.push(schedule(api.admin, namespace, name, nodeName));
    if (pauseMs > 0) await sleep(pauseMs);
  }
  await Promise.all(handOvers);
  await untilAllRun(phases, names, options.stallMs);
  await sleep(settleMs);
  const after = agent.cpu();
  const reports = new Map((await fleet.report()).map((report) => [report.podUid, report]));
  await phases.stop();
  const reportOf = (name: string) => reports.get(podUidOf(name));
  const pidOf = (name: string) => reportOf(name)?.pid ?? 0;
  const bare = network === 'none' ? [] : await withoutNetwork(names, pidOf);
  const syncs = names.reduce((sum, name) => sum + (reportOf(name)?.calls.syncVirtualMachine?.count ?? 0), 0);
  return {
    names,
    syncMs: names.flatMap((name) => sinceScheduled(phases, name, reportOf(name)?.calls.syncVirtualMachine?.firstMs)),
    runningMs: names.flatMap((name) => sinceScheduled(phases, name, phases.at(name, 'Running'))),
    lost: names.filter((name) => phases.at(name, 'Running') === undefined || bare.includes(name)),
    cpuMsPerStart: (after.ownMs + after.helpersMs - before.ownMs - before.helpersMs) / vms,
    helperMsPerStart: (after.helpersMs - before.helpersMs) / vms,
    residentMb: agent.residentMb(),
    syncsPerStart: syncs / vms,
    requests: api.requests(),
  };
}

/** Two programs read the clock: one that is first by chance may seem to be early by parts of a millisecond. */
function sinceScheduled(phases: PhaseTimes, name: string, atMs: number | undefined): number[] {
  const scheduledMs = phases.at(name, 'Scheduled');
  return scheduledMs === undefined || atMs === undefined ? [] : [Math.max(0, atMs - scheduledMs)];
}

/** Of these only: an earlier burst's VMIs may run beside them. */
async function untilAllRun(phases: PhaseTimes, names: readonly string[], stallMs: number): Promise<void> {
  const count = () => names.filter((name) => phases.at(name, 'Running') !== undefined).length;
  let [best, movedMs] = [0, monotonicMs()];
  for (let running = count(); running < names.length; running = count()) {
    if (running > best) [best, movedMs] = [running, monotonicMs()];
    if (monotonicMs() - movedMs > stallMs) return;
    await sleep(20);
  }
}

/** The agent's requests while nothing happens. */
export async function steadyRequests(api: ApiUnderLoad, seconds: number): Promise<RequestCounts | undefined> {
  api.requests();
  await sleep(seconds * 1000);
  return api.requests();
}

export async function floodEvents(
  agent: AgentUnderTest,
  fleet: LauncherFleet,
  eventsEach: number,
): Promise<FloodResult & { readonly cpuMsPerEvent: number }> {
  const beforeMs = agent.cpuMs();
  const result = await fleet.flood(eventsEach);
  return { ...result, cpuMsPerEvent: (agent.cpuMs() - beforeMs) / result.taken };
}

const endLimitMs = 30_000;

/** Deletes VMIs of a burst; gives how many launchers the agent did not end, which are killed then. */
export async function endBurst(
  api: ApiUnderLoad,
  fleet: LauncherFleet,
  namespace: string,
  names: readonly string[],
): Promise<number> {
  await deleteVmis(api.admin, namespace, names);
  const pods = new Set(names.map(podUidOf));
  const left = async () => (await fleet.report()).map(({ podUid }) => podUid).filter((podUid) => pods.has(podUid));
  const end = performance.now() + endLimitMs;
  while ((await left()).length > 0 && performance.now() < end) await sleep(200);
  const forgotten = await left();
  await fleet.kill(forgotten);
  return forgotten.length;
}
