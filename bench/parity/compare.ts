import { intended } from './intended.ts';
import type { Json } from './started-domain.ts';
import type { Look } from './view.ts';

export interface Difference {
  readonly at: string;
  readonly path: string;
  /** As JSON; undefined: not there. */
  readonly ours: string | undefined;
  readonly other: string | undefined;
  /** Why it is meant to be so; undefined: a finding. */
  readonly reason: string | undefined;
}

export interface ScenarioResult {
  readonly scenario: string;
  readonly looks: number;
  readonly differences: readonly Difference[];
}

/** Looks are compared one by one, leaf by leaf. */
export function compare(scenario: string, ours: readonly Look[], other: readonly Look[]): ScenarioResult {
  const differences: Difference[] = [];
  for (let index = 0; index < Math.max(ours.length, other.length); index++) {
    const at = ours[index]?.at ?? other[index]?.at ?? '';
    const [a, b] = [leavesOf(ours[index]?.view), leavesOf(other[index]?.view)];
    for (const path of new Set([...a.keys(), ...b.keys()])) {
      const [left, right] = [a.get(path), b.get(path)];
      if (left === right) continue;
      const found = { at, path, ours: left, other: right };
      differences.push({ ...found, reason: reasonOf(scenario, found) });
    }
  }
  return { scenario, looks: ours.length, differences };
}

function reasonOf(scenario: string, { at, path, ours, other }: Omit<Difference, 'reason'>): string | undefined {
  const line = `${path}: ${ours ?? '-'} | ${other ?? '-'}`;
  const known = intended.find(
    (entry) =>
      (!entry.scenario || entry.scenario.test(scenario)) && (!entry.at || entry.at.test(at)) && entry.line.test(line),
  );
  return known?.why;
}

/** `path → JSON of the leaf`; empty objects and lists are leaves. */
function leavesOf(value: Json, path = '', leaves = new Map<string, string>()): Map<string, string> {
  const entries = typeof value === 'object' && value !== null ? Object.entries(value) : [];
  if (entries.length === 0) {
    if (value !== undefined) leaves.set(path, JSON.stringify(value));
    return leaves;
  }
  for (const [name, child] of entries) leavesOf(child, path === '' ? name : `${path} › ${name}`, leaves);
  return leaves;
}

/** For people: one block per scenario, findings first. */
export function report(results: readonly ScenarioResult[], showIntended: boolean): string {
  const lines: string[] = [];
  for (const { scenario, looks, differences } of results) {
    const findings = differences.filter(({ reason }) => reason === undefined);
    const meant = differences.length - findings.length;
    const verdict =
      differences.length === 0 ? 'equal' : findings.length === 0 ? 'equal but for what is meant' : 'DIFFERS';
    lines.push(`${scenario}: ${verdict} (${looks} looks, ${meant} meant, ${findings.length} findings)`);
    for (const { at, path, ours, other } of findings) {
      lines.push(`  ${at}: ${path}`, `    ours   ${ours ?? '-'}`, `    other  ${other ?? '-'}`);
    }
    const reasons = new Set(differences.flatMap(({ reason }) => reason ?? []));
    if (showIntended) for (const reason of reasons) lines.push(`  meant: ${reason}`);
  }
  return lines.join('\n');
}
