import { copyJson } from '../../base/index.ts';
import type { ApiType } from '../api-type.ts';
import { type ApiError, badRequest, type FieldError, invalid, invalidField } from '../errors.ts';
import type { ApiObject } from '../object.ts';
import { checkSchema, prune, type SchemaNode } from '../schema/index.ts';

/** What becomes of fields that the server does not keep: `fieldValidation` of a request. */
export interface FieldValidation {
  /** Strict refuses the request, Warn tells the client, Ignore says nothing. */
  readonly directive: 'Strict' | 'Warn' | 'Ignore';
  /** Paths of members that the body has twice. */
  readonly duplicates: readonly string[];
  readonly warn: (text: string) => void;
}

const nobodyAsks: FieldValidation = { directive: 'Ignore', duplicates: [], warn: () => {} };

const nullsOf = (type: ApiType) => ({ nulls: type.custom ? 'of definitions' : 'of Go' }) as const;

/**
 * Takes away what the schema does not know. Changes `object`. Throws ApiError BAD_REQUEST, or INVALID for a patch, under strict
 * validation; what is stored with it from before there were schemas is no fault of the request.
 */
export function dropUnknownFields(
  type: ApiType,
  object: ApiObject,
  schema: SchemaNode | undefined,
  { old, isPatch, validation = nobodyAsks }: DropOptions,
): void {
  const unknown = schema ? prune(object, schema, nullsOf(type)) : [];
  if (validation.directive === 'Ignore') return;
  const known = unknown.length > 0 && schema && old ? new Set(prune(copyJson(old), schema, nullsOf(type))) : new Set();
  const texts = [
    ...validation.duplicates.map((path) => `duplicate field "${path}"`),
    ...unknown.filter((path) => !known.has(path)).map((path) => `unknown field "${path}"`),
  ];
  if (texts.length === 0) return;
  if (validation.directive === 'Warn') {
    for (const text of texts) validation.warn(text);
    return;
  }
  const text = `strict decoding error: ${texts.join(', ')}`;
  if (isPatch) throw invalid({ group: '', resource: '', kind: '' }, '', [invalidField('patch', object, text)]);
  throw cannotBeHandled(type, text);
}

interface DropOptions {
  readonly old: ApiObject | undefined;
  readonly isPatch: boolean;
  readonly validation: FieldValidation | undefined;
}

function cannotBeHandled({ version, kind }: ApiType, why: string): ApiError {
  return badRequest(`${kind} in version "${version}" cannot be handled as a ${kind}: ${why}`);
}

/** Paths of what the schema does not know; nothing is changed. */
export function unknownFields(type: ApiType, object: ApiObject, schema: SchemaNode): readonly string[] {
  return prune(copyJson(object), schema, nullsOf(type));
}

/** Metadata is checked for all types alike. */
const except = ['apiVersion', 'kind', 'metadata'];

/**
 * Throws ApiError INVALID with the fields of a custom resource that its schema refuses, BAD_REQUEST when Kubernetes' Go types could not
 * read an object of theirs. What is wrong in the stored object in the same way is let through: it came before there were schemas.
 */
export function checkFields(
  type: ApiType,
  object: ApiObject,
  old: ApiObject | undefined,
  schema: SchemaNode | undefined,
): void {
  if (!schema) return;
  const options = { formOnly: !type.custom, except };
  const errors = checkSchema(object, schema, options);
  if (errors.length === 0) return;
  const before = old ? checkSchema(old, schema, options) : [];
  const added = newErrors(errors, before);
  const [first] = added;
  if (!first) return;
  if (type.custom) throw invalid(type, object.metadata.name, added);
  throw cannotBeHandled(type, `${first.field}: ${first.message}`);
}

/** Without those that were there before, each once, also when elements of lists have other places now. */
export function newErrors(errors: readonly FieldError[], before: readonly FieldError[]): FieldError[] {
  const exact = ({ field, message }: FieldError) => JSON.stringify([field, message]);
  const anywhere = (error: FieldError) => exact(error).replace(/\[\d+\]/g, '[*]');
  return without(without(errors, before, exact), without(before, errors, exact), anywhere);
}

function without(errors: readonly FieldError[], taken: readonly FieldError[], keyOf: (error: FieldError) => string) {
  const left = new Map<string, number>();
  for (const error of taken) left.set(keyOf(error), (left.get(keyOf(error)) ?? 0) + 1);
  return errors.filter((error) => {
    const count = left.get(keyOf(error)) ?? 0;
    left.set(keyOf(error), count - 1);
    return count <= 0;
  });
}
