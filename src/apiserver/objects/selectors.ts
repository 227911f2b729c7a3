import { LabelQueryError, labelMatcher, parseLabelQuery } from '../../api/index.ts';
import { badRequest } from '../errors.ts';
import { type ApiObject, at } from '../object.ts';

/** Whether an object with these labels is meant; no selector means all. Throws ApiError BAD_REQUEST. */
export function parseLabelSelector(text: string | undefined) {
  try {
    return labelMatcher(parseLabelQuery(text ?? ''));
  } catch (error) {
    throw error instanceof LabelQueryError ? badRequest(error.message, error) : error;
  }
}

export type FieldSelector = (object: ApiObject) => boolean;

interface Requirement {
  readonly field: string;
  readonly equal: boolean;
  readonly value: string;
}

/**
 * Parses `metadata.name=a,status.phase!=Running`; empty selects all. `fields` are the ones of the resource besides
 * metadata.name and metadata.namespace. Throws ApiError BAD_REQUEST, also for other fields.
 */
export function parseFieldSelector(text: string | undefined, fields: readonly string[]): FieldSelector {
  if (text === undefined || text.trim() === '') return () => true;
  const requirements = split(text).map((term) => parseTerm(term, fields));
  return (object) => requirements.every(({ field, equal, value }) => (fieldText(object, field) === value) === equal);
}

/** The single name that a selector asks for, if it does. */
export function selectedName(text: string | undefined): string | undefined {
  return text === undefined ? undefined : /(?:^|,)metadata\.name==?([^,]+)(?:,|$)/.exec(text)?.[1];
}

/** Splits at commas; `\,` `\=` `\\` are the escaped characters themselves. */
function split(text: string): string[] {
  return text
    .split(/(?<!\\),/)
    .map((term) => term.trim())
    .filter((term) => term !== '');
}

function parseTerm(term: string, fields: readonly string[]): Requirement {
  const match = /^([^=!]+?)(!=|==|=)(.*)$/s.exec(term);
  if (!match) throw badRequest(`invalid field selector "${term}": it needs =, == or !=`);
  const [, field = '', operator, raw = ''] = match;
  if (field !== 'metadata.name' && field !== 'metadata.namespace' && !fields.includes(field)) {
    const known = ['metadata.name', 'metadata.namespace', ...fields].join(', ');
    throw badRequest(`field label not supported: ${field} (this resource can be selected by ${known})`);
  }
  return { field, equal: operator !== '!=', value: raw.replace(/\\([\\,=])/g, '$1') };
}

/** What is absent compares as the empty text; `source` of an event is its component. */
function fieldText(object: ApiObject, field: string): string {
  const path = field === 'source' ? ['source', 'component'] : field.split('.');
  const value = at(object, ...path);
  if (value === undefined || value === null) return emptyText(field);
  return typeof value === 'string' ? value : JSON.stringify(value);
}

function emptyText(field: string): string {
  return field === 'spec.unschedulable' || field === 'spec.hostNetwork' ? 'false' : '';
}
