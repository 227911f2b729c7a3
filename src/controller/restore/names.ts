import { annotations, type KubeObject, type VirtualMachineRestore } from '../../api/index.ts';
import { cutName, holdOf } from '../snapshot-source/index.ts';

/** What is made by one restore says so; names of restores are used again. */
export function restoreMark({ metadata }: VirtualMachineRestore): string {
  return `${metadata.name}-${metadata.uid}`;
}

export function isMadeBy(object: KubeObject, restore: VirtualMachineRestore): boolean {
  return object.metadata.annotations?.[annotations.lastRestore] === restoreMark(restore);
}

export function isHeldBy({ metadata }: KubeObject, restore: VirtualMachineRestore): boolean {
  return metadata.finalizers?.includes(holdOf(restore)) === true;
}

/** Of the VM that shall be restored, whether there is one or not. */
export function targetOf({ metadata: { namespace }, spec }: VirtualMachineRestore) {
  return { namespace, name: spec.target.name };
}

/** The longest name of an object that is also a label. */
const longestName = 63;

/** The name of a volume's claim, or DataVolume, that had this one (upstream: restoreVolumeName in pkg/storage/snapshot/restore.go). */
export function restoredName({ metadata, spec }: VirtualMachineRestore, volume: string, given: string): string {
  const override = (spec.volumeRestoreOverrides ?? []).find(({ volumeName }) => volumeName === volume)?.restoreName;
  if (override) return override;
  if (spec.volumeRestorePolicy === 'InPlace') return given;
  if (spec.volumeRestorePolicy === 'PrefixTargetName') return shortened(`${spec.target.name}-${volume}`);
  return `restore-${metadata.uid}-${volume}`;
}

/** Two names that begin alike stay two. */
function shortened(name: string): string {
  if (name.length <= longestName) return name;
  let hash = 0;
  for (const character of name) hash = (Math.imul(hash, 31) + (character.codePointAt(0) ?? 0)) >>> 0;
  const suffix = hash.toString(16).padStart(8, '0');
  return `${cutName(name, longestName - suffix.length - 1)}-${suffix}`;
}
