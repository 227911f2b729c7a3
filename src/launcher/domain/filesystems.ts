import path from 'node:path';
import { type VirtualMachineInstance, virtiofsNames, virtiofsSocket } from '../../api/index.ts';
import type { ConverterContext } from './context.ts';
import { invalid, unsupported } from './errors.ts';
import { fileNamePart } from './names.ts';
import { socketPath } from './paths.ts';
import type { XmlContent } from './xml.ts';

/** Of requests that the guest may have under way. */
const queueSize = 1024;

/** File systems that side containers of the pod serve; libvirt starts none itself where it is given a socket. */
export function filesystemElements(vmi: VirtualMachineInstance, { paths }: ConverterContext): XmlContent[] {
  for (const { name, virtiofs } of vmi.spec.domain.devices?.filesystems ?? []) {
    const field = `spec.domain.devices.filesystems[${name}]`;
    if (!virtiofs) throw unsupported(field, 'only virtiofs is known; set it');
    if (!vmi.spec.volumes?.some((volume) => volume.name === name)) {
      throw invalid(field, 'there is no volume of this name in spec.volumes');
    }
  }
  return virtiofsNames(vmi).map((name) => ({
    '@type': 'mount',
    '@accessmode': 'passthrough',
    driver: { '@type': 'virtiofs', '@queue': queueSize },
    source: { '@socket': socketPath(path.join(paths.virtiofsDir, virtiofsSocket(fileNamePart('name', name)))) },
    target: { '@dir': name },
  }));
}
