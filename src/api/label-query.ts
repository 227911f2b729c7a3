import { CodedError } from '../base/index.ts';
import type { LabelRequirement, LabelSelector } from './label-selector.ts';

/** The text names no label selector; its message says which part of it. */
export class LabelQueryError extends CodedError<'INVALID_LABEL_SELECTOR'> {}

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

/** The query form of a label selector: `a in (b,c),d,!e,f>1`. */
export function labelQuery(...requirements: readonly LabelRequirement[]): string {
  return requirements.map(requirementText).join(',');
}

/** A label selector as Kubernetes writes it into a text: `a=b,c in (d,e)`, by key. */
export function labelSelectorText({ matchLabels = {}, matchExpressions = [] }: LabelSelector): string {
  const exact = Object.entries(matchLabels).map(([key, value]) => ({ key, text: `${key}=${value}` }));
  const sorted = matchExpressions.map((each) => ({ ...each, values: [...(each.values ?? [])].sort() }));
  const all = [...exact, ...sorted.map((each) => ({ key: each.key, text: requirementText(each) }))];
  return all
    .sort((one, other) => (one.key < other.key ? -1 : Number(one.key > other.key)))
    .map(({ text }) => text)
    .join(',');
}

function requirementText({ key, operator, values = [] }: LabelRequirement): string {
  switch (operator) {
    case 'In':
      return `${key} in (${values.join(',')})`;
    case 'NotIn':
      return `${key} notin (${values.join(',')})`;
    case 'Exists':
      return key;
    case 'DoesNotExist':
      return `!${key}`;
    case 'Gt':
      return `${key}>${values[0] ?? ''}`;
    case 'Lt':
      return `${key}<${values[0] ?? ''}`;
    default:
      return operator satisfies never;
  }
}

/** Reads `a=b,c!=d,e in (f,g),h notin (i),j,!k,l>3`; a blank text has no requirements. Throws LabelQueryError. */
export function parseLabelQuery(text: string): LabelRequirement[] {
  return text.trim() === '' ? [] : splitOutsideParentheses(text).map(parseRequirement);
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

function parseRequirement(text: string): LabelRequirement {
  const set = /^(\S+)\s+(in|notin)\s*\(([^()]*)\)$/.exec(text);
  if (set) {
    const [, key = '', operator, list = ''] = set;
    const values = list.split(',').map((value) => checkedValue(value.trim(), text));
    return { key: checkedKey(key, text), operator: operator === 'in' ? 'In' : 'NotIn', values };
  }
  const compare = /^([^\s=!<>]+)\s*(==|=|!=|>|<)\s*(\S*)$/.exec(text);
  if (compare) {
    const [, key = '', operator, value = ''] = compare;
    if (operator === '>' || operator === '<') return order(checkedKey(key, text), operator, value, text);
    const values = [checkedValue(value, text)];
    return { key: checkedKey(key, text), operator: operator === '!=' ? 'NotIn' : 'In', values };
  }
  if (text.startsWith('!')) return { key: checkedKey(text.slice(1).trim(), text), operator: 'DoesNotExist' };
  return { key: checkedKey(text, text), operator: 'Exists' };
}

function order(key: string, operator: '>' | '<', value: string, text: string): LabelRequirement {
  if (!/^-?\d+$/.test(value)) throw unparsable(text, `"${operator}" needs an integer`);
  return { key, operator: operator === '>' ? 'Gt' : 'Lt', values: [value] };
}

function checkedKey(key: string, text: string): string {
  if (!isLabelKey(key)) throw unparsable(text, `"${key}" is no label key`);
  return key;
}

function checkedValue(value: string, text: string): string {
  if (!isLabelValue(value)) throw unparsable(text, `"${value}" is no label value`);
  return value;
}

function unparsable(text: string, why: string): LabelQueryError {
  return new LabelQueryError('INVALID_LABEL_SELECTOR', `unable to parse label selector "${text}": ${why}`);
}
