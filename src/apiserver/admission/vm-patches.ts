import { listOf as elementsOf, isRecord } from '../../base/index.ts';
import { type FieldError, invalidField } from '../errors.ts';

const operations = ['add', 'remove', 'replace', 'move', 'copy', 'test'];
const places = ['/metadata/labels/', '/metadata/annotations/', '/spec/'];

/**
 * JSON patches, one operation each as text, for a VM that is made anew: what they may touch is upstream's (validatePatches in
 * pkg/storage/admitters/vmrestore.go), which reads the text with its commas and colons and turns away values with either.
 */
export function validatePatches(value: unknown, field: string): FieldError[] {
  return elementsOf(value).flatMap((patch, index) => validatePatch(patch, `${field}[${index}]`));
}

function validatePatch(patch: unknown, field: string): FieldError[] {
  const operation = parsed(patch);
  if (!isRecord(operation))
    return [invalidField(field, patch, 'must be one operation of a JSON patch, as text in JSON')];
  const { op, path, from } = operation;
  if (typeof op !== 'string' || !operations.includes(op))
    return [invalidField(field, patch, `op must be one of ${operations.join(', ')}`)];
  const needsFrom = op === 'move' || op === 'copy';
  const isWithin = [path, ...(needsFrom ? [from] : [])].every(
    (each) => typeof each === 'string' && places.some((place) => each.startsWith(place)),
  );
  if (isWithin) return [];
  return [invalidField(field, patch, 'patching is valid only for labels, annotations and elements under /spec/')];
}

function parsed(text: unknown): unknown {
  if (typeof text !== 'string') return undefined;
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
