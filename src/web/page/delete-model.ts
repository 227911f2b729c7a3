import type { VirtualMachine } from '../../api/index.ts';
import type { VmRow } from '../rows.ts';
import { type Fields, fieldsOf, listOfFields, textOf } from './json-fields.ts';
import { isLive } from './row-model.ts';

/** What goes with a VM, and what stays, line by line. `vm` undefined: nobody knows now. */
export function whatGoes(row: VmRow, vm: VirtualMachine | undefined): readonly string[] {
  const lines = isLive(row) ? ['Its guest is asked to shut down, and is ended when it does not.'] : [];
  if (row.runStrategy === undefined) return [...lines, 'It has ended: what is known of it goes, and its logs.'];
  if (!vm) return [...lines, 'Its definition goes, and what it keeps nowhere else.'];
  const { template, dataVolumeTemplates } = fieldsOf(vm.spec);
  const volumes = listOfFields(fieldsOf(fieldsOf(template).spec).volumes);
  const own = new Set(listOfFields(dataVolumeTemplates).map(({ metadata }) => textOf(fieldsOf(metadata).name)));
  const fates = volumes.flatMap((volume) => fateOf(volume, own) ?? []);
  const goes = fates.filter(({ isKept }) => !isKept).map(({ what }) => what);
  const stays = fates.filter(({ isKept }) => isKept).map(({ what }) => what);
  return [
    ...lines,
    `Goes with it: its definition${goes.map((what) => `, ${what}`).join('')}.`,
    ...(stays.length > 0 ? [`Stays: ${stays.join(', ')}.`] : []),
  ];
}

interface Fate {
  readonly what: string;
  readonly isKept: boolean;
}

/** Undefined: nothing of it is kept anywhere. */
function fateOf(volume: Fields, own: ReadonlySet<string>): Fate | undefined {
  const name = textOf(volume.name);
  const claim = textOf(fieldsOf(volume.persistentVolumeClaim).claimName);
  const dataVolume = textOf(fieldsOf(volume.dataVolume).name);
  const file = textOf(fieldsOf(volume.hostDisk).path);
  // The claim of a DataVolume has its name, and goes with it.
  if (claim !== '') return { what: `the claim ${claim}`, isKept: !own.has(claim) };
  if (dataVolume !== '') return { what: `the DataVolume ${dataVolume} with its data`, isKept: !own.has(dataVolume) };
  if (file !== '') return { what: `the file ${file}`, isKept: true };
  if (volume.emptyDisk !== undefined) return { what: `what is on the scratch disk ${name}`, isKept: false };
  if (volume.containerDisk !== undefined) return { what: `what was changed on ${name}`, isKept: false };
  return undefined;
}
