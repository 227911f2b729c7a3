import { isRecord, listOf, memberAt } from '../base/index.ts';

/** `LabelSelector` of Kubernetes, readable throughout. */
export interface LabelSelector {
  readonly matchLabels?: Readonly<Record<string, string>>;
  readonly matchExpressions?: readonly {
    readonly key: string;
    readonly operator: 'In' | 'NotIn' | 'Exists' | 'DoesNotExist';
    readonly values?: readonly string[];
  }[];
}

type Expression = NonNullable<LabelSelector['matchExpressions']>[number];

/** Undefined: it is no label selector. One that is half understood would choose nodes that nobody meant. */
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

function readExpression(value: unknown): Expression | undefined {
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
