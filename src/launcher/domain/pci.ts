import { invalid } from './errors.ts';
import type { XmlContent } from './xml.ts';

const pattern = /^([0-9a-f]{4}):([0-9a-f]{2}):([01][0-9a-f])\.([0-7])$/i;

export function isPciAddress(text: string): boolean {
  return pattern.test(text);
}

/** `dddd:bb:ss.f` as the place of a device in the guest. */
export function pciAddress(field: string, text: string): XmlContent {
  return { '@type': 'pci', ...addressParts(field, text) };
}

/** A PCI device of the host. Not `managed`: the node's administrator has bound it to vfio-pci, and a container may not. */
export function passedThrough(field: string, address: string): XmlContent {
  return { '@type': 'pci', '@managed': 'no', source: { address: addressParts(field, address) } };
}

function addressParts(field: string, text: string): XmlContent {
  const match = pattern.exec(text);
  if (!match) throw invalid(field, `${JSON.stringify(text)} is no PCI address such as "0000:02:01.0"`);
  const [, domain, bus, slot, fn] = match;
  return { '@domain': `0x${domain}`, '@bus': `0x${bus}`, '@slot': `0x${slot}`, '@function': `0x${fn}` };
}
