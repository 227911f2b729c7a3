import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { sleep } from '../src/base/index.ts';
import { LauncherFleet, monotonicMs } from '../test/fixtures/scripted-launcher-fleet.ts';
import { FigureList } from './agent-figures.ts';
import { type AgentProgram, AgentUnderTest } from './agent-under-test.ts';
import { type ApiKind, type ApiUnderLoad, startApi } from './api-under-load.ts';
import type { RequestCounts } from './audit-log.ts';
import { endBurst, runBurst } from './burst.ts';
import { clientToGuest, echoed, guestToClient, roundTrips } from './console.ts';
import { onConsoleStage } from './console-stage.ts';
import { type Figure, percentile } from './figures.ts';
import { installForOthers } from './foreign-crds.ts';
import { measureRestart } from './restart.ts';

/**
 * What an agent costs from its start to its end, beside another one in the same run: each launcher is a process, the API
 * server is a real one, and each agent has directories of its own in each scene.
 */

/** `start`: starts and stops alone. `load`: an agent's life with its VMIs. `console`: streams with TLS. */
export const agentScenes = ['start', 'load', 'console'] as const;
export type AgentScene = (typeof agentScenes)[number];

export interface AgentBenchOptions {
  readonly programs: readonly AgentProgram[];
  readonly scenes: readonly AgentScene[];
  readonly runs: number;
  readonly vms: number;
  readonly seed: number;
  /** Without VMIs, and again with all of them. */
  readonly idleSeconds: number;
  readonly api: ApiKind | undefined;
  readonly asServiceAccount: boolean;
  readonly logsDir: string | undefined;
  readonly say: (text: string) => void;
}

export interface AgentReport {
  readonly programs: readonly { readonly name: string; readonly figures: readonly Figure[] }[];
}

const nodeName = 'bench';
/** Labels are written, device plugins are registered, memory is collected. */
const settleMs = 10_000;
const startOverMs = 5_000;
const startsEach = 4;
const pacedVms = 25;
const pacedPauseMs = 200;
const stallMs = 15_000;
const megabyte = 1_000_000;
const streamBytes = 64 * megabyte;
const keystrokes = 2_000;

interface Bench {
  readonly options: AgentBenchOptions;
  readonly api: ApiUnderLoad;
  readonly dir: string;
}

/** All programs in turn, run by run. */
export async function agentBench(options: AgentBenchOptions): Promise<AgentReport> {
  const lists = new Map(options.programs.map(({ name }) => [name, new FigureList()]));
  const listOf = ({ name }: AgentProgram) => {
    const list = lists.get(name);
    if (!list) throw new Error(`no figures are kept of ${name}`);
    return list;
  };
  const dir = mkdtempSync(path.join(tmpdir(), 'agent-'));
  const withVms = options.scenes.filter((scene) => scene !== 'console');
  try {
    if (withVms.length > 0) {
      const api = await startApi(options.api, dir, nodeName);
      const bench = { options, api, dir };
      try {
        if (options.programs.some(({ name }) => name !== 'ours')) await installForOthers(api);
        for (let run = 1; run <= options.runs; run++) {
          for (const program of options.programs) {
            if (withVms.includes('start')) await startScene(bench, program, run, listOf(program));
            if (withVms.includes('load')) await loadScene(bench, program, run, listOf(program));
          }
        }
      } finally {
        await api.stop();
      }
    }
    for (let run = 1; options.scenes.includes('console') && run <= options.runs; run++)
      for (const program of options.programs) await consoleScene(options, program, listOf(program));
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
  return { programs: options.programs.map((program) => ({ name: program.name, figures: listOf(program).figures })) };
}

function agentOn({ options, api, dir }: Bench, program: AgentProgram, name: string): AgentUnderTest {
  return new AgentUnderTest(program, {
    dir: path.join(dir, name),
    nodeName,
    kubeconfig: api.handlerKubeconfig,
    asServiceAccount: options.asServiceAccount && api.kind === 'cluster',
    admin: api.admin,
  });
}

/** Starts among nothing, each with its end, one after the other: the first one is cold where the machine is. */
async function startScene(bench: Bench, program: AgentProgram, run: number, figures: FigureList): Promise<void> {
  const agent = agentOn(bench, program, `s-${program.name}-${run}`);
  try {
    for (let start = 1; start <= startsEach; start++) {
      const { ownHeartbeatMs } = await agent.start();
      figures.add('start → first heartbeat', 'ms', ownHeartbeatMs);
      figures.add('start → first heartbeat: CPU', 'ms', agent.cpu().ownMs);
      await sleep(startOverMs);
      figures.add('CPU of a start, with what follows in 5 s', 'ms', agent.cpu().ownMs);
      const stopMs = monotonicMs();
      await agent.stop();
      figures.add('stop by SIGTERM, no VMI', 'ms', monotonicMs() - stopMs);
    }
    bench.options.say(`${program.name}, run ${run}: ${startsEach} starts`);
  } catch (error) {
    bench.options.say(agent.logTail());
    throw error;
  } finally {
    keepLog(bench, agent, `start-${program.name}-${run}`);
    await agent.dispose();
  }
}

/** One agent with its launchers, from idle to idle. */
async function loadScene(bench: Bench, program: AgentProgram, run: number, figures: FigureList): Promise<void> {
  const { api, options } = bench;
  const { vms, seed, say } = options;
  const namespace = `${program.name}-${run}`;
  const body = { apiVersion: 'v1', kind: 'Namespace', metadata: { name: namespace } };
  await api.admin.raw({ method: 'POST', path: '/api/v1/namespaces', body });
  const agent = agentOn(bench, program, namespace);
  const fleet = await LauncherFleet.start(agent.podsDir);
  const burst = (prefix: string, count: number, pauseMs: number) =>
    runBurst(
      {
        ...{ namespace, nodeName, prefix, vms: count, network: 'none' as const },
        ...{ seed: seed + run, pauseMs, orders: ['define-first'] as const, stallMs },
      },
      api,
      agent,
      fleet,
    );
  try {
    await agent.start();
    await sleep(settleMs);
    figures.add('RSS idle', 'MB', agent.residentMb());
    await idle(bench, agent, 'without VMIs', figures);
    const paced = await burst('paced', pacedVms, pacedPauseMs);
    figures.add('one start per 200 ms: p50', 'ms', percentile(paced.runningMs, 50));
    figures.add('one start per 200 ms: p95', 'ms', percentile(paced.runningMs, 95));
    figures.add('one start per 200 ms: CPU each', 'ms', paced.cpuMsPerStart);
    addWrites('one start per 200 ms', paced.requests, pacedVms, figures);
    await endBurst(api, fleet, namespace, paced.names);
    const many = await burst('vm', vms, 0);
    figures.add(`burst of ${vms}: p95`, 'ms', percentile(many.runningMs, 95));
    figures.add(`burst of ${vms}: CPU of the agent`, 'ms', many.cpuMsPerStart * vms);
    figures.add(`burst of ${vms}: VMIs lost`, '1', many.lost.length + paced.lost.length);
    addWrites(`burst of ${vms}`, many.requests, vms, figures);
    // Events of a burst are written for some seconds after it.
    await sleep(settleMs);
    figures.add(`RSS with ${vms} VMIs`, 'MB', agent.residentMb());
    await idle(bench, agent, `with ${vms} VMIs`, figures);
    const restart = await measureRestart(api, namespace, agent, fleet, 0);
    figures.add(`restart among ${vms}: all can report after`, 'ms', restart.adoptedMs);
    figures.add(`restart among ${vms}: all asked after`, 'ms', restart.askedMs);
    figures.add(`restart among ${vms}: not adopted or harmed`, '1', restart.notAdopted + restart.harmed);
    figures.add(`restart among ${vms}: stop by SIGTERM`, 'ms', restart.stopMs);
    await sleep(settleMs);
    await endBurst(api, fleet, namespace, many.names);
    await sleep(settleMs);
    figures.add(`RSS after ${vms} VMIs went`, 'MB', agent.residentMb());
    say(`${program.name}, run ${run}: ${vms - many.lost.length} of ${vms} run`);
    await agent.stop();
  } catch (error) {
    say(agent.logTail());
    throw error;
  } finally {
    keepLog(bench, agent, `load-${program.name}-${run}`);
    await agent.dispose();
    await fleet.stop();
  }
}

async function idle({ options }: Bench, agent: AgentUnderTest, when: string, figures: FigureList): Promise<void> {
  const [before, beforeMs] = [agent.activity(), monotonicMs()];
  await sleep(options.idleSeconds * 1000);
  const [after, tookMs] = [agent.activity(), monotonicMs() - beforeMs];
  figures.add(`idle ${when}: part of one core`, '%', ((after.cpuMs - before.cpuMs) / tookMs) * 100);
  figures.add(`idle ${when}: wake-ups`, '1/s', (after.wakeUps - before.wakeUps) / (tookMs / 1000));
}

function addWrites(title: string, counts: RequestCounts | undefined, starts: number, figures: FigureList): void {
  if (!counts) return;
  const of = (isMeant: (name: string) => boolean) =>
    Object.entries(counts).reduce((sum, [name, count]) => sum + (isMeant(name) ? count : 0), 0) / starts;
  const isEvent = (name: string) => / events\b/.test(name);
  const isWrite = (name: string) => /^(create|update|patch|delete) /.test(name) && !name.endsWith(' nodes');
  figures.add(
    `${title}: writes of the agent each`,
    '1',
    of((name) => isWrite(name) && !isEvent(name)),
  );
  figures.add(
    `${title}: events of the agent each`,
    '1',
    of((name) => isWrite(name) && isEvent(name)),
  );
}

/** A fresh agent each time; what comes first runs cold. */
async function consoleScene(options: AgentBenchOptions, program: AgentProgram, figures: FigureList): Promise<void> {
  await onConsoleStage({ program, api: options.api, vms: 1, logFile: undefined }, async (stage) => {
    for (const title of ['first', 'again']) {
      const echo = await echoed(stage, streamBytes);
      figures.add(`console echo, 64 MB, ${title}`, 'MB/s', echo.megabytesPerSecond);
      figures.add(`console echo, 64 MB, ${title}: CPU of the agent`, 'ms/GB', echo.cpuMsPerGigabyte);
      const flood = await guestToClient(stage, streamBytes);
      figures.add(`guest → client, 64 MB, ${title}`, 'MB/s', flood.megabytesPerSecond);
      figures.add(`guest → client, 64 MB, ${title}: CPU of the agent`, 'ms/GB', flood.cpuMsPerGigabyte);
      const paste = await clientToGuest(stage, streamBytes);
      figures.add(`client → guest, 64 MB, ${title}`, 'MB/s', paste.megabytesPerSecond);
      const trips = await roundTrips(stage, keystrokes);
      figures.add(`round trip of a keystroke, ${title}: p50`, 'ms', percentile(trips, 50));
      figures.add(`round trip of a keystroke, ${title}: p99`, 'ms', percentile(trips, 99));
    }
  });
  options.say(`${program.name}: consoles`);
}

function keepLog({ options }: Bench, agent: AgentUnderTest, name: string): void {
  if (options.logsDir) agent.saveLog(path.join(options.logsDir, `${name}.log`));
}
