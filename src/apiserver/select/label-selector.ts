import { badRequest } from '../errors.ts';

type Requirement =
  | { readonly kind: 'in' | 'not-in'; readonly key: string; readonly values: ReadonlySet<string> }
  | { readonly kind: 'exists' | 'missing'; readonly key: string }
  | { readonly kind: 'greater' | 'less'; readonly key: string; readonly than: number };

type Labels = Readonly<Record<string, string>>;

export type LabelSelector = (labels: Labels | undefined) => boolean;

const name = '[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?';
const keyPattern = new RegExp(`^(?:[a-z0-9](?:[-a-z0-9.]*[a-z0-9])?/)?${name}$`);
const valuePattern = new RegExp(`^(?:${name})?$`);

export function isLabelKey(text: string): boolean {
  const slash = text.lastIndexOf('/');
  const [prefix, rest] = slash < 0 ? ['', text] : [text.slice(0, slash), text.slice(slash + 1)];
  return keyPattern.test(text) && prefix.length <= 253 && rest.length <= 63;
}

export function isLabelValue(text: string): boolean {
  return text.length <= 63 && valuePattern.test(text);
}

/** Parses `a=b,c!=d,e in (f,g),h notin (i),j,!k,l>3`; empty selects all. Throws ApiError BAD_REQUEST. */
export function parseLabelSelector(text: string | undefined): LabelSelector {
  if (text === undefined || text.trim() === '') return () => true;
  const requirements = splitOutsideParentheses(text).map(parseRequirement);
  return (labels) => requirements.every((requirement) => matches(requirement, labels ?? {}));
}

function splitOutsideParentheses(text: string): string[] {
  const parts = [''];
  let depth = 0;
  for (const char of text) {
    if (char === '(') depth++;
    if (char === ')') depth--;
    if (depth < 0 || depth > 1) throw unparsable(text, 'parentheses do not match');
    if (char === ',' && depth === 0) parts.push('');
    else parts[parts.length - 1] += char;
  }
  if (depth !== 0) throw unparsable(text, 'parentheses do not match');
  return parts.map((part) => part.trim());
}

function parseRequirement(text: string): Requirement {
  const set = /^(\S+)\s+(in|notin)\s*\(([^()]*)\)$/.exec(text);
  if (set) {
    const [, key = '', operator, list = ''] = set;
    const values = list.split(',').map((value) => checkedValue(value.trim(), text));
    return { kind: operator === 'in' ? 'in' : 'not-in', key: checkedKey(key, text), values: new Set(values) };
  }
  const compare = /^([^\s=!<>]+)\s*(==|=|!=|>|<)\s*(\S*)$/.exec(text);
  if (compare) {
    const [, key = '', operator, value = ''] = compare;
    if (operator === '>' || operator === '<') return order(checkedKey(key, text), operator, value, text);
    const values = new Set([checkedValue(value, text)]);
    return { kind: operator === '!=' ? 'not-in' : 'in', key: checkedKey(key, text), values };
  }
  if (text.startsWith('!')) return { kind: 'missing', key: checkedKey(text.slice(1).trim(), text) };
  return { kind: 'exists', key: checkedKey(text, text) };
}

function order(key: string, operator: '>' | '<', value: string, text: string): Requirement {
  if (!/^-?\d+$/.test(value)) throw unparsable(text, `"${operator}" needs an integer`);
  return { kind: operator === '>' ? 'greater' : 'less', key, than: Number(value) };
}

function checkedKey(key: string, text: string): string {
  if (!isLabelKey(key)) throw unparsable(text, `"${key}" is no label key`);
  return key;
}

function checkedValue(value: string, text: string): string {
  if (!isLabelValue(value)) throw unparsable(text, `"${value}" is no label value`);
  return value;
}

function unparsable(text: string, why: string) {
  return badRequest(`unable to parse label selector "${text}": ${why}`);
}

/** As in Kubernetes: `!=` and `notin` also select objects without the label. */
function matches(requirement: Requirement, labels: Labels): boolean {
  const value = Object.hasOwn(labels, requirement.key) ? labels[requirement.key] : undefined;
  switch (requirement.kind) {
    case 'in':
      return value !== undefined && requirement.values.has(value);
    case 'not-in':
      return value === undefined || !requirement.values.has(value);
    case 'exists':
      return value !== undefined;
    case 'missing':
      return value === undefined;
    case 'greater':
      return value !== undefined && /^-?\d+$/.test(value) && Number(value) > requirement.than;
    case 'less':
      return value !== undefined && /^-?\d+$/.test(value) && Number(value) < requirement.than;
  }
}
