import { useLayoutEffect } from 'preact/hooks';
import type { TimelineReport } from '../../api/index.ts';
import type { VmRow } from '../rows.ts';
import { type WaterfallBar, waterfallOf } from '../waterfall.ts';
import { Card, Facts, Nothing, Table } from './elements.tsx';
import { useOwned } from './owned.ts';
import { Poll, Polled } from './polled.tsx';
import { timelineOf, type Vm } from './server-calls.ts';
import { messageOf } from './words.ts';

interface TimelinePanelProps {
  readonly vm: Vm;
  readonly row: VmRow | undefined;
}

/** How a VM came to run, as `virt-node explain NAME --timeline` tells it. To be drawn anew for another instance. */
export function TimelinePanel({ vm, row }: TimelinePanelProps) {
  const poll = useOwned(() => pollOf(vm));
  const runs = row?.vmi !== undefined;
  useLayoutEffect(() => {
    if (runs) void poll.now();
  }, [poll, row, runs]);
  return (
    <Card title="From the order to the login prompt">
      {!runs && <Nothing>It does not run: its next start is shown here.</Nothing>}
      {runs && (
        <Polled poll={poll} failureText={(error) => `Its start cannot be shown: ${messageOf(error)}`}>
          {(report) => <Timeline report={report} />}
        </Polled>
      )}
    </Card>
  );
}

/** What is whole does not change. */
function pollOf(vm: Vm): Poll<TimelineReport> {
  const isWhole = () => poll.answer.value.kind === 'known' && poll.answer.value.value.whole === true;
  const poll: Poll<TimelineReport> = new Poll(
    (signal) => timelineOf(vm, signal),
    () => !isWhole(),
  );
  return poll;
}

const head = ['Part', 'What', 'After', 'Took', 'When'];

export function Timeline({ report }: { readonly report: TimelineReport }) {
  const { allMs, bars, phases } = waterfallOf(report);
  if (bars.length === 0) return <Nothing>Nothing is known of its start: Why tells what it waits for.</Nothing>;
  const timeOf = (at: string) => new Date(at).toLocaleTimeString();
  const facts = [
    { term: 'In all', text: `${allMs} ms${report.whole ? '' : ' so far; no login prompt yet'}` },
    { term: 'Created', text: new Date(report.created).toLocaleString() },
    { term: 'Phases', text: phases.map(({ phase, at }) => `${phase} ${timeOf(at)}`).join(', ') || '–' },
  ];
  return (
    <div class="waterfall">
      <Facts facts={facts} />
      <Table head={head}>
        {bars.map((bar) => (
          <BarRow key={`${bar.part} ${bar.what} ${bar.afterMs}`} bar={bar} allMs={allMs} />
        ))}
      </Table>
    </div>
  );
}

/** What took less than this is drawn as wide. */
const narrowestPercent = 0.6;

function BarRow({
  bar: { part, what, afterMs, tookMs },
  allMs,
}: {
  readonly bar: WaterfallBar;
  readonly allMs: number;
}) {
  const percent = (ms: number) => (100 * ms) / Math.max(1, allMs);
  const width = Math.max(narrowestPercent, percent(tookMs ?? 0));
  const from = Math.min(percent(afterMs), 100 - width);
  return (
    <tr data-part={part}>
      <td class="part">{part}</td>
      <th scope="row">{what}</th>
      <td class="ms">{afterMs} ms</td>
      <td class="ms took">{tookMs === undefined ? '–' : `${tookMs} ms`}</td>
      <td class="when-bar">
        <svg aria-hidden="true">
          <rect x={`${from}%`} width={`${width}%`} height="100%" />
        </svg>
      </td>
    </tr>
  );
}
