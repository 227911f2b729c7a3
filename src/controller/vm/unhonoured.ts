import type { VirtualMachine } from '../../api/index.ts';

/** A field that would be lost silently, and what to do. Its row goes with the code that honours it. */
const fields: readonly (readonly [name: string, advice: string])[] = [
  [
    'dataVolumeTemplates',
    'this controller makes no DataVolumes yet: create them, or PersistentVolumeClaims of these names, and remove the templates',
  ],
];

/** Why no VMI is made of this VM, in words for its condition; undefined: all that it says is honoured. */
export function unhonouredField({ spec }: VirtualMachine): string | undefined {
  const found = fields.find(([name]) => isSaid(spec[name]));
  return found && `spec.${found[0]}: ${found[1]}`;
}

const isSaid = (value: unknown) =>
  value !== undefined && value !== null && !(Array.isArray(value) && value.length === 0);
