import type { VirtualMachine } from '../../api/index.ts';
import { fieldsOf, listOfFields, textOf } from './json-fields.ts';

export interface Clone {
  readonly vm: VirtualMachine;
  /** What is not as one may think, in words. */
  readonly remarks: readonly string[];
}

type Values = Record<string, unknown>;

/** Annotations of what somebody did with the original. */
const ofOriginal = /^(?:kubectl\.kubernetes\.io\/|kubevirt\.io\/|virt-handler\.io\/)/;

/** Another VM like this one, which does not run yet: without what belongs to one machine alone. */
export function cloneOf(original: VirtualMachine, name: string): Clone {
  const { metadata, spec } = structuredClone(original);
  const { labels, annotations = {} } = metadata;
  const kept = Object.entries(annotations).filter(([key]) => !ofOriginal.test(key));
  const vm: VirtualMachine = {
    apiVersion: original.apiVersion ?? 'kubevirt.io/v1',
    kind: 'VirtualMachine',
    metadata: {
      name,
      namespace: metadata.namespace ?? 'default',
      ...(labels && { labels }),
      ...(kept.length > 0 && { annotations: Object.fromEntries(kept) }),
    },
    spec,
  };
  delete spec.running;
  spec.runStrategy = 'Halted';
  for (const matcher of [spec.instancetype, spec.preference]) dropFrom(matcher, 'revisionName');
  const old = metadata.name;
  relabel(spec.template.metadata?.labels, old, name);
  const template = spec.template.spec as unknown as Values;
  if (template.hostname === old) delete template.hostname;
  dropIdentity(fieldsOf(template.domain));
  const renamed = renameDataVolumes(spec as unknown as Values, old, name);
  return { vm, remarks: remarksOf(template, renamed) };
}

/** Addresses and serial numbers, of which each has one. */
function dropIdentity(domain: Readonly<Values>): void {
  dropFrom(domain.firmware, 'uuid');
  dropFrom(domain.firmware, 'serial');
  dropFrom(domain.chassis, 'serial');
  const { interfaces, disks } = fieldsOf(domain.devices);
  for (const link of Array.isArray(interfaces) ? interfaces : []) dropFrom(link, 'macAddress');
  for (const disk of Array.isArray(disks) ? disks : []) dropFrom(disk, 'serial');
}

function dropFrom(holder: unknown, name: string): void {
  if (typeof holder === 'object' && holder !== null) delete (holder as Values)[name];
}

function relabel(labels: Record<string, string> | undefined, old: string, name: string): void {
  for (const [key, value] of Object.entries(labels ?? {})) if (labels && value === old) labels[key] = name;
}

/** New names of those that the VM makes itself. */
function renameDataVolumes(spec: Values, old: string, name: string): readonly string[] {
  const renamed = new Map<string, string>();
  for (const [at, each] of (Array.isArray(spec.dataVolumeTemplates) ? spec.dataVolumeTemplates : []).entries()) {
    const { metadata } = each as { metadata?: Values };
    if (!metadata) continue;
    const before = textOf(metadata.name);
    const after = before.startsWith(old) ? `${name}${before.slice(old.length)}` : `${name}-${at + 1}`;
    renamed.set(before, after);
    metadata.name = after;
  }
  const { volumes } = fieldsOf(fieldsOf(spec.template).spec);
  for (const volume of Array.isArray(volumes) ? volumes : []) {
    for (const [kind, member] of [
      ['dataVolume', 'name'],
      ['persistentVolumeClaim', 'claimName'],
    ] as const) {
      const source = (volume as Values)[kind] as Values | undefined;
      const after = renamed.get(textOf(source?.[member]));
      if (source && after !== undefined) source[member] = after;
    }
  }
  return [...renamed.values()];
}

function remarksOf(template: Values, renamed: readonly string[]): readonly string[] {
  const shared = listOfFields(template.volumes).flatMap((volume) => {
    const claim = textOf(fieldsOf(volume.persistentVolumeClaim).claimName);
    const file = textOf(fieldsOf(volume.hostDisk).path);
    if (claim !== '' && !renamed.includes(claim)) return [`the claim ${claim}`];
    return file === '' ? [] : [`the file ${file}`];
  });
  return [
    'MAC addresses and serial numbers are left out: it gets its own.',
    ...renamed.map(
      (each) => `The DataVolume ${each} is made anew from its source: what was written since is not in it.`,
    ),
    ...shared.map((each) => `It would have ${each} of the original: choose another, or never run both at once.`),
  ];
}
