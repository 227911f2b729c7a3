import { isRecord, sameJson } from '../../base/index.ts';

/** Go writes these members also where they are empty; an empty object of another name (`masquerade: {}`) says something. */
const meaninglessIfEmpty: ReadonlySet<string> = new Set(['metadata', 'devices', 'resources']);

/** Whether two templates, or parts of them, ask for the same: as written by a user, and as upstream's controller keeps them in a revision. */
export function sameTemplate(one: unknown, other: unknown): boolean {
  return sameJson(plain(one), plain(other));
}

function plain(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(plain);
  if (!isRecord(value)) return value;
  const members = Object.entries(value).map(([name, member]) => [name, plain(member)] as const);
  return Object.fromEntries(members.filter(([name, member]) => !isMeaningless(name, member)));
}

function isMeaningless(name: string, member: unknown): boolean {
  if (member === null || member === undefined) return true;
  return meaninglessIfEmpty.has(name) && isRecord(member) && Object.keys(member).length === 0;
}
