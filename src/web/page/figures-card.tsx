import { useLayoutEffect } from 'preact/hooks';
import type { GuestFigures } from '../../api/index.ts';
import type { VmRow } from '../rows.ts';
import { Card, Nothing } from './elements.tsx';
import {
  FigureHistory,
  type FigurePoint,
  type Graph,
  graphsOf,
  linePath,
  slotsFor,
  spanText,
} from './figures-model.ts';
import { useOwned } from './owned.ts';
import { Poll, Polled } from './polled.tsx';
import { figuresOf, type Vm } from './server-calls.ts';
import { messageOf } from './words.ts';

interface Figures {
  readonly points: readonly FigurePoint[];
  readonly last: GuestFigures | undefined;
}

/** What the guest uses, from now on: nobody asks it while nobody looks. */
export function FiguresCard({ row }: { readonly row: VmRow }) {
  const { namespace, name } = row;
  const poll = useOwned(() => pollOf({ namespace, name }));
  useLayoutEffect(() => void poll.now(), [poll]);
  return (
    <Card title="Use" class="is-wide">
      <Polled poll={poll} failureText={(error) => `There are no figures now: ${messageOf(error)}`}>
        {(figures) => <Graphs figures={figures} />}
      </Polled>
    </Card>
  );
}

function pollOf(vm: Vm): Poll<Figures> {
  const history = new FigureHistory();
  return new Poll(async (signal) => {
    history.add(await figuresOf(vm, signal));
    return { points: history.points, last: history.last };
  });
}

export function Graphs({ figures: { points, last } }: { readonly figures: Figures }) {
  if (points.length === 0) return <Nothing>Asking the guest…</Nothing>;
  return (
    <div class="graphs">
      {graphsOf(points, last).map((graph) => (
        <GraphView key={graph.title} graph={graph} slots={slotsFor(points)} span={spanText(points)} />
      ))}
    </div>
  );
}

const size = { width: 300, height: 60 };

interface GraphProps {
  readonly graph: Graph;
  readonly slots: number;
  /** Of its left edge. */
  readonly span: string;
}

function GraphView({ graph: { title, lines, top, text }, slots, span }: GraphProps) {
  const now = lines.map(({ label, values }) => {
    const value = values.at(-1);
    return { label, text: value === undefined ? '–' : text(value) };
  });
  const said = now.map(({ label, text: value }) => `${value} ${label}`).join(', ');
  return (
    <figure class="graph">
      <figcaption>
        <strong>{title}</strong>
        {now.map(({ label, text: value }, at) => (
          <span key={label} class={`legend is-line-${at}`}>
            <b>{value}</b> {label}
          </span>
        ))}
      </figcaption>
      <svg
        viewBox={`0 0 ${size.width} ${size.height}`}
        preserveAspectRatio="none"
        role="img"
        aria-label={`${title}: ${said}`}>
        {lines.map(({ label, values }, at) => (
          <path key={label} class={`is-line-${at}`} d={linePath(values, top, { ...size, slots })} />
        ))}
      </svg>
      <p class="scale" aria-hidden="true">
        <span>{span}</span>
        <span>top: {text(top)}</span>
        <span>now</span>
      </p>
    </figure>
  );
}
