/** Samples of one figure over several runs. */
export interface Figure {
  readonly name: string;
  readonly unit: 'ms' | 'MB';
  readonly samples: readonly number[];
}

export interface Spread {
  readonly min: number;
  readonly median: number;
  readonly max: number;
}

export function spread(samples: readonly number[]): Spread {
  if (samples.length === 0) throw new Error('a figure without samples');
  const sorted = [...samples].sort((a, b) => a - b);
  const at = (index: number) => sorted[Math.min(sorted.length - 1, Math.max(0, index))] ?? Number.NaN;
  const middle = (sorted.length - 1) / 2;
  return { min: at(0), median: (at(Math.floor(middle)) + at(Math.ceil(middle))) / 2, max: at(sorted.length - 1) };
}

/** Right-aligned columns: name, median, min, max, unit, number of runs. */
export function table(figures: readonly Figure[]): string {
  const rows = figures.map(({ name, unit, samples }) => {
    const { min, median, max } = spread(samples);
    return [
      name,
      ...[median, min, max].map((value) => value.toFixed(unit === 'MB' ? 1 : 0)),
      unit,
      `${samples.length}`,
    ];
  });
  const all = [['figure', 'median', 'min', 'max', 'unit', 'runs'], ...rows];
  const widths = (all[0] ?? []).map((_, column) => Math.max(...all.map((row) => row[column]?.length ?? 0)));
  const line = (row: string[]) =>
    row
      .map((cell, column) => (column === 0 ? cell.padEnd(widths[0] ?? 0) : cell.padStart(widths[column] ?? 0)))
      .join('  ');
  return all.map(line).join('\n');
}
