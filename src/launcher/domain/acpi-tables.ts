import type { VirtualMachineInstance } from '../../api/index.ts';
import { invalid } from './errors.ts';
import { fileNamePart } from './names.ts';
import type { LauncherPaths } from './paths.ts';
import type { XmlContent } from './xml.ts';

/** A table of the firmware that a secret brings, such as the licence of a Windows that came with its machine. */
export interface AcpiTable {
  readonly type: 'slic' | 'msdm';
  readonly field: string;
  /** Where the secret is mounted in the pod. */
  readonly directory: string;
  /** Its key. */
  readonly key: string;
}

/** Throws `ConvertError` INVALID_FIELD. */
export function acpiTables({ spec }: VirtualMachineInstance, paths: Pick<LauncherPaths, 'privateDir'>): AcpiTable[] {
  const acpi = spec.domain.firmware?.acpi;
  if (!acpi) return [];
  const tables = (['slic', 'msdm'] as const).flatMap((type): AcpiTable[] => {
    const name = acpi[`${type}NameRef`];
    if (!name) return [];
    const field = `spec.domain.firmware.acpi.${type}NameRef`;
    const volume = spec.volumes?.find((each) => each.name === name);
    if (!volume) throw invalid(field, `there is no volume ${JSON.stringify(name)} in spec.volumes: add it`);
    if (!volume.secret) throw invalid(field, `the volume ${name} must be a secret`);
    const directory = `${paths.privateDir}/secret/${fileNamePart(field, name)}`;
    return [{ type, field, directory, key: `${type}.bin` }];
  });
  if (tables.length > 0) return tables;
  throw invalid('spec.domain.firmware.acpi', 'names no table: set slicNameRef or msdmNameRef, or remove it');
}

/** `acpi` of `os`. */
export function acpiElement(tables: readonly AcpiTable[]): XmlContent {
  if (tables.length === 0) return {};
  return {
    acpi: { table: tables.map(({ type, directory, key }) => ({ '@type': type, '#text': `${directory}/${key}` })) },
  };
}
