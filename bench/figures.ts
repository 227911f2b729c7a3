export type Unit = 'ms' | 'MB' | '1' | '1/s' | 'MB/s' | 'KB' | '%' | 'ms/GB';

/** Samples of one figure over several runs. */
export interface Figure {
  readonly name: string;
  readonly unit: Unit;
  readonly samples: readonly number[];
}

export interface Spread {
  readonly min: number;
  readonly median: number;
  readonly max: number;
}

export function spread(samples: readonly number[]): Spread {
  if (samples.length === 0) return { min: Number.NaN, median: Number.NaN, max: Number.NaN };
  const sorted = [...samples].sort((a, b) => a - b);
  const at = (index: number) => sorted[Math.min(sorted.length - 1, Math.max(0, index))] ?? Number.NaN;
  const middle = (sorted.length - 1) / 2;
  return { min: at(0), median: (at(Math.floor(middle)) + at(Math.ceil(middle))) / 2, max: at(sorted.length - 1) };
}

/** The smallest sample that `percent` of all do not exceed; NaN of none. */
export function percentile(samples: readonly number[], percent: number): number {
  const sorted = [...samples].sort((a, b) => a - b);
  return sorted[Math.max(0, Math.ceil((percent / 100) * sorted.length) - 1)] ?? Number.NaN;
}

export function withSpread(figures: readonly Figure[]): (Figure & Spread)[] {
  return figures.map((figure) => ({ ...figure, ...spread(figure.samples) }));
}

/** Name, median, min, max, unit, number of runs. */
export function table(figures: readonly Figure[]): string {
  const rows = figures.map((figure) => {
    const { min, median, max } = spread(figure.samples);
    return [figure.name, ...[median, min, max].map(shown), unitName(figure.unit), `${figure.samples.length}`];
  });
  return aligned([['figure', 'median', 'min', 'max', 'unit', 'runs'], ...rows]);
}

/** Two programs side by side: medians, their spread, and ours through theirs. */
export function comparison(
  names: readonly [string, string],
  ours: readonly Figure[],
  theirs: readonly Figure[],
): string {
  const rows = ours.map((figure) => {
    const other = theirs.find(({ name }) => name === figure.name);
    const [a, b] = [spread(figure.samples), spread(other?.samples ?? [])];
    const range = ({ min, max }: Spread) => `${shown(min)}–${shown(max)}`;
    const ratio = a.median / b.median;
    return [
      figure.name,
      ...[shown(a.median), range(a), shown(b.median), range(b)],
      Number.isFinite(ratio) ? ratio.toFixed(2) : '–',
      unitName(figure.unit),
    ];
  });
  return aligned([['figure', names[0], 'min–max', names[1], 'min–max', 'ratio', 'unit'], ...rows]);
}

function unitName(unit: Unit): string {
  return unit === '1' ? '' : unit;
}

function shown(value: number): string {
  if (Number.isNaN(value)) return '–';
  if (Number.isInteger(value) || Math.abs(value) >= 100) return value.toFixed(0);
  return Math.abs(value) >= 10 ? value.toFixed(1) : value.toFixed(2);
}

/** The first column to the left, the others to the right. */
function aligned(rows: readonly (readonly string[])[]): string {
  const widths = (rows[0] ?? []).map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)));
  return rows
    .map((row) =>
      row
        .map((cell, column) => (column === 0 ? cell.padEnd(widths[0] ?? 0) : cell.padStart(widths[column] ?? 0)))
        .join('  '),
    )
    .join('\n');
}
