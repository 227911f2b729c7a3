import { gunzipSync } from 'node:zlib';
import { apiVersionOf, type KubeObject, type ResourceType, type VirtualMachine } from '../api/index.ts';
import { isRecord, jsonRecord, memberAt, whyUnsafe } from '../base/index.ts';
import { InstancetypeError } from './errors.ts';
import { isKindOf } from './matchers.ts';
import { readInstancetype, readPreference } from './shapes.ts';
import type { InstancetypeSpec, MatcherField, PreferenceSpec } from './types.ts';

const group = 'instancetype.kubevirt.io';
/** All have the same fields; later ones have more. */
const versions = ['v1alpha1', 'v1alpha2', 'v1beta1'];
const maxDepth = 64;
const maxBytes = 2 ** 21;

const label = (name: string) => `${group}/object-${name}`;

/**
 * What an instance type or preference says, kept for a VM: other VMs get what it says later (upstream: CreateControllerRevision in
 * pkg/instancetype/revision).
 */
export function makeRevision(vm: VirtualMachine, type: ResourceType, object: KubeObject): KubeObject {
  const { name, namespace, uid = '' } = vm.metadata;
  const { labels: _l, annotations: _a, finalizers: _f, ownerReferences: _o, ...metadata } = object.metadata;
  const { generation = 1 } = metadata;
  const plain: Record<string, unknown> = { ...metadata };
  delete plain.managedFields;
  return {
    apiVersion: 'apps/v1',
    kind: 'ControllerRevision',
    metadata: {
      name: `${name}-${metadata.name}-${type.version}-${metadata.uid}-${generation}`,
      ...(namespace && { namespace }),
      labels: {
        [label('generation')]: String(generation),
        [label('kind')]: type.kind,
        [label('name')]: metadata.name,
        [label('uid')]: metadata.uid ?? '',
        [label('version')]: type.version,
      },
      ownerReferences: [
        {
          apiVersion: 'kubevirt.io/v1',
          kind: 'VirtualMachine',
          ...{ name, uid, controller: true, blockOwnerDeletion: true },
        },
      ],
    },
    ...{
      data: { ...object, kind: type.kind, apiVersion: apiVersionOf(type), metadata: plain },
      revision: 0,
    },
  };
}

/** The name of what it was made of; undefined where nothing says so. */
export function revisedName({ metadata }: KubeObject): string | undefined {
  return metadata.labels?.[label('name')];
}

/** Throws InstancetypeError. */
export function readSpec(field: 'instancetype', spec: unknown): InstancetypeSpec;
export function readSpec(field: 'preference', spec: unknown): PreferenceSpec;
export function readSpec(field: MatcherField, spec: unknown): InstancetypeSpec | PreferenceSpec;
export function readSpec(field: MatcherField, spec: unknown): InstancetypeSpec | PreferenceSpec {
  return field === 'instancetype' ? readInstancetype(spec) : readPreference(spec);
}

/**
 * The spec that a ControllerRevision holds, whichever version of KubeVirt has written it. The first ones kept the spec alone,
 * as bytes. Throws InstancetypeError.
 */
export function revisedSpec(revision: KubeObject, field: MatcherField): unknown {
  const data = memberAt(revision, 'data');
  const { apiVersion, kind, spec } = isRecord(data) ? data : {};
  const refused = (why: string) =>
    new InstancetypeError('MALFORMED', `ControllerRevision ${revision.metadata.name} ${why}`);
  const version = versions.find((each) => apiVersion === `${group}/${each}`);
  if (!version) throw refused(`is of ${String(apiVersion)}, which is no version of instance types`);
  if (typeof spec === 'string' && (kind ?? '') === '') {
    const unpacked = unpackedSpec(spec);
    if (unpacked) return unpacked;
    throw refused('holds a spec that is no JSON');
  }
  if (!isKindOf(field, kind)) throw refused(`holds a ${String(kind)}, and is no ${field}`);
  if (!isRecord(spec)) throw refused('holds no spec');
  return spec;
}

function unpackedSpec(base64: string): Record<string, unknown> | undefined {
  const bytes = Buffer.from(base64, 'base64');
  const isPacked = bytes[0] === 0x1f && bytes[1] === 0x8b;
  try {
    const text = isPacked ? gunzipSync(bytes, { maxOutputLength: maxBytes }) : bytes;
    const spec = jsonRecord(text.toString('utf8'));
    return spec && whyUnsafe(spec, maxDepth) === undefined ? spec : undefined;
  } catch {
    return undefined;
  }
}
