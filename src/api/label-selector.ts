import { isRecord, listOf, memberAt } from '../base/index.ts';

type Labels = Readonly<Record<string, string>>;

export type LabelOperator = 'In' | 'NotIn' | 'Exists' | 'DoesNotExist' | 'Gt' | 'Lt';

/** One requirement on labels, as node affinity and label selectors of Kubernetes write it; the latter have no `Gt` and `Lt`. */
export interface LabelRequirement<Operator extends LabelOperator = LabelOperator> {
  readonly key: string;
  readonly operator: Operator;
  readonly values?: readonly string[];
}

export type LabelMatcher = (labels: Labels | undefined) => boolean;

/** `LabelSelector` of Kubernetes, readable throughout. */
export interface LabelSelector {
  readonly matchLabels?: Labels;
  readonly matchExpressions?: readonly LabelRequirement<SelectorOperator>[];
}

type SelectorOperator = Exclude<LabelOperator, 'Gt' | 'Lt'>;

/** All requirements hold; none selects everything. What a requirement names is looked for in a set, as lists may be long. */
export function labelMatcher(requirements: readonly LabelRequirement[]): LabelMatcher {
  const matchers = requirements.map(requirementMatcher);
  return (labels) => matchers.every((matches) => matches(labels));
}

/** As Kubernetes does it: all requirements hold; an empty selector selects everything. */
export function selects({ matchLabels = {}, matchExpressions = [] }: LabelSelector, labels: Labels): boolean {
  const exact = Object.entries(matchLabels).map(([key, value]) => ({ key, operator: 'In', values: [value] }) as const);
  return labelMatcher([...exact, ...matchExpressions])(labels);
}

/** `NotIn` also selects objects without the label; an operator that is not known selects nothing. */
function requirementMatcher({ key, operator, values = [] }: LabelRequirement): LabelMatcher {
  const valueIn = (labels: Labels = {}) => (Object.hasOwn(labels, key) ? labels[key] : undefined);
  switch (operator) {
    case 'In':
    case 'NotIn': {
      const wanted: ReadonlySet<string | undefined> = new Set(values);
      return (labels) => wanted.has(valueIn(labels)) === (operator === 'In');
    }
    case 'Exists':
      return (labels) => valueIn(labels) !== undefined;
    case 'DoesNotExist':
      return (labels) => valueIn(labels) === undefined;
    case 'Gt':
      return (labels) => numberOf(valueIn(labels)) > numberOf(values[0]);
    case 'Lt':
      return (labels) => numberOf(valueIn(labels)) < numberOf(values[0]);
    default:
      operator satisfies never;
      return () => false;
  }
}

/** NaN, which is neither less nor greater, for all that is no integer. */
function numberOf(text: string | undefined): number {
  return text !== undefined && /^-?\d+$/.test(text) ? Number(text) : Number.NaN;
}

/** Undefined: it is no label selector. One that is half understood would choose objects that were not meant. */
export function readLabelSelector(value: unknown): LabelSelector | undefined {
  if (!isRecord(value)) return undefined;
  const matchLabels = memberAt(value, 'matchLabels');
  const matchExpressions = memberAt(value, 'matchExpressions');
  if (matchLabels !== undefined && !isTexts(matchLabels)) return undefined;
  if (matchExpressions === undefined) return matchLabels ? { matchLabels } : {};
  if (!Array.isArray(matchExpressions)) return undefined;
  const expressions = matchExpressions.map(readExpression);
  const usable = expressions.filter((expression) => expression !== undefined);
  if (usable.length < expressions.length) return undefined;
  return { ...(matchLabels && { matchLabels }), matchExpressions: usable };
}

function readExpression(value: unknown): LabelRequirement<SelectorOperator> | undefined {
  const key = memberAt(value, 'key');
  const operator = memberAt(value, 'operator');
  const values = listOf(memberAt(value, 'values'));
  if (typeof key !== 'string' || !values.every((word) => typeof word === 'string')) return undefined;
  if (operator === 'Exists' || operator === 'DoesNotExist') return values.length === 0 ? { key, operator } : undefined;
  if (operator === 'In' || operator === 'NotIn') return values.length > 0 ? { key, operator, values } : undefined;
  return undefined;
}

function isTexts(value: unknown): value is Record<string, string> {
  return isRecord(value) && Object.values(value).every((text) => typeof text === 'string');
}
