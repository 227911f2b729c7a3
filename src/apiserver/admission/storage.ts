import { parseQuantity } from '../../api/index.ts';
import { copyJson, isRecord, sameJson } from '../../base/index.ts';
import type { Admission, AdmissionContext, Denial, StoredObjects } from '../api-type.ts';
import { type FieldError, forbiddenField, invalidField, requiredField, unsupportedField } from '../errors.ts';
import { type ApiObject, at, ensureObject, stringAt } from '../object.ts';
import { type FieldShape, flag, listOf, mapOf, objectOf, oneOf, text } from './shape.ts';

const accessModes = ['ReadWriteOnce', 'ReadOnlyMany', 'ReadWriteMany', 'ReadWriteOncePod'];
const volumeModes = ['Block', 'Filesystem'];
const reclaimPolicies = ['Delete', 'Retain'];

const positiveQuantity: FieldShape = (value, field) => {
  const number = typeof value === 'string' || typeof value === 'number' ? parseQuantity(value) : undefined;
  return number !== undefined && number > 0 ? [] : [invalidField(field, value, 'must be greater than zero')];
};

const dataSource = objectOf({ apiGroup: text, kind: text, name: text, namespace: text }, ['kind', 'name']);
const amounts = objectOf({ storage: positiveQuantity }, ['storage']);
const modes = listOf(oneOf(...accessModes), 4);

const claimShape = objectOf(
  {
    accessModes: modes,
    volumeMode: oneOf(...volumeModes),
    resources: objectOf({ requests: amounts }, ['requests']),
    storageClassName: text,
    volumeName: text,
    dataSource,
    dataSourceRef: dataSource,
  },
  ['resources'],
);

/** What of a claim's spec may be set once, and by whom: the class that is the default one, the volume that it is bound to. */
const setOnce = ['storageClassName', 'volumeName'];

export const claimAdmission: Admission = {
  fill(claim, { old }) {
    fillClaim(claim);
    if (!old) claim.status = { phase: 'Pending' };
  },
  validate(claim, { old }) {
    const problems = claimProblems(claim);
    if (!old) return problems;
    // Of a version that did not look at claims.
    const before = copyJson(old);
    fillClaim(before);
    const known = claimProblems(before).map(({ field, message }) => `${field} ${message}`);
    const news = problems.filter(({ field, message }) => !known.includes(`${field} ${message}`));
    return [...news, ...validateClaimChange(claim, before)];
  },
  deny: denyResize,
};

function fillClaim(claim: ApiObject): void {
  const spec = ensureObject(claim, 'spec');
  spec.volumeMode ??= 'Filesystem';
  if (spec.dataSourceRef === undefined && spec.dataSource !== undefined) spec.dataSourceRef = copyJson(spec.dataSource);
  const ref = spec.dataSourceRef;
  if (spec.dataSource === undefined && isRecord(ref) && ref.namespace === undefined) spec.dataSource = copyJson(ref);
}

function claimProblems(claim: ApiObject): FieldError[] {
  return [...claimShape(claim.spec, 'spec'), ...validateModes(at(claim, 'spec', 'accessModes'), 'spec.accessModes')];
}

function validateModes(value: unknown, field: string): FieldError[] {
  if (value === undefined || value === null || (Array.isArray(value) && value.length === 0)) {
    return [requiredField(field, 'at least 1 access mode is required')];
  }
  if (!Array.isArray(value) || value.length < 2 || !value.includes('ReadWriteOncePod')) return [];
  return [forbiddenField(field, 'may not use ReadWriteOncePod with other access modes')];
}

function validateClaimChange(claim: ApiObject, old: ApiObject): FieldError[] {
  const isBound = stringAt(old, 'status', 'phase') === 'Bound';
  if (!sameJson(lasting(claim, old, isBound), lasting(old, old, isBound))) {
    const why =
      'spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims';
    return [forbiddenField('spec', why)];
  }
  const [now, before, has] = [requestOf(claim), requestOf(old), capacityOf(old)];
  if (now < before && now < has) {
    return [forbiddenField('spec.resources.requests.storage', 'field can not be less than status.capacity')];
  }
  return [];
}

/** Of a claim's spec, what may not change any more. */
function lasting(claim: ApiObject, old: ApiObject, isBound: boolean): unknown {
  const spec = copyJson(at(claim, 'spec'));
  if (!isRecord(spec)) return spec;
  for (const name of setOnce) if (!stringAt(old, 'spec', name)) delete spec[name];
  if (stringAt(old, 'spec', 'storageClassName') === '') spec.storageClassName = at(claim, 'spec', 'storageClassName');
  if (isBound) delete spec.resources;
  return spec;
}

const requestOf = (claim: ApiObject) => sizeAt(claim, 'spec', 'resources', 'requests', 'storage');
const capacityOf = (claim: ApiObject) => sizeAt(claim, 'status', 'capacity', 'storage');

function sizeAt(object: ApiObject, ...path: string[]): number {
  const found = at(object, ...path);
  return typeof found === 'string' || typeof found === 'number' ? (parseQuantity(found) ?? 0) : 0;
}

/** As the API server's plug-in PersistentVolumeClaimResize. */
function denyResize(claim: ApiObject, { old }: AdmissionContext, stored: StoredObjects): Denial | undefined {
  if (!old || requestOf(claim) <= requestOf(old)) return undefined;
  const name = stringAt(claim, 'spec', 'storageClassName');
  if (name && at(stored.storageClass(name), 'allowVolumeExpansion') === true) return undefined;
  const message =
    'only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize';
  return { message };
}

const volumeShape = objectOf(
  {
    capacity: amounts,
    accessModes: modes,
    volumeMode: oneOf(...volumeModes),
    storageClassName: text,
    persistentVolumeReclaimPolicy: oneOf(...reclaimPolicies),
    claimRef: objectOf({ name: text, namespace: text, uid: text }, ['name', 'namespace']),
    csi: objectOf({ driver: text, volumeHandle: text }, ['driver', 'volumeHandle']),
  },
  ['capacity'],
);

/** What is no place of data in a volume's spec. */
const plainVolumeFields = [
  ...['capacity', 'accessModes', 'volumeMode', 'storageClassName', 'persistentVolumeReclaimPolicy', 'claimRef'],
  ...['mountOptions', 'nodeAffinity', 'volumeAttributesClassName'],
];

function sourcesOf(volume: ApiObject): [string, unknown][] {
  const spec = at(volume, 'spec');
  if (!isRecord(spec)) return [];
  return Object.entries(spec).filter(([name, value]) => !plainVolumeFields.includes(name) && value !== undefined);
}

export const volumeAdmission: Admission = {
  fill(volume, { old }) {
    const spec = ensureObject(volume, 'spec');
    spec.volumeMode ??= 'Filesystem';
    spec.persistentVolumeReclaimPolicy ??= 'Retain';
    if (!old) volume.status = { phase: 'Pending' };
  },
  validate(volume, { old }) {
    const sources = sourcesOf(volume);
    const count = sources.length === 1 ? [] : [sourceCount(sources.map(([name]) => name))];
    const isOther = old !== undefined && !sameJson(sources, sourcesOf(old));
    const why = 'spec.persistentvolumesource is immutable after creation';
    return [
      ...volumeShape(volume.spec, 'spec'),
      ...validateModes(at(volume, 'spec', 'accessModes'), 'spec.accessModes'),
      ...count,
      ...(isOther ? [forbiddenField('spec.persistentvolumesource', why)] : []),
    ];
  },
};

function sourceCount(names: readonly string[]): FieldError {
  if (names.length === 0) return requiredField('spec', 'must specify a volume type');
  return forbiddenField(`spec.${names[1]}`, 'may not specify more than 1 volume type');
}

const classShape = objectOf(
  {
    provisioner: text,
    parameters: mapOf(text),
    mountOptions: listOf(text),
    reclaimPolicy: oneOf(...reclaimPolicies),
    volumeBindingMode: oneOf('Immediate', 'WaitForFirstConsumer'),
    allowVolumeExpansion: flag,
  },
  ['provisioner'],
);

export const storageClassAdmission: Admission = {
  fill(object) {
    object.reclaimPolicy ??= 'Delete';
    object.volumeBindingMode ??= 'Immediate';
  },
  validate(object, { old }) {
    return [
      ...classShape(object, '').map(withoutDot),
      ...unchanged(object, old, ['provisioner', 'parameters', 'reclaimPolicy', 'volumeBindingMode']),
    ];
  },
};

const withoutDot = (error: FieldError): FieldError => ({ ...error, field: error.field.replace(/^\./, '') });

function unchanged(object: ApiObject, old: ApiObject | undefined, fields: readonly string[]): FieldError[] {
  if (!old) return [];
  return fields
    .filter((field) => !sameJson(object[field], old[field]))
    .map((field) => invalidField(field, object[field], 'field is immutable'));
}

function oneSource(object: ApiObject, names: readonly [string, string]): FieldError[] {
  const given = names.filter((name) => stringAt(object, 'spec', 'source', name));
  if (given.length === 1) return [];
  return [requiredField('spec.source', `exactly one of ${names.join(', ')} must be set`)];
}

function sameSource(object: ApiObject, old: ApiObject | undefined): FieldError[] {
  const isSame = !old || sameJson(at(object, 'spec', 'source'), at(old, 'spec', 'source'));
  return isSame ? [] : [invalidField('spec.source', at(object, 'spec', 'source'), 'is immutable')];
}

export const snapshotAdmission: Admission = {
  validate: (snapshot, { old }) => [
    ...oneSource(snapshot, ['persistentVolumeClaimName', 'volumeSnapshotContentName']),
    ...sameSource(snapshot, old),
  ],
};

export const snapshotContentAdmission: Admission = {
  validate: (content, { old }) => [
    ...objectOf(
      {
        driver: text,
        deletionPolicy: oneOf(...reclaimPolicies),
        volumeSnapshotRef: objectOf({ name: text, namespace: text }, ['name', 'namespace']),
      },
      ['driver', 'deletionPolicy', 'volumeSnapshotRef'],
    )(content.spec, 'spec'),
    ...oneSource(content, ['volumeHandle', 'snapshotHandle']),
    ...sameSource(content, old),
  ],
};

export const snapshotClassAdmission: Admission = {
  validate(object, { old }) {
    const { deletionPolicy, driver } = object;
    const policy = reclaimPolicies.includes(String(deletionPolicy))
      ? []
      : [unsupportedField('deletionPolicy', deletionPolicy, reclaimPolicies)];
    return [
      ...(driver ? [] : [requiredField('driver')]),
      ...policy,
      ...unchanged(object, old, ['driver', 'parameters']),
    ];
  },
};
