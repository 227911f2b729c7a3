import { type Intended, intended } from './intended.ts';
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
    for (const found of differencesOf(ours[index]?.view, other[index]?.view)) {
      differences.push({ at, ...found, reason: intendedOf(scenario, { at, ...found })?.why });
    }
  }
  return { scenario, looks: ours.length, differences };
}

function intendedOf(scenario: string, { at, path, ours, other }: Omit<Difference, 'reason'>): Intended | undefined {
  const line = `${path}: ${ours ?? '-'} | ${other ?? '-'}`;
  return intended.find(
    (entry) =>
      (!entry.scenario || entry.scenario.test(scenario)) && (!entry.at || entry.at.test(at)) && entry.line.test(line),
  );
}

/** What is excused and did not happen, after all scenarios were played: it would hide what comes later. */
export function needless(results: readonly ScenarioResult[]): readonly Intended[] {
  const met = new Set(
    results.flatMap(({ scenario, differences }) => differences.map((difference) => intendedOf(scenario, difference))),
  );
  return intended.filter((entry) => !entry.sometimes && !met.has(entry));
}

type Leaf = Pick<Difference, 'path' | 'ours' | 'other'>;

/** What only one side has is one difference, however large it is. */
function differencesOf(ours: Json, other: Json, path = ''): Leaf[] {
  if (isHolder(ours) && isHolder(other)) {
    const names = new Set([...Object.keys(ours), ...Object.keys(other)]);
    return [...names].flatMap((name) =>
      differencesOf(ours[name], other[name], path === '' ? name : `${path} › ${name}`),
    );
  }
  const [left, right] = [JSON.stringify(ours), JSON.stringify(other)];
  return left === right ? [] : [{ path, ours: left, other: right }];
}

function isHolder(value: Json): boolean {
  return typeof value === 'object' && value !== null && Object.keys(value).length > 0;
}

/** For people: one block per scenario, findings first. */
export function report(results: readonly ScenarioResult[], showIntended: boolean): string {
  const lines: string[] = [];
  for (const { scenario, looks, differences } of results) {
    const findings = differences.filter(({ reason }) => reason === undefined);
    const meant = differences.length - findings.length;
    const outcome =
      differences.length === 0 ? 'equal' : findings.length === 0 ? 'equal but for what is meant' : 'DIFFERS';
    lines.push(`${scenario}: ${outcome} (${looks} looks, ${meant} meant, ${findings.length} findings)`);
    for (const { at, path, ours, other } of findings) {
      lines.push(`  ${at}: ${path}`, `    ours   ${ours ?? '-'}`, `    other  ${other ?? '-'}`);
    }
    const reasons = new Set(differences.flatMap(({ reason }) => reason ?? []));
    if (showIntended) for (const reason of reasons) lines.push(`  meant: ${reason}`);
  }
  return lines.join('\n');
}
