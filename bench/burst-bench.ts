import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { labels } from '../src/api/index.ts';
import { sleep } from '../src/base/index.ts';
import { LauncherFleet } from '../test/fixtures/scripted-launcher-fleet.ts';
import { type AgentProgram, AgentUnderTest } from './agent-under-test.ts';
import { type ApiKind, type ApiUnderLoad, startApi } from './api-under-load.ts';
import { type BurstResult, endBurst, floodEvents, runBurst, steadyRequests } from './burst.ts';
import { type BurstSample, figuresOf } from './burst-figures.ts';
import type { Figure } from './figures.ts';
import { installForOthers } from './foreign-crds.ts';
import { measureRestart } from './restart.ts';
import { createVmis, deleteVmis, newVmi, type VmiNetwork } from './vmis.ts';

export interface BurstBenchOptions {
  readonly programs: readonly AgentProgram[];
  readonly vms: number;
  /** Of the VMIs. */
  readonly network: VmiNetwork;
  readonly runs: number;
  readonly api: ApiKind | undefined;
  readonly seed: number;
  readonly steadySeconds: number;
  /** VMIs of other nodes in the cluster; 0: not measured. */
  readonly foreign: number;
  /** Launchers of the large restart; 0: not measured. */
  readonly restartVms: number;
  /** Starts one by one; 0: not measured. */
  readonly paced: number;
  /** Notify events that each launcher sends at once after the burst; at most what an agent grants to each. */
  readonly eventsEach: number;
  /** The agents have a pod's service account instead of a kubeconfig; a real kube-apiserver only. */
  readonly asServiceAccount: boolean;
  /** Directory for the agents' logs; undefined: they are thrown away. */
  readonly logsDir: string | undefined;
  readonly say: (text: string) => void;
}

export interface BurstReport {
  readonly api: ApiKind;
  readonly programs: readonly { readonly name: string; readonly figures: readonly Figure[] }[];
}

const nodeName = 'bench';
const pacedPauseMs = 200;
const stallMs = 15_000;
const idleMs = 3_000;
const hungLaunchers = 10;

interface Bench {
  readonly options: BurstBenchOptions;
  readonly api: ApiUnderLoad;
  readonly dir: string;
}

/** All programs in turn, run by run, against one API server. */
export async function burstBench(options: BurstBenchOptions): Promise<BurstReport> {
  const dir = mkdtempSync(path.join(tmpdir(), 'bench-'));
  const api = await startApi(options.api, dir, nodeName);
  const bench = { options, api, dir };
  const samples = new Map<string, BurstSample[]>(options.programs.map(({ name }) => [name, []]));
  const add = (program: AgentProgram, sample: BurstSample) => samples.get(program.name)?.push(sample);
  try {
    if (options.programs.some(({ name }) => name !== 'ours')) await installForOthers(api);
    for (let run = 1; run <= options.runs; run++) {
      for (const program of options.programs) add(program, await oneRun(bench, program, run));
    }
    if (options.paced > 0) for (const program of options.programs) add(program, await pacedRun(bench, program));
    if (options.restartVms > 0) for (const program of options.programs) add(program, await restartRun(bench, program));
    if (options.foreign > 0) {
      await createForeign(bench);
      for (const program of options.programs) add(program, await foreignRun(bench, program));
    }
  } finally {
    await api.stop();
    rmSync(dir, { recursive: true, force: true });
  }
  const programs = options.programs.map(({ name }) => ({ name, figures: figuresOf(samples.get(name) ?? []) }));
  return { api: api.kind, programs };
}

interface Scene {
  readonly agent: AgentUnderTest;
  readonly fleet: LauncherFleet;
  readonly heartbeatMs: number;
  readonly idleMb: number;
}

/** A fresh agent on fresh directories with a fresh fleet; everything is gone afterwards. */
async function onStage<T>(
  bench: Bench,
  program: AgentProgram,
  namespace: string,
  act: (scene: Scene) => Promise<{ readonly names: readonly string[]; readonly result: T }>,
): Promise<T> {
  const { api } = bench;
  const dir = path.join(bench.dir, namespace);
  const agent = new AgentUnderTest(program, {
    dir,
    nodeName,
    kubeconfig: api.handlerKubeconfig,
    asServiceAccount: bench.options.asServiceAccount && api.kind === 'cluster',
    admin: api.admin,
  });
  const fleet = await LauncherFleet.start(agent.podsDir);
  try {
    const { heartbeatMs } = await agent.start();
    await sleep(idleMs);
    const { names, result } = await act({ agent, fleet, heartbeatMs, idleMb: agent.residentMb() });
    await deleteVmis(api.admin, namespace, names);
    await agent.stop();
    return result;
  } catch (error) {
    bench.options.say(agent.logTail());
    throw error;
  } finally {
    if (bench.options.logsDir) agent.saveLog(path.join(bench.options.logsDir, `${namespace}.log`));
    await agent.dispose();
    await fleet.stop();
  }
}

function burst(
  bench: Bench,
  namespace: string,
  vms: number,
  seed: number,
  pauseMs: number,
  scene: Scene,
  prefix = 'vm',
): Promise<BurstResult> {
  const { network } = bench.options;
  const orders = ['define-first'] as const;
  const options = { namespace, nodeName, prefix, vms, network, seed, pauseMs, orders, stallMs };
  return runBurst(options, bench.api, scene.agent, scene.fleet);
}

async function oneRun(bench: Bench, program: AgentProgram, run: number): Promise<BurstSample> {
  const { vms, seed, steadySeconds, say } = bench.options;
  const namespace = namespaceOf(program, `r${run}`);
  await makeNamespace(bench, namespace);
  return onStage(bench, program, namespace, async (scene) => {
    const result = await burst(bench, namespace, vms, seed + run, 0, scene);
    const loaded = scene.agent.residentMb();
    const steady = run === 1 ? await steadyRequests(bench.api, steadySeconds) : undefined;
    const second = await burst(bench, namespace, vms, seed + 1000 + run, 0, scene, 'second');
    const notEnded = await endBurst(bench.api, scene.fleet, namespace, second.names);
    const flood = await floodEvents(scene.agent, scene.fleet, bench.options.eventsEach);
    const restart = await measureRestart(bench.api, namespace, scene.agent, scene.fleet, 0);
    say(
      `${program.name} run ${run}: ${vms - result.lost.length} of ${vms} run, slowest ${Math.max(...result.runningMs).toFixed(0)} ms`,
    );
    const { heartbeatMs, idleMb } = scene;
    return {
      names: result.names,
      result: {
        kind: 'burst',
        vms,
        result,
        second,
        notEnded,
        heartbeatMs,
        idleMb,
        loadedMb: loaded,
        steady,
        flood,
        restart,
      } as const,
    };
  });
}

async function pacedRun(bench: Bench, program: AgentProgram): Promise<BurstSample> {
  const namespace = namespaceOf(program, 'paced');
  await makeNamespace(bench, namespace);
  return onStage(bench, program, namespace, async (scene) => {
    const result = await burst(bench, namespace, bench.options.paced, bench.options.seed, pacedPauseMs, scene);
    return { names: result.names, result: { kind: 'paced', result } as const };
  });
}

async function restartRun(bench: Bench, program: AgentProgram): Promise<BurstSample> {
  const { restartVms, seed, say } = bench.options;
  const namespace = namespaceOf(program, 'many');
  await makeNamespace(bench, namespace);
  return onStage(bench, program, namespace, async (scene) => {
    const result = await burst(bench, namespace, restartVms, seed, 0, scene);
    const residentMb = scene.agent.residentMb();
    const plain = await measureRestart(bench.api, namespace, scene.agent, scene.fleet, 0);
    const hung = await measureRestart(bench.api, namespace, scene.agent, scene.fleet, hungLaunchers);
    say(
      `${program.name}: restart among ${restartVms}: ${plain.adoptedMs.toFixed(0)} ms, ${hung.adoptedMs.toFixed(0)} ms with hung ones`,
    );
    return { names: result.names, result: { kind: 'many', vms: restartVms, residentMb, result, plain, hung } as const };
  });
}

async function foreignRun(bench: Bench, program: AgentProgram): Promise<BurstSample> {
  const { foreign, vms, seed } = bench.options;
  const namespace = namespaceOf(program, 'foreign');
  await makeNamespace(bench, namespace);
  return onStage(bench, program, namespace, async (scene) => {
    const result = await burst(bench, namespace, vms, seed, 0, scene);
    const { idleMb } = scene;
    return {
      names: result.names,
      result: { kind: 'foreign', foreign, idleMb, loadedMb: scene.agent.residentMb() } as const,
    };
  });
}

async function createForeign({ api, options }: Bench): Promise<void> {
  options.say(`creating ${options.foreign} VMIs of other nodes`);
  const vmis = Array.from({ length: options.foreign }, (_, index) => {
    const vmi = newVmi('default', `foreign-${index}`);
    const node = `other-${index % 100}`;
    return {
      ...vmi,
      metadata: { ...vmi.metadata, labels: { [labels.nodeName]: node } },
      status: { ...vmi.status, phase: 'Running' as const, nodeName: node },
    };
  });
  await createVmis(api.admin, vmis);
}

function namespaceOf({ name }: AgentProgram, run: string): string {
  return `${name}-${run}`;
}

async function makeNamespace({ api }: Bench, name: string): Promise<void> {
  await api.admin.raw({
    method: 'POST',
    path: '/api/v1/namespaces',
    body: { apiVersion: 'v1', kind: 'Namespace', metadata: { name } },
  });
}
