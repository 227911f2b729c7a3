import { table } from './explain-text.ts';
import { namespaceFlag } from './find-vmi.ts';
import { beginOf, type TimelineRow } from './timeline.ts';

/** Answer of `virt-node explain NAME --timeline`, as `-o json` gives it. */
export interface TimelineReport {
  readonly kind: 'Timeline';
  readonly at: string;
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
  readonly node?: string;
  /** As the API has it: to the second. */
  readonly created: string;
  readonly rows: readonly TimelineRow[];
}

const barColumns = 40;

/** For a person: a waterfall. Times count from the first of which the millisecond is known. Lines without their ends. */
export function timelineLines({ namespace, name, node, created, rows }: TimelineReport): string[] {
  const timed = rows.filter(({ part }) => part !== 'phase');
  const startMs = Math.min(...timed.map(beginOf));
  const endMs = Math.max(...timed.map(({ to }) => Date.parse(to)));
  const head = [`${namespace}/${name}${node === undefined ? '' : ` on node ${node}`}, created ${created}`];
  const phases = rows.filter(({ part }) => part === 'phase').map(({ what, to }) => `${what} ${to}`);
  if (phases.length > 0) head.push(`  phases   ${phases.join(', ')} (to the second)`);
  if (timed.length === 0)
    return [
      ...head,
      `  nothing is known of how it started: virt-node explain ${name}${namespaceFlag(namespace)} says what it waits for`,
    ];
  const bar = (row: TimelineRow) => barOf(beginOf(row) - startMs, Date.parse(row.to) - startMs, endMs - startMs);
  const lines = timed.map((row) => [
    `${beginOf(row) - startMs} ms`,
    row.from === undefined ? '-' : `${Date.parse(row.to) - beginOf(row)} ms`,
    bar(row),
    row.part,
    row.what,
  ]);
  return [...head, `  in all   ${endMs - startMs} ms`, '', ...table(['AFTER', 'TOOK', 'WHEN', 'PART', 'WHAT'], lines)];
}

/** As wide for each row; what took less than a column has one. */
function barOf(fromMs: number, toMs: number, allMs: number): string {
  const columnOf = (ms: number) => Math.round((ms / Math.max(1, allMs)) * barColumns);
  const from = Math.min(columnOf(fromMs), barColumns - 1);
  const width = Math.max(1, columnOf(toMs) - from);
  return `${'.'.repeat(from)}${'#'.repeat(width)}`.padEnd(barColumns, '.');
}
