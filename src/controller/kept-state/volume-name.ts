import { keptState } from '../../api/index.ts';

const longest = 63;
/** Of a dash, eight digits and a dash. */
const hashRoom = 10;

/**
 * The name that stands in snapshots for the claim of a VM's kept state, as if it were a volume of the VM: upstream's (BackendPVCVolumeName in
 * pkg/storage/utils), which shortens a name that is too long by a hash.
 */
export function stateVolumeName(vm: string): string {
  const base = keptState.label;
  const name = `${base}-${vm}`;
  if (name.length <= longest) return name;
  const room = longest - hashRoom - vm.length;
  return room < 0 ? `${base}-${hashOf(name)}` : `${base.slice(0, room)}-${hashOf(base)}-${vm}`;
}

/** What stands on a claim that had the VM's state before a restore: the same, but for what no label begins with; upstream's restore fails there. */
export function formerStateMark(vm: string): string {
  return stateVolumeName(vm).replace(/^-/, '');
}

/** FNV-1a of 32 bits. */
function hashOf(text: string): string {
  let hash = 0x811c9dc5;
  for (const byte of Buffer.from(text)) hash = Math.imul(hash ^ byte, 0x01000193) >>> 0;
  return hash.toString(16).padStart(8, '0');
}
