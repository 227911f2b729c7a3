import type { SoakResult, SoakSample } from './soak.ts';

/** Where a soak fails. Slopes are of a straight line through the samples after the warm-up. */
export const soakLimits = {
  /**
   * In the first thousands of starts a flat agent still compiles (2 KB a start) and fills bounded histories (decisions of 256
   * VMIs that are gone, 4,096 events): heap snapshots, docs/bench.md. One VMI that is kept takes 15 KB.
   */
  heapKbPerThousandStarts: 4_096,
  /** Between the first and the last sample after the warm-up. */
  openFiles: 4,
  resources: 4,
} as const;

export interface SoakCheck {
  readonly heapKbPerThousandStarts: number;
  readonly openFilesGrown: number;
  readonly resourcesGrown: number;
  /** What is wrong, in words; none: all is flat. */
  readonly faults: readonly string[];
}

/** The first third of the samples is warm-up: code is compiled, bounded histories fill. */
export function checkSoak({ samples, astray }: SoakResult): SoakCheck {
  const calm = samples.slice(Math.floor(samples.length / 3));
  const [first, last] = [calm[0], calm.at(-1)];
  if (!first || !last || calm.length < 3) throw new Error('a soak needs four samples at least');
  const heapKbPerThousandStarts = slope(calm, (sample) => sample.heapKb) * 1000;
  const openFilesGrown = last.openFiles - first.openFiles;
  const resourcesGrown = last.resources - first.resources;
  const faults = [
    ...astray,
    ...above('heap growth in KB per 1,000 starts', heapKbPerThousandStarts, soakLimits.heapKbPerThousandStarts),
    ...above('open files more', openFilesGrown, soakLimits.openFiles),
    ...above('open resources more', resourcesGrown, soakLimits.resources),
    ...above('entries left in maps', last.leftovers, 0),
    ...above('ghost records left', last.ghostRecords, 0),
  ];
  return { heapKbPerThousandStarts, openFilesGrown, resourcesGrown, faults };
}

function above(what: string, value: number, limit: number): string[] {
  return value > limit ? [`${what}: ${Math.round(value)}, at most ${limit}`] : [];
}

/** Least squares, per start. */
function slope(samples: readonly SoakSample[], pick: (sample: SoakSample) => number): number {
  const mean = (values: readonly number[]) => values.reduce((sum, value) => sum + value, 0) / values.length;
  const [meanX, meanY] = [mean(samples.map(({ starts }) => starts)), mean(samples.map(pick))];
  const covariance = samples.reduce((sum, sample) => sum + (sample.starts - meanX) * (pick(sample) - meanY), 0);
  const variance = samples.reduce((sum, { starts }) => sum + (starts - meanX) ** 2, 0);
  return covariance / variance;
}
