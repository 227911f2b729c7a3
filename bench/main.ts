import { writeFileSync } from 'node:fs';
import { cpus, totalmem } from 'node:os';
import path from 'node:path';
import { parseArgs } from 'node:util';
import type { NodePaths } from '../src/node/index.ts';
import { type Boot, measureBoot } from './boot.ts';
import { type Figure, spread, table } from './figures.ts';
import { startUpMs } from './logs.ts';
import { type RunningProgram, runningPrograms, startNode } from './node-under-test.ts';

const { values } = parseArgs({
  options: {
    runs: { type: 'string', default: '5' },
    json: { type: 'string', default: '.build/bench.json' },
  },
});
const runs = Number(values.runs);
if (!Number.isInteger(runs) || runs < 1) throw new Error(`--runs ${values.runs}: a whole number from 1 on`);

function readyMessages({ logDir }: NodePaths) {
  const log = (name: string) => path.join(logDir, `${name}.log`);
  return [
    ['virt-node apiserver', 'Kubernetes API is up', log('apiserver')],
    ['virt-controller', 'virt-controller is at work', log('virt-controller')],
    ['virt-handler', 'virt-handler serves this node', log('virt-handler')],
  ] as const;
}

const say = (text: string) => process.stderr.write(`${text}\n`);

say('starting the node');
const node = await startNode();
try {
  const boots: Boot[] = [];
  let programs: ReadonlyMap<string, RunningProgram> = new Map();
  const startUps = new Map<string, number[]>();
  for (let run = 1; run <= runs; run++) {
    const boot = await measureBoot(node, `bench-${run}`, (podUid) => {
      programs = runningPrograms(node);
      const podLog = path.join(node.paths.podLogsDir, podUid, 'compute.log');
      for (const [name, ready, log] of [...readyMessages(node.paths), ['virt-launcher', 'ready', podLog] as const]) {
        // The node's own programs start once; each VM has a launcher of its own.
        if (startUps.has(name) && log !== podLog) continue;
        startUps.set(name, [...(startUps.get(name) ?? []), startUpMs(programs.get(name)?.pid ?? '', log, ready)]);
      }
    });
    boots.push(boot);
    say(
      `run ${run} of ${runs}: Running after ${boot.runningMs.toFixed(0)} ms, login after ${boot.loginMs.toFixed(0)} ms`,
    );
  }
  const samples = (pick: (boot: Boot) => number) => boots.map(pick);
  const figures: Figure[] = [
    { name: 'node start → schedulable', unit: 'ms', samples: [node.readyMs] },
    {
      name: 'apply → Scheduled (controller, pod runner, launcher start)',
      unit: 'ms',
      samples: samples((b) => b.scheduledMs),
    },
    { name: 'Scheduled → Running', unit: 'ms', samples: samples((b) => b.runningMs - b.scheduledMs) },
    { name: '  of that the agent itself', unit: 'ms', samples: samples((b) => b.agentMs) },
    { name: 'apply → Running', unit: 'ms', samples: samples((b) => b.runningMs) },
    { name: 'apply → serial login', unit: 'ms', samples: samples((b) => b.loginMs) },
    { name: 'delete → gone', unit: 'ms', samples: samples((b) => b.goneMs) },
    ...[...startUps].map(([name, ms]): Figure => ({ name: `start-up of ${name}`, unit: 'ms', samples: ms })),
    ...[...programs].map(([name, { residentMb }]): Figure => {
      return { name: `RSS of ${name}, one VM`, unit: 'MB', samples: [residentMb] };
    }),
  ];
  console.log(`\n${table(figures)}\n`);
  const machine = { cpus: cpus().length, model: cpus()[0]?.model, memoryBytes: totalmem(), node: process.version };
  const report = figures.map((figure) => ({ ...figure, ...spread(figure.samples) }));
  writeFileSync(values.json, `${JSON.stringify({ machine, figures: report }, null, 2)}\n`);
  say(`written: ${values.json}`);
} finally {
  await node.stop();
}
