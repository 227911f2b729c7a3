import type { TimelineReport } from '../../api/index.ts';
import { type WaterfallBar, waterfallOf } from '../../web/index.ts';
import { table } from './explain-text.ts';
import { namespaceFlag } from './find-vmi.ts';

const barColumns = 40;

/** For a person: a waterfall. Times count from the first of which the millisecond is known. Lines without their ends. */
export function timelineLines(report: TimelineReport): string[] {
  const { namespace, name, node, created } = report;
  const { allMs, bars, phases } = waterfallOf(report);
  const head = [`${namespace}/${name}${node === undefined ? '' : ` on node ${node}`}, created ${created}`];
  const reached = phases.map(({ phase, at }) => `${phase} ${at}`);
  if (reached.length > 0) head.push(`  phases   ${reached.join(', ')} (to the second)`);
  if (bars.length === 0)
    return [
      ...head,
      `  nothing is known of how it started: virt-node explain ${name}${namespaceFlag(namespace)} says what it waits for`,
    ];
  const lines = bars.map((bar) => [
    `${bar.afterMs} ms`,
    bar.tookMs === undefined ? '-' : `${bar.tookMs} ms`,
    barText(bar, allMs),
    bar.part,
    bar.what,
  ]);
  return [...head, `  in all   ${allMs} ms`, '', ...table(['AFTER', 'TOOK', 'WHEN', 'PART', 'WHAT'], lines)];
}

/** As wide for each row; what took less than a column has one. */
function barText({ afterMs, tookMs = 0 }: WaterfallBar, allMs: number): string {
  const columnOf = (ms: number) => Math.round((ms / Math.max(1, allMs)) * barColumns);
  const from = Math.min(columnOf(afterMs), barColumns - 1);
  const width = Math.max(1, columnOf(afterMs + tookMs) - from);
  return `${'.'.repeat(from)}${'#'.repeat(width)}`.padEnd(barColumns, '.');
}
