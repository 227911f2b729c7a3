import type { FloodResult } from '../test/fixtures/scripted-launcher-fleet.ts';
import type { RequestCounts } from './audit-log.ts';
import type { BurstResult } from './burst.ts';
import { type Figure, percentile, type Unit } from './figures.ts';
import type { RestartResult } from './restart.ts';

/** What one scene gave; the figures are made of all of a program. */
export type BurstSample =
  | {
      readonly kind: 'burst';
      readonly vms: number;
      readonly result: BurstResult;
      /** As many once more, beside the first. */
      readonly second: BurstResult;
      /** Launchers of deleted VMIs that were still there half a minute later. */
      readonly notEnded: number;
      readonly heartbeatMs: number;
      readonly idleMb: number;
      readonly loadedMb: number;
      /** Requests while nothing happened; of one run only. */
      readonly steady: RequestCounts | undefined;
      readonly flood: FloodResult & { readonly cpuMsPerEvent: number };
      readonly restart: RestartResult;
    }
  | { readonly kind: 'paced'; readonly result: BurstResult }
  | {
      readonly kind: 'many';
      readonly vms: number;
      readonly residentMb: number;
      readonly result: BurstResult;
      readonly plain: RestartResult;
      readonly hung: RestartResult;
    }
  | { readonly kind: 'foreign'; readonly foreign: number; readonly idleMb: number; readonly loadedMb: number };

type Of<K extends BurstSample['kind']> = Extract<BurstSample, { kind: K }>;

export function figuresOf(samples: readonly BurstSample[]): Figure[] {
  const of = <K extends BurstSample['kind']>(kind: K) =>
    samples.filter((sample): sample is Of<K> => sample.kind === kind);
  return [
    ...burstFigures(of('burst')),
    ...pacedFigures(of('paced')),
    ...manyFigures(of('many')),
    ...foreignFigures(of('foreign')),
  ];
}

function figure<T>(samples: readonly T[], name: string, unit: Unit, pick: (sample: T) => number): Figure {
  return { name, unit, samples: samples.map(pick) };
}

function burstFigures(samples: readonly Of<'burst'>[]): Figure[] {
  const [first] = samples;
  if (!first) return [];
  const { vms } = first;
  const make = (name: string, unit: Unit, pick: (sample: Of<'burst'>) => number) => figure(samples, name, unit, pick);
  const percentiles = (title: string, of: (sample: Of<'burst'>) => BurstResult) =>
    (['Sync received', 'Running'] as const).flatMap((until) =>
      [50, 95, 99].map((percent) =>
        make(`${title}: Scheduled → ${until}, p${percent}`, 'ms', (sample) => {
          const { syncMs, runningMs } = of(sample);
          return percentile(until === 'Running' ? runningMs : syncMs, percent);
        }),
      ),
    );
  return [
    ...percentiles(`${vms} at once`, ({ result }) => result),
    ...percentiles(`${vms} more at once`, ({ second }) => second),
    make(`VMIs lost of ${2 * vms}`, '1', ({ result, second }) => result.lost.length + second.lost.length),
    make('CPU of agent and helpers per start', 'ms', ({ result }) => result.cpuMsPerStart),
    make('CPU of agent and helpers per start, of those more', 'ms', ({ second }) => second.cpuMsPerStart),
    make('of it its helpers', 'ms', ({ result }) => result.helperMsPerStart),
    make('of it its helpers, of those more', 'ms', ({ second }) => second.helperMsPerStart),
    make('SyncVirtualMachine per start', '1', ({ result }) => result.syncsPerStart),
    ...requestFigures(samples),
    make(`launchers left of ${vms} deleted VMIs`, '1', ({ notEnded }) => notEnded),
    make('RSS idle', 'MB', ({ idleMb }) => idleMb),
    make(`RSS with ${vms} VMIs`, 'MB', ({ loadedMb }) => loadedMb),
    make('notify events taken', '1/s', ({ flood }) => (flood.taken / flood.tookMs) * 1000),
    make('agent CPU per notify event', 'ms', ({ flood }) => flood.cpuMsPerEvent),
    make('start → first heartbeat', 'ms', ({ heartbeatMs }) => heartbeatMs),
    ...restartFigures(samples, `restart among ${vms}`, ({ restart }) => restart),
    ...steadyFigures(samples),
  ];
}

function requestFigures(samples: readonly Of<'burst'>[]): Figure[] {
  const known = samples.flatMap(({ vms, result }) => (result.requests ? [{ vms, requests: result.requests }] : []));
  const names = new Set(known.flatMap(({ requests }) => Object.keys(requests)));
  return [...names].sort().map((name) => {
    return figure(known, `API requests per start: ${name}`, '1', ({ vms, requests }) => (requests[name] ?? 0) / vms);
  });
}

function steadyFigures(samples: readonly Of<'burst'>[]): Figure[] {
  const known = samples.flatMap(({ steady }) => (steady ? [steady] : []));
  if (known.length === 0) return [];
  const isWrite = (name: string) => /^(create|update|patch|delete) (?!nodes)/.test(name);
  return [
    figure(known, 'API writes in steady state, without the heartbeat', '1', (counts) => {
      return Object.entries(counts).reduce((sum, [name, count]) => sum + (isWrite(name) ? count : 0), 0);
    }),
  ];
}

function restartFigures<T>(samples: readonly T[], title: string, of: (sample: T) => RestartResult): Figure[] {
  return [
    figure(samples, `${title}: all adopted after`, 'ms', (sample) => of(sample).adoptedMs),
    figure(samples, `${title}: not adopted`, '1', (sample) => of(sample).notAdopted),
    figure(samples, `${title}: VMIs harmed`, '1', (sample) => of(sample).harmed),
  ];
}

function pacedFigures(samples: readonly Of<'paced'>[]): Figure[] {
  if (samples.length === 0) return [];
  return [50, 95].map((percent) =>
    figure(samples, `one start per 200 ms: Scheduled → Running, p${percent}`, 'ms', ({ result }) => {
      return percentile(result.runningMs, percent);
    }),
  );
}

function manyFigures(samples: readonly Of<'many'>[]): Figure[] {
  const [first] = samples;
  if (!first) return [];
  const { vms } = first;
  return [
    figure(samples, `VMIs lost of ${vms}`, '1', ({ result }) => result.lost.length),
    figure(samples, `${vms} at once: Scheduled → Running, p99`, 'ms', ({ result }) => percentile(result.runningMs, 99)),
    figure(samples, `RSS with ${vms} VMIs`, 'MB', ({ residentMb }) => residentMb),
    ...restartFigures(samples, `restart among ${vms}`, ({ plain }) => plain),
    ...restartFigures(samples, `restart among ${vms}, 10 hung`, ({ hung }) => hung),
  ];
}

function foreignFigures(samples: readonly Of<'foreign'>[]): Figure[] {
  const [first] = samples;
  if (!first) return [];
  const title = `with ${first.foreign} VMIs of other nodes`;
  return [
    figure(samples, `RSS idle, ${title}`, 'MB', ({ idleMb }) => idleMb),
    figure(samples, `RSS after the burst, ${title}`, 'MB', ({ loadedMb }) => loadedMb),
  ];
}
