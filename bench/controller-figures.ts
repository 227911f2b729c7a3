import type { FigureList } from './agent-figures.ts';
import type { RequestCounts } from './audit-log.ts';

/** Of one account, by VM: requests, and of those writes and events. Leases are how it is found out who may. */
export function addRequests(title: string, counts: RequestCounts | undefined, vms: number, figures: FigureList): void {
  if (!counts) return;
  const { requests, writes, events } = requestsOf(counts);
  figures.add(`${title}: requests per VM`, '1', requests / vms);
  figures.add(`${title}: writes per VM`, '1', writes / vms);
  figures.add(`${title}: events per VM`, '1', events / vms);
}

export interface RequestSums {
  readonly requests: number;
  readonly writes: number;
  readonly events: number;
}

export function requestsOf(counts: RequestCounts): RequestSums {
  const isOf = (resource: string) => (name: string) => name.split(' ')[1] === resource;
  const isWrite = (name: string) => /^(create|update|patch|delete) /.test(name);
  const named = Object.entries(counts).filter(([name]) => !isOf('leases')(name));
  const sum = (isMeant: (name: string) => boolean) =>
    named.reduce((all, [name, count]) => all + (isMeant(name) ? count : 0), 0);
  return {
    requests: sum(() => true),
    writes: sum((name) => isWrite(name) && !isOf('events')(name)),
    events: sum((name) => isWrite(name) && isOf('events')(name)),
  };
}
