import { child, childrenOf, childText, parseXml } from './xml.ts';

const archs: Readonly<Record<string, string>> = { x64: 'x86_64', arm64: 'aarch64', s390x: 's390x' };

/** Machine types in libvirt's `<capabilities>` for guests of an architecture, named as Node.js does. Throws ConvertError. */
export function machineTypesIn(capabilities: string, arch: string): string[] {
  const ofArch = childrenOf(parseXml(capabilities, 'capabilities'), 'guest')
    .filter((guest) => childText(guest, 'os_type') === 'hvm')
    .flatMap((guest) => child(guest, 'arch') ?? [])
    .filter(({ attributes }) => attributes.name === (archs[arch] ?? arch));
  return [...new Set(ofArch.flatMap((each) => childrenOf(each, 'machine')).map(({ text }) => text))];
}
