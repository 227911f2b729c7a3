import { isLabelKey, isLabelValue } from '../../api/index.ts';
import { isRecord } from '../../base/index.ts';
import type { ApiType } from '../api-type.ts';
import { type FieldError, invalidField, requiredField } from '../errors.ts';
import type { ApiObject } from '../object.ts';

const label = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/;
const subdomain = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/;

const maxAnnotationBytes = 256 * 1024;

/** What is wrong with a name, or undefined. */
export function nameProblem(name: string, rule: ApiType['nameRule']): string | undefined {
  if (rule === 'path')
    return /^[^/%]+$/.test(name) && name !== '.' && name !== '..' ? undefined : 'must be a path segment';
  if (rule === 'label') {
    if (name.length > 63) return 'must be no more than 63 characters';
    return label.test(name) ? undefined : 'a lowercase RFC 1123 label: letters a-z, digits and "-", no "-" at the ends';
  }
  if (name.length > 253) return 'must be no more than 253 characters';
  if (subdomain.test(name)) return undefined;
  return 'a lowercase RFC 1123 subdomain: letters a-z, digits, "-" and ".", a letter or digit at the ends of each part';
}

export function validateMetadata(object: ApiObject, type: ApiType): FieldError[] {
  const { name, labels, annotations, finalizers, ownerReferences } = object.metadata;
  const problem = nameProblem(name, type.nameRule);
  return [
    ...(problem === undefined ? [] : [invalidField('metadata.name', name, problem)]),
    ...validateLabels(labels),
    ...validateAnnotations(annotations),
    ...validateFinalizers(finalizers),
    ...validateOwners(ownerReferences),
  ];
}

export function validateLabels(labels: unknown, field = 'metadata.labels'): FieldError[] {
  if (labels === undefined || labels === null) return [];
  if (!isRecord(labels)) return [invalidField(field, labels, 'must be an object')];
  return Object.entries(labels).flatMap(([key, value]) => {
    if (!isLabelKey(key)) return [invalidField(field, key, 'is no label key')];
    if (typeof value === 'string' && isLabelValue(value)) return [];
    return [invalidField(field, value, `the value of "${key}" must be a label value of at most 63 characters`)];
  });
}

function validateAnnotations(annotations: unknown): FieldError[] {
  const field = 'metadata.annotations';
  if (annotations === undefined || annotations === null) return [];
  if (!isRecord(annotations)) return [invalidField(field, annotations, 'must be an object')];
  let bytes = 0;
  const errors = Object.entries(annotations).flatMap(([key, value]) => {
    if (!isLabelKey(key.toLowerCase())) return [invalidField(field, key, 'is no annotation key')];
    if (typeof value !== 'string') return [invalidField(field, value, `the value of "${key}" must be a string`)];
    bytes += key.length + value.length;
    return [];
  });
  if (bytes <= maxAnnotationBytes) return errors;
  return [...errors, invalidField(field, bytes, `must have at most ${maxAnnotationBytes} bytes`)];
}

function validateFinalizers(finalizers: unknown): FieldError[] {
  const field = 'metadata.finalizers';
  if (finalizers === undefined || finalizers === null) return [];
  if (!Array.isArray(finalizers)) return [invalidField(field, finalizers, 'must be a list')];
  return finalizers
    .filter((item) => typeof item !== 'string' || !isLabelKey(item))
    .map((item) => invalidField(field, item, 'must be a qualified name like "example.com/cleanup"'));
}

function validateOwners(owners: unknown): FieldError[] {
  const field = 'metadata.ownerReferences';
  if (owners === undefined || owners === null) return [];
  if (!Array.isArray(owners)) return [invalidField(field, owners, 'must be a list')];
  const errors = owners.flatMap((owner, index) => {
    if (!isRecord(owner)) return [invalidField(`${field}[${index}]`, owner, 'must be an object')];
    return ['apiVersion', 'kind', 'name', 'uid']
      .filter((name) => typeof owner[name] !== 'string' || owner[name] === '')
      .map((name) => requiredField(`${field}[${index}].${name}`));
  });
  const controllers = owners.filter((owner) => isRecord(owner) && owner.controller === true);
  if (controllers.length < 2) return errors;
  return [...errors, invalidField(field, controllers.length, 'only one reference can have controller set to true')];
}
