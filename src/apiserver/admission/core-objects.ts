import { isRecord, sameJson } from '../../base/index.ts';
import type { Admission } from '../api-type.ts';
import { type FieldError, forbiddenField, invalidField } from '../errors.ts';
import { type ApiObject, at, ensureObject, objectsAt } from '../object.ts';
import { validateService } from './service-rules.ts';

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

/** `immutable: true` of config maps and secrets, which cannot be taken back. */
function validateImmutable(object: ApiObject, old: ApiObject | undefined): FieldError[] {
  if (old?.immutable !== true) return [];
  const text = 'field is immutable when `immutable` is set';
  return ['immutable', 'data', 'binaryData']
    .filter((name) => !sameJson(object[name], old[name]))
    .map((name) => forbiddenField(name, text));
}

/** A key becomes the name of a file. */
function validateKeys(object: ApiObject, members: readonly string[]): FieldError[] {
  const seen = new Set<string>();
  return members.flatMap((member) =>
    Object.keys(isRecord(object[member]) ? object[member] : {}).flatMap((key) => {
      const field = `${member}[${key}]`;
      if (!/^[-._a-zA-Z0-9]{1,253}$/.test(key) || key.startsWith('..') || key === '.') {
        return [invalidField(field, key, 'a valid config key has letters, digits, "-", "_" and ".", and is no path')];
      }
      if (seen.has(key)) return [invalidField(field, key, 'duplicate of key present in data')];
      seen.add(key);
      return [];
    }),
  );
}

export const configMapAdmission: Admission = {
  validate: (map, { old }) => [...validateKeys(map, ['data', 'binaryData']), ...validateImmutable(map, old)],
};

const base64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/;

export const secretAdmission: Admission = {
  /** `stringData` is for writing only. */
  fill(secret) {
    secret.type ??= 'Opaque';
    if (!isRecord(secret.stringData)) return;
    const data = ensureObject(secret, 'data');
    for (const [key, value] of Object.entries(secret.stringData)) {
      // What is no text stays for `validate` to refuse: it may have a `toString` of its own.
      data[key] = typeof value === 'string' ? Buffer.from(value, 'utf8').toString('base64') : value;
    }
    delete secret.stringData;
  },
  validate(secret, { old }) {
    const errors = validateKeys(secret, ['data']);
    const data = isRecord(secret.data) ? secret.data : {};
    for (const [key, value] of Object.entries(data)) {
      // The value itself is a secret: it is not repeated.
      if (typeof value === 'string' && base64.test(value)) continue;
      errors.push(invalidField(`data[${key}]`, '<hidden>', 'must be base64 text'));
    }
    if (old && old.type !== secret.type) errors.push(invalidField('type', secret.type, 'field is immutable'));
    return [...errors, ...validateImmutable(secret, old)];
  },
};

/** What a Service was given stays when a write leaves it out, as in Kubernetes. */
function keepAddresses(spec: ApiObject | Record<string, unknown>, old: ApiObject | undefined): void {
  if (!old || at(old, 'spec', 'type') === 'ExternalName' || spec.type === 'ExternalName') return;
  for (const name of ['clusterIP', 'clusterIPs', 'ipFamilies', 'ipFamilyPolicy']) {
    const before = at(old, 'spec', name);
    if (spec[name] === undefined && before !== undefined) spec[name] = before;
  }
  if (spec.type !== undefined && spec.type !== at(old, 'spec', 'type')) return;
  for (const port of objectsAt(spec, 'ports')) {
    const same = objectsAt(old, 'spec', 'ports').find(
      (each) => each.port === port.port && (each.protocol ?? 'TCP') === (port.protocol ?? 'TCP'),
    );
    if (port.nodePort === undefined && same?.nodePort !== undefined) port.nodePort = same.nodePort;
  }
}

export const serviceAdmission: Admission = {
  fill(service, { old }) {
    const spec = ensureObject(service, 'spec');
    keepAddresses(spec, old);
    spec.type ??= 'ClusterIP';
    spec.sessionAffinity ??= 'None';
    for (const port of objectsAt(spec, 'ports')) {
      port.protocol ??= 'TCP';
      port.targetPort ??= port.port;
    }
  },
  validate: validateService,
};
