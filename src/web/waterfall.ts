import type { TimelineReport, TimelineRow } from '../api/index.ts';

/** A timeline as it is drawn. */
export interface Waterfall {
  readonly allMs: number;
  readonly bars: readonly WaterfallBar[];
  /** To the second, as the API has them. */
  readonly phases: readonly { readonly phase: string; readonly at: string }[];
}

export interface WaterfallBar {
  readonly part: TimelineRow['part'];
  readonly what: string;
  /** Since the first time of which the millisecond is known. */
  readonly afterMs: number;
  /** Absent: of that only its end is known. */
  readonly tookMs?: number;
}

/** Pure. */
export function waterfallOf({ rows }: Pick<TimelineReport, 'rows'>): Waterfall {
  const timed = rows.filter(({ part }) => part !== 'phase');
  const startMs = Math.min(...timed.map(beginOf));
  const endMs = Math.max(...timed.map(({ to }) => Date.parse(to)));
  return {
    allMs: timed.length === 0 ? 0 : endMs - startMs,
    bars: timed.map((row) => ({
      part: row.part,
      what: row.what,
      afterMs: beginOf(row) - startMs,
      ...(row.from !== undefined && { tookMs: Date.parse(row.to) - beginOf(row) }),
    })),
    phases: rows.filter(({ part }) => part === 'phase').map(({ what, to }) => ({ phase: what, at: to })),
  };
}

function beginOf({ from, to }: TimelineRow): number {
  return Date.parse(from ?? to);
}
