import type { VirtualMachineExport } from '../../api/index.ts';

/** Names of what is made for an export: upstream's, so that what it has made is found again (getExportServiceName and others in export.go). */
export interface ExportNames {
  readonly pod: string;
  readonly service: string;
  /** Of the token, where the export names none. */
  readonly tokenSecret: string;
  readonly manifest: string;
  /** By which the service finds the pod. */
  readonly label: string;
}

const longest = 63;
/** Of names of objects that are no label of DNS. */
const longestOfObjects = 253;
const prefix = 'virt-export';

export function namesOf({ metadata: { name } }: VirtualMachineExport): ExportNames {
  const flat = name.replaceAll('.', '-');
  return {
    pod: joined(prefix, name),
    // One letter of the prefix has to be left in front of the hash.
    service: joined(prefix, flat.length === longest - 10 ? flat.slice(0, -1) : flat),
    tokenSecret: joined('export-token', name),
    manifest: joined('exporter-vm-manifest', name, longestOfObjects),
    label: name.length <= longest ? name : joined(prefix, name),
  };
}

/** What a claim's volume is called in the pod. */
export function volumeNameOf(claim: string): string {
  const flat = claim.replaceAll('.', '-');
  return flat.length <= longest ? flat : joined(prefix, flat);
}

/** The claim that is made of a snapshot's volume. */
export function restoredClaimName({ metadata }: VirtualMachineExport, claim: string): string {
  return `${metadata.name}-${claim}`;
}

/** What is longer than `most` letters is told apart by a hash (pkg/build/naming of openshift/library-go). */
function joined(base: string, suffix: string, most = longest): string {
  const whole = `${base}-${suffix}`;
  if (whole.length <= most) return whole;
  const room = most - 10 - suffix.length;
  if (room <= 0) return `${base.slice(0, most - 9)}-${hashOf(whole)}`;
  return `${base.slice(0, room)}-${hashOf(base)}-${suffix}`;
}

/** FNV-1a of 32 bits. */
function hashOf(text: string): string {
  let hash = 0x811c9dc5;
  for (const byte of Buffer.from(text)) hash = Math.imul(hash ^ byte, 0x01000193) >>> 0;
  return hash.toString(16).padStart(8, '0');
}
