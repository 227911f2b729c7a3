import path from 'node:path';
import type { NodePaths } from '../src/standalone/index.ts';
import { type Boot, measureBoot } from './boot.ts';
import type { Figure } from './figures.ts';
import { startUpMs } from './logs.ts';
import { type RunningProgram, runningPrograms, startNode } from './node-under-test.ts';

function readyMessages({ logDir }: NodePaths) {
  const log = (name: string) => path.join(logDir, `${name}.log`);
  return [
    ['virt-node apiserver', 'Kubernetes API is up', log('apiserver')],
    ['virt-controller', 'virt-controller is at work', log('virt-controller')],
    ['virt-handler', 'virt-handler serves this node', log('virt-handler')],
  ] as const;
}

/** Real VMs on the standalone node, from apply to login to gone. */
export async function bootBench(runs: number, say: (text: string) => void): Promise<Figure[]> {
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
    return [...bootFigures(boots, node.readyMs), ...waterfall(boots), ...programFigures(startUps, programs)];
  } finally {
    await node.stop();
  }
}

function bootFigures(boots: readonly Boot[], readyMs: number): Figure[] {
  const figure = (name: string, pick: (boot: Boot) => number): Figure => ({
    name,
    unit: 'ms',
    samples: boots.map(pick),
  });
  return [
    { name: 'node start → schedulable', unit: 'ms', samples: [readyMs] },
    figure('apply → Scheduled (controller, pod runner, launcher start)', (boot) => boot.scheduledMs),
    figure('Scheduled → Running', (boot) => boot.runningMs - boot.scheduledMs),
    figure('  of that the agent itself', (boot) => boot.agentMs),
    figure('apply → Running', (boot) => boot.runningMs),
    figure('apply → serial login', (boot) => boot.loginMs),
    figure('delete → gone', (boot) => boot.goneMs),
  ];
}

/** How long each row of the timelines took, in the order of the first one. */
function waterfall(boots: readonly Boot[]): Figure[] {
  const samples = new Map<string, number[]>();
  for (const { part, what, from, to } of boots.flatMap(({ rows }) => rows)) {
    if (from === undefined) continue;
    const name = `  ${part}: ${what}`;
    samples.set(name, [...(samples.get(name) ?? []), Date.parse(to) - Date.parse(from)]);
  }
  return [...samples].map(([name, ms]) => ({ name, unit: 'ms', samples: ms }));
}

function programFigures(
  startUps: ReadonlyMap<string, readonly number[]>,
  programs: ReadonlyMap<string, RunningProgram>,
): Figure[] {
  return [
    ...[...startUps].map(([name, ms]): Figure => ({ name: `start-up of ${name}`, unit: 'ms', samples: ms })),
    ...[...programs].map(([name, { residentMb }]): Figure => {
      return { name: `RSS of ${name}, one VM`, unit: 'MB', samples: [residentMb] };
    }),
  ];
}
