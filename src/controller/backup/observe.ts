import {
  type BackupVolume,
  finalizers,
  isBackupOver,
  isExportOf,
  isUtilityVolume,
  type Key,
  type PersistentVolumeClaim,
  resources,
  type VirtualMachine,
  type VirtualMachineBackup,
  type VirtualMachineBackupTracker,
  type VirtualMachineExport,
  type VirtualMachineInstance,
} from '../../api/index.ts';
import { type Clock, isRecord, listOf, memberAt, parseGoDurationMs } from '../../base/index.ts';
import type { Observed, ReadYourWrites } from '../../reconcile/index.ts';
import { targetVolumeName } from './names.ts';

/** What a VMI says of the backup that it is marked for; its node writes all but the first two. */
export interface GuestBackup {
  readonly name: string;
  readonly startTime: string;
  readonly isOver: boolean;
  readonly hasFailed: boolean;
  readonly message: string | undefined;
  readonly checkpoint: string | undefined;
  readonly quiesced: string | undefined;
  readonly volumes: readonly BackupVolume[];
}

/** Where the volume with the claim is on its way. */
export type Attachment = 'none' | 'asked' | 'there' | 'leaving';

/** A backup and what it depends on; plain data. */
export interface PresentBackup extends Observed {
  readonly kind: 'present';
  readonly backup: VirtualMachineBackup;
  readonly isByTracker: boolean;
  readonly tracker: VirtualMachineBackupTracker | undefined;
  /** Empty: the tracker that knows it is missing, and nothing has begun. */
  readonly vmName: string;
  readonly vm: VirtualMachine | undefined;
  readonly vmi: VirtualMachineInstance | undefined;
  /** The VMI is marked for this backup. */
  readonly own: GuestBackup | undefined;
  /** The VMI is marked for another one; `isLost`: which is no more. */
  readonly other: (GuestBackup & { readonly isLost: boolean }) | undefined;
  readonly claim: PersistentVolumeClaim | undefined;
  readonly volumeName: string;
  readonly attachment: Attachment;
  /** By which clients read a pull. */
  readonly vmExport: VirtualMachineExport | undefined;
  /** Key of the export of that name that is another's. */
  readonly foreignExport: Key | undefined;
  /** Until when a pull may be read. */
  readonly expiresAt: Date;
}

export interface AbsentBackup extends Observed {
  readonly kind: 'absent';
}

export type BackupObservation = PresentBackup | AbsentBackup;

export interface ObserveDeps {
  readonly backups: ReadYourWrites<VirtualMachineBackup>;
  readonly trackers: Pick<ReadYourWrites<VirtualMachineBackupTracker>, 'get'>;
  readonly vms: { get(key: Key): VirtualMachine | undefined };
  readonly vmis: { get(key: Key): VirtualMachineInstance | undefined; list(): readonly VirtualMachineInstance[] };
  readonly exports: Pick<ReadYourWrites<VirtualMachineExport>, 'get'>;
  readonly claims: { get(key: Key): PersistentVolumeClaim | undefined };
  readonly clock: Clock;
}

/** Upstream's. */
const defaultTtlMs = 2 * 3_600_000;

export function observeBackup(key: Key, deps: ObserveDeps): BackupObservation {
  const backup = deps.backups.get(key);
  const now = deps.clock.now();
  if (!backup) return { kind: 'absent', key, uid: '', now };
  const { metadata, spec } = backup;
  const at = (name = '') => `${metadata.namespace}/${name}`;
  const isByTracker = spec.source?.kind === resources.virtualMachineBackupTrackers.kind;
  const named = isByTracker ? deps.trackers.get(at(spec.source.name)) : undefined;
  const left = isByTracker ? guestLeftBehind(backup, deps.vmis, at(named?.spec?.source?.name)) : undefined;
  const tracker = left ? undefined : named;
  const vmName = left?.metadata.name ?? (isByTracker ? tracker?.spec?.source?.name : spec.source?.name) ?? '';
  const vmi = left ?? deps.vmis.get(at(vmName));
  const marked = vmi && guestBackupOf(vmi);
  const isOwn = marked !== undefined && isMarkedFor(marked, backup);
  const volumeName = targetVolumeName(metadata.name);
  const exported = deps.exports.get(key);
  const isOurs = exported && isExportOf(backup, exported);
  return {
    kind: 'present',
    ...{ key, uid: metadata.uid ?? '', now, backup, isByTracker, tracker, vmName, vmi, volumeName },
    vm: deps.vms.get(at(vmName)),
    own: isOwn ? marked : undefined,
    other: marked && !isOwn ? { ...marked, isLost: isLost(marked, deps.backups.get(at(marked.name))) } : undefined,
    claim: deps.claims.get(at(spec.pvcName)),
    attachment: vmi ? attachmentOf(vmi, volumeName) : 'none',
    vmExport: isOurs ? exported : undefined,
    foreignExport: exported && !isOurs ? key : undefined,
    expiresAt: expiryOf(backup, now),
  };
}

/**
 * The guest that a backup by a tracker has begun with, where its tracker is gone since, or is of another VM: it has to be let go all the same. Looked for
 * in all of them only while there may be one.
 */
function guestLeftBehind(
  backup: VirtualMachineBackup,
  vmis: ObserveDeps['vmis'],
  ofTracker: Key,
): VirtualMachineInstance | undefined {
  const { metadata } = backup;
  const volumeName = targetVolumeName(metadata.name);
  const isTouched = (vmi: VirtualMachineInstance) => {
    const marked = guestBackupOf(vmi);
    return (marked !== undefined && isMarkedFor(marked, backup)) || isUtilityVolume(vmi, volumeName);
  };
  const known = vmis.get(ofTracker);
  if (!hasFinalizer(backup) || (known && isTouched(known))) return undefined;
  return vmis.list().find((vmi) => vmi.metadata.namespace === metadata.namespace && isTouched(vmi));
}

/** Something in its guest is, or may be, still to be taken back. */
export function hasFinalizer({ metadata }: VirtualMachineBackup): boolean {
  return metadata.finalizers?.includes(finalizers.vmBackup) === true;
}

function expiryOf({ metadata, spec }: VirtualMachineBackup, now: Date): Date {
  const created = Date.parse(metadata.creationTimestamp ?? '');
  const ttlMs = (spec.ttlDuration && parseGoDurationMs(spec.ttlDuration)) || defaultTtlMs;
  return new Date((Number.isNaN(created) ? now.getTime() : created) + ttlMs);
}

/** Nobody else will take such a mark off. */
function isLost(marked: GuestBackup, backup: VirtualMachineBackup | undefined): boolean {
  return !backup || !isMarkedFor(marked, backup);
}

/** Name and time together tell one backup from another, for launchers as well. */
export function isMarkedFor({ name, startTime }: GuestBackup, { metadata }: VirtualMachineBackup): boolean {
  return name === metadata.name && Date.parse(startTime) === Date.parse(metadata.creationTimestamp ?? '');
}

/** Members may have any form: a bare API server takes anything for them. */
export function guestBackupOf({ status }: VirtualMachineInstance): GuestBackup | undefined {
  const marked = memberAt(status, 'changedBlockTracking', 'backupStatus');
  if (!isRecord(marked) || typeof marked.backupName !== 'string') return undefined;
  const text = (name: string) => {
    const value = marked[name];
    return typeof value === 'string' && value !== '' ? value : undefined;
  };
  return {
    name: marked.backupName,
    startTime: text('startTimestamp') ?? '',
    isOver: marked.completed === true,
    hasFailed: marked.failed === true,
    message: text('backupMsg'),
    checkpoint: text('checkpointName'),
    quiesced: text('quiesceStatus'),
    volumes: listOf(marked.volumes).flatMap((volume) => {
      const [volumeName, diskTarget] = ['volumeName', 'diskTarget'].map((name) => memberAt(volume, name));
      if (typeof volumeName !== 'string' || typeof diskTarget !== 'string') return [];
      return { volumeName, diskTarget };
    }),
  };
}

/** Its launcher has heard of it: what it knows by then is in the VMI. */
export function isBegun({ isOver, checkpoint, volumes }: GuestBackup): boolean {
  return isOver || checkpoint !== undefined || volumes.length > 0;
}

function attachmentOf(vmi: VirtualMachineInstance, volumeName: string): Attachment {
  const entry = vmi.status?.volumeStatus?.find(({ name }) => name === volumeName);
  if (!isUtilityVolume(vmi, volumeName)) return entry ? 'leaving' : 'none';
  return entry?.phase === 'MountedToPod' ? 'there' : 'asked';
}

/** Keys of VMs whose changes a backup waits for, that names one itself: none, once it is over and nothing of it is left to do. */
export function backedUpVms(backup: VirtualMachineBackup): Key[] {
  return sourceOf(backup, resources.virtualMachines.kind);
}

/** The same for trackers. */
export function backupTrackers(backup: VirtualMachineBackup): Key[] {
  return sourceOf(backup, resources.virtualMachineBackupTrackers.kind);
}

function sourceOf(backup: VirtualMachineBackup, kind: string): Key[] {
  const { metadata, spec } = backup;
  const isAsleep = isBackupOver(backup) && !hasFinalizer(backup);
  return isAsleep || spec.source?.kind !== kind ? [] : [`${metadata.namespace}/${spec.source.name}`];
}
