/**
 * Named rules, of which the first that matches decides. They are pure: no promise, no clock, no logger, no throw. The name is
 * log field, metric label and test title; the sentence is what "explain" says to people.
 */
export interface Rule<Facts, Plan> {
  readonly name: string;
  /** One sentence for people: what is the matter, and what is done or awaited because of it. */
  readonly why: string;
  readonly when: (facts: Facts) => boolean;
  readonly plan: (facts: Facts) => Plan;
}

/** Matches whatever is left, so that there is a decision for everything that can be observed. */
export type LastRule<Facts, Plan> = Omit<Rule<Facts, Plan>, 'when'>;

export interface RuleTable<Facts, Plan> {
  /** In order, the last rule included. */
  readonly rules: readonly Rule<Facts, Plan>[];
  /** The rule that decides on these facts. */
  ruleFor(facts: Facts): Rule<Facts, Plan>;
}

export function ruleTable<Facts, Plan>(
  rules: readonly Rule<Facts, Plan>[],
  last: LastRule<Facts, Plan>,
): RuleTable<Facts, Plan> {
  const lastRule: Rule<Facts, Plan> = { ...last, when: () => true };
  return {
    rules: [...rules, lastRule],
    ruleFor: (facts) => rules.find(({ when }) => when(facts)) ?? lastRule,
  };
}

/** The plan of the first rule that matches, with that rule's name. */
export function decideBy<Facts, Plan extends object>(
  table: RuleTable<Facts, Plan>,
  facts: Facts,
): Plan & { readonly rule: string } {
  const rule = table.ruleFor(facts);
  return { ...rule.plan(facts), rule: rule.name };
}

/** The sentence of a rule; empty for a name that this build does not have. */
export function explainRule(
  { rules }: { readonly rules: readonly Pick<Rule<never, unknown>, 'name' | 'why'>[] },
  name: string,
) {
  return rules.find((rule) => rule.name === name)?.why ?? '';
}
