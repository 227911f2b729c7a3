import { type FieldError, invalidField } from '../errors.ts';
import { at, ensureObject, isObject } from '../object.ts';
import type { Admission } from '../types/api-type.ts';

export const namespaceFinalizer = 'kubernetes';

export const namespaceAdmission: Admission = {
  fill(namespace, { old }) {
    if (old) return;
    namespace.metadata.labels = {
      ...namespace.metadata.labels,
      'kubernetes.io/metadata.name': namespace.metadata.name,
    };
    ensureObject(namespace, 'spec').finalizers = [namespaceFinalizer];
    namespace.status = { phase: 'Active' };
  },
};

const base64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/;

export const secretAdmission: Admission = {
  /** `stringData` is for writing only. */
  fill(secret) {
    secret.type ??= 'Opaque';
    if (!isObject(secret.stringData)) return;
    const data = ensureObject(secret, 'data');
    for (const [key, value] of Object.entries(secret.stringData)) {
      data[key] = Buffer.from(String(value), 'utf8').toString('base64');
    }
    delete secret.stringData;
  },
  validate(secret, { old }) {
    const errors: FieldError[] = [];
    const data = isObject(secret.data) ? secret.data : {};
    for (const [key, value] of Object.entries(data)) {
      // The value itself is a secret: it is not repeated.
      if (typeof value === 'string' && base64.test(value)) continue;
      errors.push(invalidField(`data[${key}]`, '<hidden>', 'must be base64 text'));
    }
    if (old && old.type !== secret.type) errors.push(invalidField('type', secret.type, 'field is immutable'));
    return errors;
  },
};

export const serviceAdmission: Admission = {
  fill(service) {
    const spec = ensureObject(service, 'spec');
    spec.type ??= 'ClusterIP';
    spec.sessionAffinity ??= 'None';
  },
  validate(service) {
    const ports = at(service, 'spec', 'ports');
    if (ports === undefined || ports === null || Array.isArray(ports)) return [];
    return [invalidField('spec.ports', ports, 'must be a list')];
  },
};
