import type { ExplainLabel, ExplainLabels } from '../../../api/index.ts';
import { labelFamilies } from './families.ts';
import { owns } from './family.ts';
import type { LabelPlan } from './plan.ts';

/** What is on the node and why; what could be and why not. */
export type LabelReport = Pick<ExplainLabels, 'state' | 'problem' | 'here' | 'notHere'>;

export interface LabelSituation {
  /** `skipped`: its annotation forbids all changes. */
  readonly node: LabelReport['state'];
  readonly problem: string | undefined;
}

/** Pure. `present`: all labels of the node; those of others are left out. */
export function explainLabels(
  plan: LabelPlan,
  present: Readonly<Record<string, string>>,
  { node, problem }: LabelSituation,
): LabelReport {
  const reasons = reasonsOf(plan);
  const ours = Object.keys(present).filter((key) => labelFamilies.some((family) => owns(family, key)));
  const keys = [...new Set([...ours, ...reasons.keys(), ...unknownPrefixes(plan)])].sort();
  const all = keys.map((key) => explained(key, present[key], plan, reasons));
  return {
    state: node,
    ...(problem !== undefined && { problem }),
    here: all.filter(({ value }) => value !== undefined),
    notHere: all.filter(({ value }) => value === undefined),
  };
}

function explained(
  key: string,
  value: string | undefined,
  plan: LabelPlan,
  reasons: ReadonlyMap<string, string>,
): ExplainLabel {
  const shown = value === undefined ? {} : { value };
  const unknown = whyUnknown(key, plan);
  if (unknown !== undefined) {
    const because = `${unknown}: ${value === undefined ? 'it is not known whether it belongs here' : 'it is left as it is'}`;
    return { key, ...shown, state: 'kept', because };
  }
  const wanted = plan.labels.get(key);
  const because = reasons.get(key) ?? 'nothing on this machine asks for it any more';
  return { key, ...shown, state: wanted === value ? 'right' : 'pending', because };
}

function reasonsOf({ families }: LabelPlan): ReadonlyMap<string, string> {
  return new Map(
    families.flatMap(({ plan }) =>
      plan.kind === 'known'
        ? [...plan.refusals, ...plan.wishes].map(({ key, because }) => [key, because] as const)
        : [],
    ),
  );
}

function whyUnknown(key: string, { families }: LabelPlan): string | undefined {
  const plan = families.find(({ family }) => owns(family, key))?.plan;
  return plan?.kind === 'unknown' ? plan.because : undefined;
}

/** So that a family about which nothing is known is not silent. */
function unknownPrefixes({ families }: LabelPlan): string[] {
  return families.flatMap(({ family, plan }) => (plan.kind === 'unknown' ? [...family.prefixes, ...family.keys] : []));
}
