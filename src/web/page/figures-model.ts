import type { GuestFigures } from '../../api/index.ts';
import { durationText } from '../duration.ts';
import { fileSize } from '../file-size.ts';

/** What the guest used at one time, or between it and the time before. */
export interface FigurePoint {
  readonly atMs: number;
  /** CPUs of the node that were busy with it: 1 is one of them. */
  readonly cpus?: number;
  readonly memoryBytes: number;
  /** Bytes per second. */
  readonly read?: number;
  readonly written?: number;
  readonly received?: number;
  readonly sent?: number;
}

/** Ten minutes of a point every 3 s. */
const maxPoints = 200;

/** Points as they come while somebody looks; those of another guest begin anew. */
export class FigureHistory {
  readonly #points: FigurePoint[] = [];
  #last: GuestFigures | undefined;

  add(figures: GuestFigures): void {
    const before = this.#last;
    const isSame = before !== undefined && before.uid === figures.uid && before.cpuSeconds <= figures.cpuSeconds;
    if (!isSame) this.#points.length = 0;
    const point = pointOf(figures, isSame ? before : undefined);
    this.#last = figures;
    // Two answers of one moment say nothing of the time between them.
    if (this.#points.at(-1)?.atMs === point.atMs) return;
    this.#points.push(point);
    if (this.#points.length > maxPoints) this.#points.shift();
  }

  get points(): readonly FigurePoint[] {
    return [...this.#points];
  }

  get last(): GuestFigures | undefined {
    return this.#last;
  }
}

function pointOf(figures: GuestFigures, before: GuestFigures | undefined): FigurePoint {
  const atMs = Date.parse(figures.at);
  const memoryBytes = figures.memory.usedBytes ?? figures.memory.residentBytes ?? 0;
  const seconds = before ? (atMs - Date.parse(before.at)) / 1_000 : 0;
  if (!before || !(seconds > 0)) return { atMs, memoryBytes };
  const rate = (total: (of: GuestFigures) => number) => Math.max(0, total(figures) - total(before)) / seconds;
  const disks = (name: 'readBytes' | 'writtenBytes') => (of: GuestFigures) => sum(of.disks.map((disk) => disk[name]));
  const links = (name: 'receivedBytes' | 'sentBytes') => (of: GuestFigures) =>
    sum(of.interfaces.map((link) => link[name]));
  return {
    atMs,
    memoryBytes,
    cpus: rate(({ cpuSeconds }) => cpuSeconds),
    read: rate(disks('readBytes')),
    written: rate(disks('writtenBytes')),
    received: rate(links('receivedBytes')),
    sent: rate(links('sentBytes')),
  };
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}

export interface Line {
  readonly label: string;
  /** Undefined: nobody knows what was then. */
  readonly values: readonly (number | undefined)[];
}

export interface Graph {
  readonly title: string;
  readonly lines: readonly Line[];
  /** Of the whole height. */
  readonly top: number;
  readonly text: (value: number) => string;
}

/** The four graphs of a guest. */
export function graphsOf(points: readonly FigurePoint[], last: GuestFigures | undefined): readonly Graph[] {
  const of = (pick: (point: FigurePoint) => number | undefined) => points.map(pick);
  const rates = (title: string, ...lines: readonly Line[]): Graph => ({
    title,
    lines,
    top: topOf(lines),
    text: perSecond,
  });
  const vcpus = Math.max(1, last?.vcpus ?? 1);
  const memory = last?.memory.usedBytes === undefined ? 'taken from the node' : 'used by the guest';
  const used = points.map(({ memoryBytes }) => memoryBytes);
  return [
    { title: 'CPU', lines: [{ label: `of ${vcpus}`, values: of(({ cpus }) => cpus) }], top: vcpus, text: cpuText },
    {
      title: 'Memory',
      lines: [{ label: `of ${fileSize(last?.memory.totalBytes ?? 0)}, ${memory}`, values: used }],
      top: Math.max(last?.memory.totalBytes ?? 0, ...used, 1),
      text: fileSize,
    },
    rates(
      'Disks',
      { label: 'read', values: of(({ read }) => read) },
      { label: 'written', values: of(({ written }) => written) },
    ),
    rates(
      'Network',
      { label: 'received', values: of(({ received }) => received) },
      { label: 'sent', values: of(({ sent }) => sent) },
    ),
  ];
}

/** A power of two, so that the scale does not move with each point. */
function topOf(lines: readonly Line[]): number {
  const highest = Math.max(1_024, ...lines.flatMap(({ values }) => values.map((value) => value ?? 0)));
  return 2 ** Math.ceil(Math.log2(highest));
}

function perSecond(bytes: number): string {
  return `${fileSize(bytes)}/s`;
}

function cpuText(cpus: number): string {
  return `${Math.round(cpus * 100)} %`;
}

/**
 * The line of an SVG of this size, as its `d`. The newest value is at the right edge, `slots` have room; a value that nobody knows is a gap.
 */
export function linePath(
  values: readonly (number | undefined)[],
  top: number,
  size: { readonly width: number; readonly height: number; readonly slots: number },
): string {
  const step = size.width / Math.max(1, size.slots - 1);
  const first = size.slots - values.length;
  let isDrawing = false;
  const parts = values.map((value, at) => {
    if (value === undefined) {
      isDrawing = false;
      return '';
    }
    const x = rounded((first + at) * step);
    const y = rounded(size.height * (1 - Math.min(1, Math.max(0, value / top))));
    const command = isDrawing ? 'L' : 'M';
    isDrawing = true;
    return `${command}${x} ${y}`;
  });
  return parts.join('');
}

function rounded(value: number): number {
  return Math.round(value * 10) / 10;
}

/** A minute at first, more as time goes by. */
export function slotsFor(points: readonly FigurePoint[]): number {
  return Math.max(21, points.length);
}

/** How long ago the left edge of a graph is. */
export function spanText(points: readonly FigurePoint[]): string {
  const [first, last] = [points[0], points.at(-1)];
  const tookMs = first && last ? last.atMs - first.atMs : 0;
  return `${durationText(Math.max(60_000, tookMs))} ago`;
}
