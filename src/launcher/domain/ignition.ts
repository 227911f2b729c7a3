import type { VirtualMachineInstance } from '../../api/index.ts';
import { isRecord } from '../../base/index.ts';
import { invalid } from './errors.ts';
import { fileNamePart } from './names.ts';
import type { LauncherPaths } from './paths.ts';
import type { XmlContent } from './xml.ts';

const annotation = 'kubevirt.io/ignitiondata';

/** What a guest such as Fedora CoreOS reads at its first boot, and its file in the pod (upstream: pkg/ignition). */
export interface Ignition {
  readonly file: string;
  readonly data: string;
}

/** Undefined: the VMI has none. Throws `ConvertError` INVALID_FIELD. */
export function ignitionOf(
  { metadata }: VirtualMachineInstance,
  paths: Pick<LauncherPaths, 'ephemeralDir'>,
): Ignition | undefined {
  const data = metadata.annotations?.[annotation];
  if (!data) return undefined;
  if (!isRecord(parsed(data)?.ignition)) {
    throw invalid(`annotation ${annotation}`, 'is no Ignition configuration: a JSON object with a member "ignition"');
  }
  const namespace = fileNamePart('metadata.namespace', metadata.namespace);
  const name = fileNamePart('metadata.name', metadata.name);
  return { file: `${paths.ephemeralDir}/ignition-data/${namespace}/${name}/data.ign`, data };
}

function parsed(text: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return isRecord(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

/** For the root of the domain: arguments of QEMU have a namespace of their own. */
export function ignitionElements({ file }: Ignition): XmlContent {
  // In QEMU's lists a comma is written twice.
  const value = `name=opt/com.coreos/config,file=${file.replaceAll(',', ',,')}`;
  return {
    '@xmlns:qemu': 'http://libvirt.org/schemas/domain/qemu/1.0',
    'qemu:commandline': { 'qemu:arg': [{ '@value': '-fw_cfg' }, { '@value': value }] },
  };
}
