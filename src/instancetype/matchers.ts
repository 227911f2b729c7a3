import { type ResourceType, resources, type VirtualMachine } from '../api/index.ts';
import { isRecord } from '../base/index.ts';
import { InstancetypeError } from './errors.ts';
import type { Matcher, MatcherField, StatusRef } from './types.ts';

export const matcherFields: readonly MatcherField[] = ['instancetype', 'preference'];

const types = {
  instancetype: {
    inNamespace: resources.virtualMachineInstancetypes,
    inCluster: resources.virtualMachineClusterInstancetypes,
  },
  preference: {
    inNamespace: resources.virtualMachinePreferences,
    inCluster: resources.virtualMachineClusterPreferences,
  },
} as const;

/** The VM says what it refers to; undefined: it refers to nothing. A bare API server takes anything there. */
export function matcherOf({ spec }: VirtualMachine, field: MatcherField): Matcher | undefined {
  const matcher = spec[field];
  if (!isRecord(matcher)) return undefined;
  const texts = Object.entries(matcher).filter(([, value]) => typeof value === 'string' && value !== '');
  return Object.fromEntries(texts);
}

/** Where the object is that a VM refers to. Throws InstancetypeError. */
export function referredType(field: MatcherField, { kind = '' }: Matcher): ResourceType {
  const asked = kind.toLowerCase();
  const isNamed = (type: ResourceType) => [type.resource, type.kind.toLowerCase()].includes(asked);
  const { inNamespace, inCluster } = types[field];
  if (asked === '' || isNamed(inCluster)) return inCluster;
  if (isNamed(inNamespace)) return inNamespace;
  const text = `spec.${field}.kind: ${kind} is none: use ${inCluster.kind} or ${inNamespace.kind}`;
  throw new InstancetypeError('MALFORMED', text);
}

/** Of what a ControllerRevision holds. */
export function isKindOf(field: MatcherField, kind: unknown): boolean {
  return Object.values(types[field]).some((type) => type.kind === kind);
}

/**
 * What the VM's status shall say of what it refers to (upstream: syncStatusWithMatcher in pkg/instancetype/revision). Without
 * `controllerRevisionRef` no revision has been made of it.
 */
export function followedRef(matcher: Matcher, old: StatusRef = {}): StatusRef {
  const { name, kind, inferFromVolume, inferFromVolumeFailurePolicy, revisionName } = matcher;
  const identity = { ...(name && { name }), ...(kind && { kind }), ...(inferFromVolume && { inferFromVolume }) };
  const isOther = Object.entries(identity).some(([member, value]) => old[member as 'name'] !== value);
  const { controllerRevisionRef, ...said } = old;
  const kept = isOther ? undefined : controllerRevisionRef?.name;
  const revision = revisionName ?? kept;
  return {
    ...said,
    ...identity,
    ...(inferFromVolumeFailurePolicy && { inferFromVolumeFailurePolicy }),
    ...(revision && { controllerRevisionRef: { name: revision } }),
  };
}

/** The annotation of a VMI with the name of what was applied to it. */
export function nameAnnotation(type: ResourceType): string {
  const words = type.kind.slice('VirtualMachine'.length).replace(/^Cluster/, 'cluster-');
  return `kubevirt.io/${words.toLowerCase()}-name`;
}
