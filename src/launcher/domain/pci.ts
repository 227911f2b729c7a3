import { invalid } from './errors.ts';
import type { XmlContent } from './xml.ts';

const pattern = /^([0-9a-f]{4}):([0-9a-f]{2}):([01][0-9a-f])\.([0-7])$/i;

/** `dddd:bb:ss.f` as a libvirt address. */
export function pciAddress(field: string, text: string): XmlContent {
  const match = pattern.exec(text);
  if (!match) throw invalid(field, `${JSON.stringify(text)} is no PCI address such as "0000:02:01.0"`);
  const [, domain, bus, slot, fn] = match;
  return {
    '@type': 'pci',
    '@domain': `0x${domain}`,
    '@bus': `0x${bus}`,
    '@slot': `0x${slot}`,
    '@function': `0x${fn}`,
  };
}
