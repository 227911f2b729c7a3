import type { AgentProgram } from './agent-under-test.ts';
import type { ApiKind } from './api-under-load.ts';
import {
  clientToGuest,
  echoed,
  guestToClient,
  manySessions,
  roundTrips,
  slowReader,
  type Throughput,
} from './console.ts';
import { onConsoleStage } from './console-stage.ts';
import { type Figure, percentile, type Unit } from './figures.ts';

export interface ConsoleBenchOptions {
  readonly program: AgentProgram;
  readonly api: ApiKind | undefined;
  readonly runs: number;
  readonly vms: number;
  readonly sessions: number;
  readonly logFile: string | undefined;
  readonly say: (text: string) => void;
}

export interface ConsoleReport {
  readonly figures: readonly Figure[];
  /** The agent's memory while a client read slowly, by run, every 100 ms. */
  readonly slowReaderMb: readonly (readonly number[])[];
}

const megabyte = 1_000_000;
const keystrokes = 3_000;
const floodBytes = 1_000 * megabyte;
const pasteBytes = 300 * megabyte;
const slowBytes = 100 * megabyte;
const slowBytesPerSecond = 10 * megabyte;

/** Byte streams through the agent's own program with TLS, the client and the guests beside it on the same machine. */
export async function consoleBench(options: ConsoleBenchOptions): Promise<ConsoleReport> {
  const { runs, vms, sessions, say } = options;
  const samples = new Map<string, { readonly unit: Unit; readonly samples: number[] }>();
  const add = (name: string, unit: Unit, value: number) => {
    const figure = samples.get(name) ?? { unit, samples: [] };
    samples.set(name, figure);
    figure.samples.push(value);
  };
  const addThroughput = (name: string, { megabytesPerSecond, cpuMsPerGigabyte }: Throughput) => {
    add(name, 'MB/s', megabytesPerSecond);
    add(`${name}, CPU of the agent`, 'ms/GB', cpuMsPerGigabyte);
    say(`${name}: ${megabytesPerSecond.toFixed(0)} MB/s, ${cpuMsPerGigabyte.toFixed(0)} ms of CPU per GB`);
  };
  const slowReaderMb: (readonly number[])[] = [];
  await onConsoleStage({ ...options, vms: vms + 1 }, async (stage) => {
    // Code is compiled and buffers are grown by then.
    await guestToClient(stage, floodBytes / 4);
    for (let run = 1; run <= runs; run++) {
      const trips = await roundTrips(stage, keystrokes);
      add('round trip of a keystroke, p50', 'ms', percentile(trips, 50));
      add('round trip of a keystroke, p99', 'ms', percentile(trips, 99));
      addThroughput('guest to client', await guestToClient(stage, floodBytes));
      addThroughput('client to guest', await clientToGuest(stage, pasteBytes));
      addThroughput('echo', await echoed(stage, pasteBytes));
      const slow = await slowReader(stage, slowBytes, slowBytesPerSecond);
      slowReaderMb.push(slow.residentMb);
      add('100 MB to a slow reader, took', 'ms', slow.tookMs);
      add('100 MB to a slow reader, RSS before', 'MB', slow.beforeMb);
      add('100 MB to a slow reader, RSS at most', 'MB', Math.max(...slow.residentMb));
      const many = await manySessions(stage, sessions, vms);
      add(`${sessions} sessions, attach p50`, 'ms', percentile(many.attachMs, 50));
      add(`${sessions} sessions, attach p99`, 'ms', percentile(many.attachMs, 99));
      add(`${sessions} sessions, a keystroke to all VMs at once, p50`, 'ms', percentile(many.echoMs, 50));
      add(`${sessions} sessions, a keystroke to all VMs at once, p99`, 'ms', percentile(many.echoMs, 99));
      add(`${sessions} sessions, RSS before`, 'MB', many.beforeMb);
      add(`${sessions} sessions, RSS open`, 'MB', many.openMb);
      add(`${sessions} sessions, RSS each`, 'KB', ((many.openMb - many.beforeMb) * 1024) / sessions);
      add(`${sessions} sessions, RSS after`, 'MB', many.afterMb);
      add(`${sessions} sessions, idle CPU`, '%', many.idleCpuPercent);
      say(`run ${run}: ${sessions} sessions, attach p99 ${percentile(many.attachMs, 99).toFixed(0)} ms`);
    }
  });
  const figures = [...samples].map(([name, figure]) => ({ name, ...figure }));
  return { figures, slowReaderMb };
}
