import { mkdirSync, writeFileSync } from 'node:fs';
import { cpus, totalmem } from 'node:os';
import path from 'node:path';
import { parseArgs } from 'node:util';
import type { AgentProgram } from './agent-under-test.ts';
import type { ApiKind } from './api-under-load.ts';
import { bootBench } from './boot-bench.ts';
import { burstBench } from './burst-bench.ts';
import { comparison, type Figure, table, withSpread } from './figures.ts';

/** npm run bench -- [boot] [burst] [options]; see docs/bench.md. Options of the command line are read here only. */

const benches = ['boot', 'burst'] as const;
type BenchName = (typeof benches)[number];

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    runs: { type: 'string', default: '3' },
    json: { type: 'string', default: '.build/bench.json' },
    vms: { type: 'string', default: '100' },
    api: { type: 'string' },
    seed: { type: 'string', default: '1' },
    'steady-seconds': { type: 'string', default: '20' },
    foreign: { type: 'string', default: '0' },
    'restart-vms': { type: 'string', default: '0' },
    paced: { type: 'string', default: '0' },
    'events-each': { type: 'string', default: '80' },
    'agent-cmd': { type: 'string' },
    logs: { type: 'string' },
    vs: { type: 'string' },
  },
});

const say = (text: string) => process.stderr.write(`${text}\n`);

function wholeNumber(name: keyof typeof values, least: number): number {
  const value = Number(values[name]);
  if (Number.isInteger(value) && value >= least) return value;
  throw new Error(`--${name} ${values[name]}: a whole number from ${least} on`);
}

function wantedBenches(): readonly BenchName[] {
  const unknown = positionals.filter((name) => !benches.some((bench) => bench === name));
  if (unknown.length > 0) throw new Error(`no such bench: ${unknown.join(', ')}; there are ${benches.join(', ')}`);
  return positionals.length > 0 ? benches.filter((name) => positionals.includes(name)) : benches;
}

function apiKind(): ApiKind | undefined {
  const { api } = values;
  if (api === undefined || api === 'cluster' || api === 'embedded') return api;
  throw new Error(`--api ${api}: cluster or embedded`);
}

function programs(): AgentProgram[] {
  const ours = `${process.execPath} ${path.resolve('.build/bench/virt-handler.mjs')}`;
  const first = values['agent-cmd'];
  return [
    first === undefined ? { name: 'ours', command: ours } : { name: 'other', command: first },
    ...(values.vs === undefined ? [] : [{ name: first === undefined ? 'other' : 'versus', command: values.vs }]),
  ];
}

const runs = wholeNumber('runs', 1);
const results: Record<string, unknown> = {};
for (const bench of wantedBenches()) {
  if (bench === 'boot') {
    const figures = await bootBench(runs, say);
    console.log(`\n${table(figures)}\n`);
    results.boot = withSpread(figures);
    continue;
  }
  const report = await burstBench({
    programs: programs(),
    vms: wholeNumber('vms', 1),
    runs,
    api: apiKind(),
    seed: wholeNumber('seed', 0),
    steadySeconds: wholeNumber('steady-seconds', 0),
    foreign: wholeNumber('foreign', 0),
    restartVms: wholeNumber('restart-vms', 0),
    paced: wholeNumber('paced', 0),
    eventsEach: wholeNumber('events-each', 0),
    logsDir: values.logs,
    say,
  });
  const [first, second] = report.programs;
  const figures: readonly Figure[] = first?.figures ?? [];
  const shown = first && second ? comparison([first.name, second.name], figures, second.figures) : table(figures);
  console.log(`\n${shown}\n`);
  results.burst = {
    api: report.api,
    programs: report.programs.map((program) => ({ ...program, figures: withSpread(program.figures) })),
  };
}

const machine = { cpus: cpus().length, model: cpus()[0]?.model, memoryBytes: totalmem(), node: process.version };
mkdirSync(path.dirname(values.json), { recursive: true });
writeFileSync(values.json, `${JSON.stringify({ machine, at: new Date().toISOString(), ...results }, null, 2)}\n`);
say(`written: ${values.json}`);
