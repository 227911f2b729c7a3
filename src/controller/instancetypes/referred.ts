import type { KubeObject, ResourceType, VirtualMachine } from '../../api/index.ts';
import {
  appliedDataVolumes,
  appliedTemplate,
  InstancetypeError,
  type MachineDefaults,
  type MatcherField,
  matcherFields,
  matcherOf,
  nameAnnotation,
  type StatusRef,
} from '../../instancetype/index.ts';
import type { Found, Lookup } from './lookup.ts';

/** What is not yet as the VM's status shall have it. */
export interface UnkeptReference {
  readonly field: MatcherField;
  readonly ref: StatusRef;
  /** A revision is to be made of it. */
  readonly made?: { readonly type: ResourceType; readonly object: KubeObject };
}

export interface Refusal {
  readonly code: 'CREATE_FAILED' | 'INSTANCETYPE_MISSING' | 'PREFERENCE_MISSING';
  readonly message: string;
}

/** What follows from the instance type and the preference that a VM refers to; plain data. */
export type Referred =
  /** It refers to none. */
  | { readonly kind: 'none' }
  /** A volume of it says which. */
  | { readonly kind: 'inferred' }
  /** No machine can be made of it now. */
  | { readonly kind: 'refused'; readonly refusal: Refusal }
  | {
      readonly kind: 'found';
      /** With templates that say all themselves. */
      readonly whole: VirtualMachine;
      /** What its VMI says of where that is from. */
      readonly names: Readonly<Record<string, string>>;
      readonly unkept: readonly UnkeptReference[];
    };

/** Asks the API for what it refers to, unless a revision of it is known. Rejects with KubeError where the API does not answer. */
export async function referredBy(
  vm: VirtualMachine,
  lookup: Pick<Lookup, 'find'>,
  defaults: MachineDefaults,
  signal: AbortSignal,
): Promise<Referred> {
  const fields = matcherFields.filter((field) => matcherOf(vm, field));
  if (fields.length === 0) return { kind: 'none' };
  if (fields.some((field) => matcherOf(vm, field)?.inferFromVolume)) return { kind: 'inferred' };
  try {
    const found: Partial<Record<MatcherField, Found>> = {};
    for (const field of fields) {
      const answer = await lookup.find(vm, field, signal);
      if (answer.kind === 'missing') return { kind: 'refused', refusal: missing(field, answer.message) };
      found[field] = answer;
    }
    const all = Object.values(found);
    const specs = Object.fromEntries(all.map(({ field, spec }) => [field, spec] as const));
    const template = appliedTemplate(vm, specs, defaults);
    const { dataVolumeTemplates: given } = vm.spec;
    const preference = found.preference?.spec;
    const disks = given ? { dataVolumeTemplates: appliedDataVolumes(given, preference) } : {};
    return {
      kind: 'found',
      whole: { ...vm, spec: { ...vm.spec, template, ...disks } },
      names: Object.fromEntries(all.map(({ type, name }) => [nameAnnotation(type), name] as const)),
      unkept: all.flatMap(unkeptOf),
    };
  } catch (error) {
    if (!(error instanceof InstancetypeError)) throw error;
    return { kind: 'refused', refusal: { code: 'CREATE_FAILED', message: error.message } };
  }
}

/** What a VM was started from, with all that it referred to then; undefined: that cannot be known any more. */
export async function startedFrom(
  vm: VirtualMachine,
  startSpec: VirtualMachine['spec'],
  lookup: Pick<Lookup, 'find'>,
  defaults: MachineDefaults,
  signal: AbortSignal,
): Promise<VirtualMachine['spec'] | undefined> {
  const referred = await referredBy({ ...vm, spec: startSpec }, lookup, defaults, signal);
  if (referred.kind === 'none') return startSpec;
  return referred.kind === 'found' ? referred.whole.spec : undefined;
}

function missing(field: MatcherField, message: string): Refusal {
  return { code: field === 'instancetype' ? 'INSTANCETYPE_MISSING' : 'PREFERENCE_MISSING', message };
}

function unkeptOf({ field, ref, isKept, type, object }: Found): UnkeptReference[] {
  if (isKept) return [];
  return [{ field, ref, ...(object && { made: { type, object } }) }];
}
