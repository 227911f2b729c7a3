import { readdirSync } from 'node:fs';
import path from 'node:path';
import { resources, type VirtualMachineInstance } from '../src/api/index.ts';
import { sleep } from '../src/base/index.ts';
import { type EventOrder, eventOrders } from '../test/fixtures/scripted-guest.ts';
import type { LauncherFleet } from '../test/fixtures/scripted-launcher-fleet.ts';
import { readAgentState } from './agent-state.ts';
import type { AgentUnderTest } from './agent-under-test.ts';
import type { ApiUnderLoad } from './api-under-load.ts';
import type { CuttableLink } from './cuttable-link.ts';
import { randomOf, shuffled } from './random.ts';
import { createVmis, deleteVmis, newVmi, podUidOf, schedule } from './vmis.ts';
import { waitFor } from './waiting.ts';

/** What must not grow, read while nothing runs, after a full garbage collection. */
export interface SoakSample {
  readonly starts: number;
  readonly heapKb: number;
  readonly openFiles: number;
  /** Sockets, pipes, watchers and timers that Node.js holds. */
  readonly resources: number;
  /** Entries of maps per key that should be empty. */
  readonly leftovers: number;
  readonly ghostRecords: number;
}

export interface SoakOptions {
  readonly nodeName: string;
  readonly namespace: string;
  readonly cycles: number;
  readonly vmsPerCycle: number;
  readonly seed: number;
  /** Cycles between two samples. */
  readonly sampleEvery: number;
  readonly say: (text: string) => void;
}

export interface SoakParts {
  readonly api: ApiUnderLoad;
  readonly agent: AgentUnderTest;
  readonly fleet: LauncherFleet;
  readonly link: CuttableLink;
}

export interface SoakResult {
  readonly samples: readonly SoakSample[];
  /** VMIs that did not get where they belong, with the phase they were in. */
  readonly astray: readonly string[];
}

const phaseLimitMs = 40_000;

/** So that SIGUSR2 makes an agent of ours collect its garbage, all of it. */
export const collectingNode = `${process.execPath} --expose-gc --import data:text/javascript,process.on('SIGUSR2',()=>globalThis.gc())`;

/** VMIs come and go, some launchers die, connections to the API are cut. */
export async function runSoak(options: SoakOptions, parts: SoakParts): Promise<SoakResult> {
  const random = randomOf(options.seed);
  const samples: SoakSample[] = [];
  const astray: string[] = [];
  for (let cycle = 1; cycle <= options.cycles; cycle++) {
    astray.push(...(await oneCycle(options, parts, cycle, random)));
    if (cycle % options.sampleEvery !== 0) continue;
    const sample = await takeSample(parts, cycle * options.vmsPerCycle);
    samples.push(sample);
    options.say(`${sample.starts} starts: ${JSON.stringify(sample)}`);
  }
  return { samples, astray };
}

/** A tenth of the launchers dies, half of those before its VMI runs. */
async function oneCycle(
  options: SoakOptions,
  parts: SoakParts,
  cycle: number,
  random: () => number,
): Promise<string[]> {
  const { namespace, nodeName, vmsPerCycle } = options;
  const { api, fleet, link } = parts;
  const names = shuffled(
    Array.from({ length: vmsPerCycle }, (_, index) => `c${cycle}-${index}`),
    random,
  );
  const orders: readonly EventOrder[] = eventOrders;
  await fleet.add(
    names.map((name) => ({
      podUid: podUidOf(name),
      order: orders[Math.floor(random() * orders.length)] ?? 'define-first',
      bootMs: Math.round(random() * 20),
    })),
  );
  await createVmis(
    api.admin,
    names.map((name) => newVmi(namespace, name)),
  );
  const dead = Math.ceil(vmsPerCycle / 20);
  const [early, late, rest] = [names.slice(0, dead), names.slice(dead, 2 * dead), names.slice(2 * dead)];
  const scheduling = Promise.all(names.map((name) => schedule(api.admin, namespace, name, nodeName)));
  await sleep(random() * 30);
  await fleet.kill(early.map(podUidOf));
  await scheduling;
  if (cycle % 2 === 0) link.cut();
  const astray = [...(await notIn(parts, namespace, [...late, ...rest], 'Running'))];
  await fleet.kill(late.map(podUidOf));
  if (cycle % 3 === 0) link.cut();
  astray.push(...(await notIn(parts, namespace, [...early, ...late], 'Failed')));
  await deleteVmis(api.admin, namespace, names);
  await waitFor('end of all launchers', phaseLimitMs, async () => {
    await sleep(50);
    return (await fleet.report()).length === 0 || undefined;
  });
  return astray;
}

/** Waits until all are in `phase`; gives those that are not in the end. */
async function notIn(
  { api }: SoakParts,
  namespace: string,
  names: readonly string[],
  phase: string,
): Promise<string[]> {
  const end = performance.now() + phaseLimitMs;
  for (;;) {
    const { items } = await api.admin.list<VirtualMachineInstance>(resources.virtualMachineInstances, { namespace });
    const phases = new Map(items.map(({ metadata, status }) => [metadata.name, status?.phase]));
    const missing = names.filter((name) => phases.get(name) !== phase);
    if (missing.length === 0) return [];
    if (performance.now() > end) return missing.map((name) => `${name} is ${phases.get(name)}, not ${phase}`);
    await sleep(50);
  }
}

/** What is on its way when the last VMI went (a pipe's last word, an event) has ended long before. */
const calmLimitMs = 10_000;

async function takeSample({ agent }: SoakParts, starts: number): Promise<SoakSample> {
  const state = async () => readAgentState(agent.privateDir);
  await waitFor('a calm agent', calmLimitMs, async () => {
    const { queue, remembered } = await state();
    await sleep(100);
    return queue.running + queue.queued + remembered === 0 || undefined;
  }).catch(() => undefined);
  await sleep(1_500);
  for (let round = 0; round < 2; round++) {
    agent.signal('SIGUSR2');
    await sleep(150);
  }
  const { memory, openFiles, resources: held, queue, backingOff, remembered, unknownDomains } = await state();
  return {
    starts,
    heapKb: Math.round(memory.heapUsedBytes / 1024),
    openFiles,
    resources: Object.values(held).reduce((sum, count) => sum + count, 0),
    leftovers: queue.running + queue.queued + backingOff.length + remembered + unknownDomains.length,
    ghostRecords: readdirSync(path.join(agent.privateDir, 'ghost-records')).length,
  };
}
