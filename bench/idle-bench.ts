import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { sleep } from '../src/base/index.ts';
import { type AgentProgram, AgentUnderTest } from './agent-under-test.ts';
import { type ApiKind, startApi } from './api-under-load.ts';
import type { Figure } from './figures.ts';
import { installForOthers } from './foreign-crds.ts';

export interface IdleBenchOptions {
  readonly programs: readonly AgentProgram[];
  readonly runs: number;
  readonly seconds: number;
  readonly api: ApiKind | undefined;
  readonly say: (text: string) => void;
}

interface IdleSample {
  readonly cpuPercent: number;
  readonly residentMb: number;
  readonly heartbeats: number;
  readonly otherRequests: number;
}

export interface IdleReport {
  readonly api: ApiKind;
  readonly programs: readonly { readonly name: string; readonly figures: readonly Figure[] }[];
}

const nodeName = 'idle';
/** Start-up is over by then: labels are written, device plugins registered, memory collected. */
const settleMs = 15_000;

/** An agent without VMs: what it costs, and what it asks the API server for. Watches are not counted. */
export async function idleBench(options: IdleBenchOptions): Promise<IdleReport> {
  const dir = mkdtempSync(path.join(tmpdir(), 'bench-idle-'));
  const api = await startApi(options.api, dir, nodeName);
  const samples = new Map<string, IdleSample[]>(options.programs.map(({ name }) => [name, []]));
  try {
    if (options.programs.some(({ name }) => name !== 'ours')) await installForOthers(api);
    for (let run = 1; run <= options.runs; run++) {
      for (const program of options.programs) {
        const place = { dir: path.join(dir, `${program.name}-${run}`), nodeName };
        const agent = new AgentUnderTest(program, { ...place, kubeconfig: api.handlerKubeconfig, admin: api.admin });
        try {
          await agent.start();
          await sleep(settleMs);
          api.requests();
          const before = { cpuMs: agent.cpuMs(), atMs: performance.now() };
          await sleep(options.seconds * 1000);
          const elapsedMs = performance.now() - before.atMs;
          const counts = api.requests() ?? {};
          const { 'patch nodes': heartbeats = 0, ...others } = counts;
          const otherRequests = Object.values(others).reduce((sum, count) => sum + count, 0);
          const cpuPercent = ((agent.cpuMs() - before.cpuMs) / elapsedMs) * 100;
          samples.get(program.name)?.push({ cpuPercent, residentMb: agent.residentMb(), heartbeats, otherRequests });
          options.say(`idle: ${program.name}, run ${run}: ${cpuPercent.toFixed(3)} %, ${JSON.stringify(counts)}`);
          await agent.stop();
        } finally {
          await agent.dispose();
        }
      }
    }
  } finally {
    await api.stop();
    rmSync(dir, { recursive: true, force: true });
  }
  return {
    api: api.kind,
    programs: [...samples].map(([name, taken]) => ({ name, figures: figuresOf(taken) })),
  };
}

function figuresOf(samples: readonly IdleSample[]): Figure[] {
  const figure = (name: string, unit: Figure['unit'], read: (sample: IdleSample) => number): Figure => ({
    name,
    unit,
    samples: samples.map(read),
  });
  return [
    figure('idle agent: part of one core', '%', ({ cpuPercent }) => cpuPercent),
    figure('idle agent: memory', 'MB', ({ residentMb }) => residentMb),
    figure('idle agent: patches of the node', '1', ({ heartbeats }) => heartbeats),
    figure('idle agent: other requests', '1', ({ otherRequests }) => otherRequests),
  ];
}
