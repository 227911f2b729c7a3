import { createHash } from 'node:crypto';
import { cutName } from '../snapshot-source/index.ts';

const suffix = 'backup-target-pvc';
const longestLabel = 63;
const hashLength = 8;

/** Of the volume that brings a backup's claim into the launcher, as upstream names it; a name that is no label is cut, with a hash of the whole. */
export function targetVolumeName(backup: string): string {
  const name = `${backup}-${suffix}`;
  if (name.length <= longestLabel && !backup.includes('.')) return name;
  const hash = createHash('sha256').update(backup).digest('hex').slice(0, hashLength);
  const room = longestLabel - suffix.length - hashLength - 2;
  return `${cutName(backup.replaceAll('.', '-'), room)}-${hash}-${suffix}`;
}
