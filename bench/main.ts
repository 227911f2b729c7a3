import { mkdirSync, writeFileSync } from 'node:fs';
import { cpus, totalmem } from 'node:os';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { type Loss, losses } from '../test/fixtures/migration-loss.ts';
import { agentBench, agentScenes } from './agent-bench.ts';
import type { AgentProgram } from './agent-under-test.ts';
import type { ApiKind } from './api-under-load.ts';
import { bootBench } from './boot-bench.ts';
import { burstBench } from './burst-bench.ts';
import { consoleBench } from './console-bench.ts';
import { controllerBench, controllerScenes } from './controller-bench.ts';
import { comparison, type Figure, table, withSpread } from './figures.ts';
import { idleBench } from './idle-bench.ts';
import { launcherBench } from './launcher-bench.ts';
import { migrationBench } from './migration-bench.ts';
import { migrationGap } from './migration-gap.ts';
import { migrationKills } from './migration-kills.ts';
import { migrationLoopBench } from './migration-loop.ts';
import { migrationsAtOnceBench } from './migrations-at-once.ts';
import { needless, report } from './parity/compare.ts';
import { parityBench } from './parity/parity-bench.ts';
import { scrapeBench } from './scrape-bench.ts';
import { type StageOptions, soakBench } from './soak-bench.ts';
import { checkSoak } from './soak-check.ts';
import { startsBench } from './starts-bench.ts';
import { thereAndBack } from './there-and-back.ts';
import type { VmiNetwork } from './vmis.ts';

/** npm run bench -- [NAME]… [options]; see docs/bench.md. Options of the command line are read here only. */

const benches = [
  'agent',
  'boot',
  'burst',
  'console',
  'controller',
  'idle',
  'launcher',
  'migration',
  'migration-gap',
  'migrations-at-once',
  'soak',
  'starts',
  'parity',
  'scrape',
  'there-and-back',
] as const;
/** Without a name all but the long one, and the one that needs another agent. */
const usual = ['boot', 'burst', 'console', 'soak'] as const;
type BenchName = (typeof benches)[number];

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    runs: { type: 'string', default: '3' },
    json: { type: 'string', default: '.build/bench.json' },
    vms: { type: 'string', default: '100' },
    network: { type: 'string', default: 'none' },
    api: { type: 'string' },
    cycles: { type: 'string', default: '40' },
    starts: { type: 'string', default: '10000' },
    batch: { type: 'string', default: '200' },
    seed: { type: 'string', default: '1' },
    'steady-seconds': { type: 'string', default: '20' },
    foreign: { type: 'string', default: '0' },
    'restart-vms': { type: 'string', default: '0' },
    paced: { type: 'string', default: '0' },
    'events-each': { type: 'string', default: '80' },
    sessions: { type: 'string', default: '1000' },
    'agent-cmd': { type: 'string' },
    logs: { type: 'string' },
    'service-account': { type: 'boolean', default: false },
    vs: { type: 'string' },
    'scrape-vms': { type: 'string', default: '400' },
    hung: { type: 'string', default: '40' },
    'idle-seconds': { type: 'string' },
    turns: { type: 'string', default: '0' },
    'idle-vms': { type: 'string', default: '1000' },
    megabytes: { type: 'string', default: '1000' },
    kills: { type: 'string', default: '0' },
    'loop-seconds': { type: 'string', default: '0' },
    losses: { type: 'string' },
    'post-copy': { type: 'boolean', default: false },
    launchers: { type: 'string', default: '20' },
    'node-flags': { type: 'string' },
    guests: { type: 'string', default: '200' },
    moves: { type: 'string', default: '50' },
    only: { type: 'string', multiple: true },
    parallel: { type: 'string', default: '8' },
  },
});

const say = (text: string) => process.stderr.write(`${text}\n`);

function wholeNumber(name: keyof typeof values, least: number): number {
  const value = Number(values[name]);
  if (Number.isInteger(value) && value >= least) return value;
  throw new Error(`--${name} ${values[name]}: a whole number from ${least} on`);
}

function idleSeconds(usual: number): number {
  return values['idle-seconds'] === undefined ? usual : wholeNumber('idle-seconds', 1);
}

function wantedBenches(): readonly BenchName[] {
  const unknown = positionals.filter((name) => !benches.some((bench) => bench === name));
  if (unknown.length > 0) throw new Error(`no such bench: ${unknown.join(', ')}; there are ${benches.join(', ')}`);
  return positionals.length > 0 ? benches.filter((name) => positionals.includes(name)) : usual;
}

function apiKind(): ApiKind | undefined {
  const { api } = values;
  if (api === undefined || api === 'cluster' || api === 'embedded') return api;
  throw new Error(`--api ${api}: cluster or embedded`);
}

function network(): VmiNetwork {
  const { network } = values;
  if (network === 'none' || network === 'masquerade') return network;
  throw new Error(`--network ${network}: none or masquerade`);
}

function programs(own: string = ownProgram): AgentProgram[] {
  const ours = `${process.execPath} ${own}`;
  const first = values['agent-cmd'];
  return [
    first === undefined ? { name: 'ours', command: ours } : { name: 'other', command: first },
    ...(values.vs === undefined ? [] : [{ name: first === undefined ? 'other' : 'versus', command: values.vs }]),
  ];
}

const ownProgram = path.resolve('.build/bench/virt-handler.mjs');
const ownController = path.resolve('.build/bench/virt-controller.mjs');
const ownLauncher = path.resolve('.build/bench/virt-launcher.mjs');

function stage(name: string): StageOptions {
  const logFile = values.logs === undefined ? undefined : path.join(values.logs, `${name}.log`);
  return { api: apiKind(), program: ownProgram, logFile };
}

/** All, without `--only`. */
function wantedScenes<T extends string>(scenes: readonly T[]): T[] {
  const unknown = values.only?.filter((name) => !scenes.some((scene) => scene === name)) ?? [];
  if (unknown.length > 0) throw new Error(`--only ${unknown.join(', ')}: ${scenes.join(', ')}`);
  return scenes.filter((scene) => values.only?.includes(scene) ?? true);
}

async function agents(): Promise<unknown> {
  const report = await agentBench({
    programs: programs(),
    scenes: wantedScenes(agentScenes),
    ...{ runs: wholeNumber('runs', 1), vms: wholeNumber('vms', 1), seed: wholeNumber('seed', 0) },
    idleSeconds: idleSeconds(30),
    ...{ api: apiKind(), asServiceAccount: values['service-account'], logsDir: values.logs, say },
  });
  const [first, second] = report.programs;
  const figures: readonly Figure[] = first?.figures ?? [];
  const shown = first && second ? comparison([first.name, second.name], figures, second.figures) : table(figures);
  console.log(`\n${shown}\n`);
  const measured = report.programs.map((program) => ({ ...program, figures: withSpread(program.figures) }));
  return { programs: measured };
}

async function controllers(): Promise<unknown> {
  const { logs: logsDir } = values;
  const [vms, idleVms] = [wholeNumber('vms', 1), wholeNumber('idle-vms', 1)];
  const report = await controllerBench({
    ...{ scenes: wantedScenes(controllerScenes), turns: wholeNumber('turns', 0) },
    ...{ programs: programs(ownController), runs: wholeNumber('runs', 1), vms, idleVms: Math.max(vms, idleVms) },
    ...{ idleSeconds: idleSeconds(30), foreign: wholeNumber('foreign', 0), logsDir, say },
  });
  const [first, second] = report.programs;
  const figures: readonly Figure[] = first?.figures ?? [];
  const shown = first && second ? comparison([first.name, second.name], figures, second.figures) : table(figures);
  console.log(`\n${shown}\n`);
  return { programs: report.programs.map((program) => ({ ...program, figures: withSpread(program.figures) })) };
}

async function boot(): Promise<unknown> {
  const figures = await bootBench(wholeNumber('runs', 1), say);
  console.log(`\n${table(figures)}\n`);
  return withSpread(figures);
}

async function burst(): Promise<unknown> {
  const report = await burstBench({
    programs: programs(),
    vms: wholeNumber('vms', 1),
    network: network(),
    runs: wholeNumber('runs', 1),
    api: apiKind(),
    seed: wholeNumber('seed', 0),
    steadySeconds: wholeNumber('steady-seconds', 0),
    foreign: wholeNumber('foreign', 0),
    restartVms: wholeNumber('restart-vms', 0),
    paced: wholeNumber('paced', 0),
    eventsEach: wholeNumber('events-each', 0),
    asServiceAccount: values['service-account'],
    logsDir: values.logs,
    say,
  });
  const [first, second] = report.programs;
  const figures: readonly Figure[] = first?.figures ?? [];
  const shown = first && second ? comparison([first.name, second.name], figures, second.figures) : table(figures);
  console.log(`\n${shown}\n`);
  const measured = report.programs.map((program) => ({ ...program, figures: withSpread(program.figures) }));
  return { api: report.api, programs: measured };
}

async function consoles(): Promise<unknown> {
  const [program] = programs();
  if (!program) throw new Error('console: no agent');
  const counts = { runs: wholeNumber('runs', 1), vms: wholeNumber('vms', 1), sessions: wholeNumber('sessions', 1) };
  const { api, logFile } = stage('console');
  const { figures, slowReaderMb } = await consoleBench({ program, api, logFile, ...counts, say });
  console.log(`\n${table(figures)}\n`);
  return { figures: withSpread(figures), slowReaderMb };
}

async function scrape(): Promise<unknown> {
  const [program] = programs();
  if (!program) throw new Error('scrape: no agent');
  const [vms, hung, scrapes] = [wholeNumber('scrape-vms', 1), wholeNumber('hung', 0), 20 * wholeNumber('runs', 1)];
  const { api, logFile } = stage('scrape');
  const figures = await scrapeBench({ program, api, vms, hung, scrapes, logFile, say });
  console.log(`\n${table(figures)}\n`);
  return withSpread(figures);
}

async function idle(): Promise<unknown> {
  const counts = {
    runs: wholeNumber('runs', 1),
    seconds: idleSeconds(120),
  };
  const report = await idleBench({ programs: programs(), ...counts, api: apiKind(), say });
  for (const { name, figures } of report.programs) console.log(`\n${name}\n${table(figures)}\n`);
  return {
    api: report.api,
    programs: report.programs.map(({ name, figures }) => ({ name, figures: withSpread(figures) })),
  };
}

async function launcher(): Promise<unknown> {
  const counts = { runs: wholeNumber('runs', 1), vms: wholeNumber('launchers', 1) };
  const flags = values['node-flags']?.split(' ').filter((flag) => flag !== '');
  const figures = await launcherBench({ program: ownLauncher, ...counts, ...(flags && { flags }), say });
  console.log(`\n${table(figures)}\n`);
  return withSpread(figures);
}

async function migration(): Promise<unknown> {
  const kills = wholeNumber('kills', 0);
  if (kills > 0) return killsOf(kills);
  const [runs, secondsEach] = [wholeNumber('runs', 1), wholeNumber('loop-seconds', 0)];
  const figures =
    secondsEach > 0
      ? await migrationLoopBench({ runs, secondsEach, say })
      : await migrationBench({ runs, megabytes: wholeNumber('megabytes', 1), say });
  console.log(`\n${table(figures)}\n`);
  return withSpread(figures);
}

async function gap(): Promise<unknown> {
  const figures = await migrationGap({ runs: wholeNumber('runs', 1), say });
  console.log(`\n${table(figures)}\n`);
  return withSpread(figures);
}

async function killsOf(kills: number): Promise<unknown> {
  const result = await migrationKills({
    ...{ kills, losses: wantedLosses(), inPostCopy: values['post-copy'], seed: wholeNumber('seed', 0) },
    say,
  });
  console.log(`\n${JSON.stringify(result, null, 2)}\n`);
  if (result.faults.length > 0) process.exitCode = 1;
  return result;
}

/** A stream that stands still is noticed after many seconds: that is no matter of instants. */
const lossesOfInstants = losses.filter((loss) => !loss.endsWith('frozen') && !loss.endsWith('last word'));

function wantedLosses(): Loss[] {
  if (values.losses === 'all') return lossesOfInstants;
  const given = (values.losses ?? 'source agent,target agent').split(',');
  const unknown = given.filter((name) => !lossesOfInstants.some((loss) => loss === name));
  if (unknown.length > 0)
    throw new Error(`--losses: ${unknown.join(', ')} is none of ${lossesOfInstants.join(', ')} and all`);
  return lossesOfInstants.filter((loss) => given.includes(loss));
}

async function migrationsAtOnce(): Promise<unknown> {
  const [program] = programs();
  if (!program) throw new Error('migrations-at-once: no agent');
  const counts = { runs: wholeNumber('runs', 1), vms: wholeNumber('guests', 42), migrations: 20 };
  const figures = await migrationsAtOnceBench({ program, api: apiKind(), ...counts, logsDir: values.logs, say });
  console.log(`\n${table(figures)}\n`);
  return withSpread(figures);
}

async function moves(): Promise<unknown> {
  const figures = await thereAndBack({ moves: wholeNumber('moves', 1), say });
  console.log(`\n${table(figures)}\n`);
  return withSpread(figures);
}

async function soak(): Promise<unknown> {
  const cycles = {
    cycles: wholeNumber('cycles', 4),
    vmsPerCycle: 40,
    sampleEvery: Math.ceil(wholeNumber('cycles', 4) / 10),
  };
  const result = await soakBench(stage('soak'), { ...cycles, seed: wholeNumber('seed', 0), say });
  const check = checkSoak(result);
  console.log(`\nsoak: ${result.samples.at(-1)?.starts} starts and ends; ${JSON.stringify(check)}\n`);
  if (check.faults.length > 0) process.exitCode = 1;
  return { ...result, verdict: check };
}

async function starts(): Promise<unknown> {
  const options = { starts: wholeNumber('starts', 1), batch: wholeNumber('batch', 1), seed: wholeNumber('seed', 0) };
  const result = await startsBench(stage('starts'), { ...options, say });
  console.log(
    `\n${result.starts} starts in all orders of events: ${result.lost.length} lost, ${result.notEnded} not ended\n`,
  );
  if (result.lost.length + result.notEnded > 0) process.exitCode = 1;
  return result;
}

async function parity(): Promise<unknown> {
  const [ours, other] = programs();
  if (!ours || !other) throw new Error('parity: --vs "CMD" names the agent that ours is compared with');
  const [only, parallel] = [values.only ?? [], wholeNumber('parallel', 1)];
  const results = await parityBench({ programs: [ours, other], only, parallel, logsDir: values.logs, say });
  console.log(`\n${report(results, true)}\n`);
  if (only.length === 0) {
    for (const { scenario, line } of needless(results)) {
      say(`meant, and not met any more: ${scenario ? `${scenario.source}: ` : ''}${line.source}`);
    }
  }
  if (results.some(({ differences }) => differences.some(({ reason }) => reason === undefined))) process.exitCode = 1;
  return results;
}

const run: Readonly<Record<BenchName, () => Promise<unknown>>> = {
  agent: agents,
  boot,
  burst,
  console: consoles,
  controller: controllers,
  idle,
  launcher,
  migration,
  'migration-gap': gap,
  'migrations-at-once': migrationsAtOnce,
  scrape,
  soak,
  starts,
  parity,
  'there-and-back': moves,
};
const results: Record<string, unknown> = {};
for (const bench of wantedBenches()) results[bench] = await run[bench]();

const machine = { cpus: cpus().length, model: cpus()[0]?.model, memoryBytes: totalmem(), node: process.version };
mkdirSync(path.dirname(values.json), { recursive: true });
writeFileSync(values.json, `${JSON.stringify({ machine, at: new Date().toISOString(), ...results }, null, 2)}\n`);
say(`written: ${values.json}`);
