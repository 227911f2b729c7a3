import type { VmRow } from '../rows.ts';
import { statusOf, toneOf } from './row-model.ts';

/** `trouble`: what has failed first. */
export type OrderKey = (typeof orderKeys)[number];
export const orderKeys = ['trouble', 'name', 'status', 'guest', 'size', 'age'] as const;

export interface RowOrder {
  readonly by: OrderKey;
  readonly isReversed: boolean;
}

export const usualOrder: RowOrder = { by: 'trouble', isReversed: false };

export const orderLabels: Readonly<Record<OrderKey, string>> = {
  trouble: 'Failures first',
  name: 'Name',
  status: 'Status',
  guest: 'Guest',
  size: 'Size',
  age: 'Age',
};

/** A collator of its own for each pair would take a hundred times as long. */
const byNamespace = new Intl.Collator();
const byName = new Intl.Collator('en', { numeric: true });

type Compare = (one: VmRow, other: VmRow) => number;

const compare: Readonly<Record<OrderKey, Compare>> = {
  trouble: (one, other) => rank(one) - rank(other),
  name: () => 0,
  status: (one, other) => byName.compare(statusOf(one), statusOf(other)),
  guest: (one, other) => byName.compare(guestText(one), guestText(other)),
  size: (one, other) => (other.memoryBytes ?? 0) - (one.memoryBytes ?? 0) || (other.cpus ?? 0) - (one.cpus ?? 0),
  // The youngest first.
  age: (one, other) => byNamespace.compare(other.createdAt, one.createdAt),
};

/** Sorts `rows` in place; what is equal is by namespace, then by name with its numbers as people count. */
export function byOrder(rows: VmRow[], { by, isReversed }: RowOrder): readonly VmRow[] {
  const first = compare[by];
  const sign = isReversed ? -1 : 1;
  return rows.sort((one, other) => sign * (first(one, other) || compareRows(one, other)));
}

export function compareRows(one: VmRow, other: VmRow): number {
  return byNamespace.compare(one.namespace, other.namespace) || byName.compare(one.name, other.name);
}

/** The same column again turns it round. */
export function nextOrder(order: RowOrder, by: OrderKey): RowOrder {
  return { by, isReversed: order.by === by && !order.isReversed };
}

function rank(row: VmRow): number {
  return toneOf(row) === 'bad' ? 0 : 1;
}

function guestText({ vmi }: VmRow): string {
  return [vmi?.guestOs, vmi?.ip].filter(Boolean).join(' ') || '\uffff';
}
