import type { LabelFacts } from './facts.ts';
import { labelFamilies } from './families.ts';
import { type FamilyPlan, type LabelFamily, owns } from './family.ts';
import { type LabelSettings, noSettings } from './settings.ts';

export interface LabelPlan {
  readonly families: readonly { readonly family: LabelFamily; readonly plan: FamilyPlan }[];
  /** All that belongs on the node, as far as it is known. */
  readonly labels: ReadonlyMap<string, string>;
}

/** Changes of a node's labels: null takes one away. */
export type LabelChanges = Readonly<Record<string, string | null>>;

const notConfigured: FamilyPlan = { kind: 'unknown', because: 'the KubeVirt object has not been read yet' };

/** Pure: what follows from facts and configuration (undefined: not known yet), whatever the node has. */
export function planLabels(facts: LabelFacts, settings: LabelSettings | undefined): LabelPlan {
  const families = labelFamilies.map((family) => {
    if (!settings && family.followsConfiguration) return { family, plan: notConfigured };
    return { family, plan: family.plan(facts, settings ?? noSettings) };
  });
  const wishes = families.flatMap(({ plan }) => (plan.kind === 'known' ? plan.wishes : []));
  return { families, labels: new Map(wishes.map(({ key, value }) => [key, value])) };
}

/**
 * What to change on a node that has these labels; undefined: nothing. Labels of others and of families about which nothing is
 * known are not touched.
 */
export function changesOf(plan: LabelPlan, present: Readonly<Record<string, string>>): LabelChanges | undefined {
  const known = plan.families.filter((one) => one.plan.kind === 'known').map(({ family }) => family);
  const stale = Object.keys(present).filter((key) => !plan.labels.has(key) && known.some((one) => owns(one, key)));
  const missing = [...plan.labels].filter(([key, value]) => present[key] !== value);
  if (stale.length === 0 && missing.length === 0) return undefined;
  return Object.fromEntries([...missing, ...stale.map((key) => [key, null] as const)]);
}
