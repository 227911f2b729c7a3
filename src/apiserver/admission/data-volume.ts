import { parseQuantity } from '../../api/index.ts';
import { isRecord, sameJson } from '../../base/index.ts';
import type { Admission } from '../api-type.ts';
import { type FieldError, forbiddenField, invalidField, requiredField } from '../errors.ts';
import { at, type JsonObject, stringAt } from '../object.ts';

/** Where data may come from here, and what to do about each other source that CDI has. */
const sources: Readonly<Record<string, string | undefined>> = {
  http: undefined,
  blank: undefined,
  upload: undefined,
  pvc: undefined,
  registry: undefined,
  snapshot: undefined,
  s3: 'this node does not speak S3: give a signed http(s) address of the object as source.http',
  gcs: 'this node does not speak GCS: give a signed http(s) address of the object as source.http',
  imageio: 'this node does not speak to oVirt: export the disk, and upload it (virtctl image-upload)',
  vddk: 'this node does not speak to VMware: export the disk as a VMDK, and upload it (virtctl image-upload)',
};

const checksumPattern = /^(?:md5:[0-9a-f]{32}|sha1:[0-9a-f]{40}|sha256:[0-9a-f]{64}|sha512:[0-9a-f]{128})$/i;

/** What CDI's webhook says of DataVolumes (pkg/apiserver/webhooks/datavolume-validate.go), and what this node cannot do, before anything is made. */
export const dataVolumeAdmission: Admission = {
  validate({ spec }, { old }) {
    if (old)
      return sameJson(spec, old.spec)
        ? []
        : [forbiddenField('spec', 'a DataVolume cannot be changed: make another one')];
    if (!isRecord(spec)) return [requiredField('spec')];
    return [...validateSources(spec), ...validateClaim(spec), ...validateUnsupported(spec)];
  },
};

export const dataSourceAdmission: Admission = {
  validate({ spec }) {
    const given = Object.keys(isRecord(at(spec, 'source')) ? (at(spec, 'source') as JsonObject) : {});
    if (given.length === 1) return [];
    return [invalidField('spec.source', given.join(', '), 'must have exactly one of pvc, snapshot, dataSource')];
  },
};

function validateSources(spec: JsonObject): FieldError[] {
  const { source, sourceRef } = spec;
  if (isRecord(source) && isRecord(sourceRef)) {
    return [forbiddenField('spec.sourceRef', 'a DataVolume has either a source or a sourceRef')];
  }
  if (isRecord(sourceRef)) return validateReference(sourceRef);
  if (!isRecord(source)) return [requiredField('spec.source', `one of ${supported()}`)];
  const given = Object.keys(source).filter((name) => isRecord(source[name]));
  const [only] = given;
  if (only === undefined || given.length > 1) {
    return [invalidField('spec.source', given.join(', '), `must be exactly one of ${supported()}`)];
  }
  const field = `spec.source.${only}`;
  if (!(only in sources)) return [invalidField(field, '', `is no source: one of ${supported()}`)];
  const advice = sources[only];
  if (advice !== undefined) return [forbiddenField(field, advice)];
  return validators[only]?.(source[only] as JsonObject, field) ?? [];
}

const supported = () =>
  Object.keys(sources)
    .filter((name) => sources[name] === undefined)
    .join(', ');

function validateReference(reference: JsonObject): FieldError[] {
  if (reference.kind !== 'DataSource') {
    return [invalidField('spec.sourceRef.kind', reference.kind, 'must be DataSource')];
  }
  return required(reference, 'spec.sourceRef', ['name']);
}

function required(object: JsonObject, field: string, names: readonly string[]): FieldError[] {
  return names.filter((name) => !stringAt(object, name)).map((name) => requiredField(`${field}.${name}`));
}

const validators: Readonly<Record<string, (source: JsonObject, field: string) => FieldError[]>> = {
  pvc: (source, field) => required(source, field, ['namespace', 'name']),
  snapshot: (source, field) => required(source, field, ['namespace', 'name']),
  registry: ({ url, imageStream }, field) => {
    if (imageStream !== undefined) return [forbiddenField(`${field}.imageStream`, 'there are none here: use url')];
    if (typeof url === 'string' && /^docker:\/\/[A-Za-z0-9]/.test(url)) return [];
    const why =
      'must be docker:// and the name of an image that the node has (virt-node image list): there is no registry';
    return [invalidField(`${field}.url`, url, why)];
  },
  http: (source, field) => [
    ...validateUrl(source.url, `${field}.url`),
    ...validateChecksum(source.checksum, `${field}.checksum`),
  ],
};

function validateUrl(url: unknown, field: string): FieldError[] {
  if (url === undefined || url === '') return [requiredField(field)];
  const protocol = typeof url === 'string' && URL.canParse(url) ? new URL(url).protocol : '';
  if (protocol === 'http:' || protocol === 'https:') return [];
  return [invalidField(field, url, 'must be an address that begins with http:// or https://')];
}

function validateChecksum(checksum: unknown, field: string): FieldError[] {
  if (checksum === undefined || (typeof checksum === 'string' && checksumPattern.test(checksum))) return [];
  return [invalidField(field, checksum, 'must be md5:, sha1:, sha256: or sha512: and the digits')];
}

function validateClaim(spec: JsonObject): FieldError[] {
  const { pvc, storage } = spec;
  if (isRecord(pvc) === isRecord(storage)) {
    return [
      isRecord(pvc)
        ? forbiddenField('spec.pvc', 'a DataVolume has either pvc or storage')
        : requiredField('spec.storage'),
    ];
  }
  const name = isRecord(pvc) ? 'pvc' : 'storage';
  const size = at(spec, name, 'resources', 'requests', 'storage');
  // A copy is as large as what it is of.
  const isCopy =
    isRecord(at(spec, 'source', 'pvc')) || isRecord(spec.sourceRef) || isRecord(at(spec, 'source', 'snapshot'));
  if (isCopy && stringAt(spec, name, 'volumeName')) {
    const why = 'a copy gets a volume of its own, and none that exists is overwritten: leave it out';
    return [forbiddenField(`spec.${name}.volumeName`, why)];
  }
  const field = `spec.${name}.resources.requests.storage`;
  if (size === undefined) return isCopy && name === 'storage' ? [] : [requiredField(field)];
  const bytes = typeof size === 'string' || typeof size === 'number' ? parseQuantity(size) : undefined;
  return bytes !== undefined && bytes > 0 ? [] : [invalidField(field, size, 'must be a size such as 10Gi')];
}

function validateUnsupported(spec: JsonObject): FieldError[] {
  const { checkpoints, contentType, preallocation } = spec;
  const problems: FieldError[] = [];
  if (Array.isArray(checkpoints) && checkpoints.length > 0) {
    problems.push(forbiddenField('spec.checkpoints', 'this node imports in one go: leave them out'));
  }
  if (contentType !== undefined && contentType !== '' && contentType !== 'kubevirt') {
    const why = 'this node fills claims with disks (kubevirt), and unpacks no archives: make a disk of the files first';
    problems.push(invalidField('spec.contentType', contentType, why));
  }
  if (preallocation === true) {
    problems.push(
      forbiddenField('spec.preallocation', 'disks of this node take room as they are written: leave it out'),
    );
  }
  return problems;
}
