import {
  contentNameOf,
  controllerOf,
  type DataVolume,
  isReadyToUse,
  isRestoreOver,
  type Key,
  keptState,
  keyOf,
  namesVirtualMachine,
  type PersistentVolumeClaim,
  type Pod,
  resources,
  type StorageClass,
  type VirtualMachine,
  type VirtualMachineInstance,
  type VirtualMachineRestore,
  type VirtualMachineSnapshot,
  type VirtualMachineSnapshotContent,
  type VolumeSnapshot,
} from '../../api/index.ts';
import { type Clock, isRecord, listOf } from '../../base/index.ts';
import type { ReadYourWrites } from '../../reconcile/index.ts';
import { type DataVolumes, stateOf } from '../data-volumes/index.ts';
import { formerStateMark, type StateClaims } from '../kept-state/index.ts';
import { once } from '../reconciling.ts';
import { keepsState, leftOutOf, markOf, stateBackupOf, vmiOf, volumesOf } from '../snapshot-source/index.ts';
import { isHeldBy, isMadeBy, restoredName, targetOf } from './names.ts';
import type {
  DataVolumeFacts,
  PresentRestore,
  RestoreObservation,
  SourceFacts,
  StateFacts,
  VolumeFacts,
} from './observation.ts';
import { othersOf, type Users } from './others.ts';
import { RestoreError, restoredVm, templateNames, templateOfVolume } from './restored-vm.ts';

export interface ObserveDeps {
  readonly restores: ReadYourWrites<VirtualMachineRestore>;
  readonly snapshots: Pick<ReadYourWrites<VirtualMachineSnapshot>, 'get'>;
  readonly contents: Pick<ReadYourWrites<VirtualMachineSnapshotContent>, 'get' | 'list'>;
  readonly volumeSnapshots: Pick<ReadYourWrites<VolumeSnapshot>, 'get'>;
  readonly vms: ReadYourWrites<VirtualMachine>;
  readonly vmis: Pick<ReadYourWrites<VirtualMachineInstance>, 'get'>;
  /** Launcher pods, and those that plug disks in. */
  readonly pods: { list(): readonly Pod[] };
  readonly claims: { get(key: Key): PersistentVolumeClaim | undefined };
  readonly stateClaims: StateClaims;
  /** Claims with what the firmware of a VM kept before a restore, by `formerStateMark` of the VM. */
  readonly formerStateClaims: StateClaims;
  readonly storageClasses: { get(key: Key): StorageClass | undefined };
  readonly dataVolumes: Pick<DataVolumes, 'lookUp'>;
  readonly clock: Clock;
}

/** Upstream's: how long a target may run that is waited for. */
const gracePeriodMs = 300_000;

export function observeRestore(key: Key, deps: ObserveDeps): RestoreObservation {
  const restore = deps.restores.get(key);
  const now = deps.clock.now();
  if (!restore) return { kind: 'absent', key, uid: '', now, marked: markedBy(key, deps) };
  const uid = restore.metadata.uid ?? '';
  return { kind: 'present', key, uid, now, restore, ...factsOf(restore, now, deps) };
}

/** One whose restore was taken away without its finalizer stays locked otherwise. */
function markedBy(key: Key, { vms }: ObserveDeps): VirtualMachine[] {
  return vms.list().filter((vm) => `${vm.metadata.namespace}/${markOf(vm, 'restoreInProgress')}` === key);
}

type Facts = Omit<PresentRestore, 'kind' | 'key' | 'uid' | 'now' | 'restore' | 'lastRule'>;

function factsOf(restore: VirtualMachineRestore, now: Date, deps: ObserveDeps): Facts {
  const { namespace, name, creationTimestamp = '' } = restore.metadata;
  const problem = problemOf(restore);
  const target = problem === undefined ? deps.vms.get(`${namespace}/${restore.spec.target.name}`) : undefined;
  const isRestored = target !== undefined && isMadeBy(target, restore);
  const mark = target && markOf(target, 'restoreInProgress');
  const snapshot = target && markOf(target, 'snapshotInProgress');
  const isOpen = problem === undefined && !isRestoreOver(restore) && !restore.metadata.deletionTimestamp;
  return {
    problem,
    target,
    isRestored,
    isLocked: mark === name,
    busy: busyWith(mark, snapshot, name),
    isRunning: target !== undefined && vmiOf(target, deps.vmis) !== undefined,
    isLate: now.getTime() > Date.parse(creationTimestamp) + gracePeriodMs,
    source: isOpen ? sourceOf(restore, target, deps) : { problem: 'the restore is over' },
    held: deps.contents.list().filter((each) => each.metadata.namespace === namespace && isHeldBy(each, restore)),
    leftover: isOpen && isRestored ? leftoverOf(restore, target, deps) : [],
    formerState: isOpen && isRestored ? formerStateOf(target, deps) : [],
  };
}

function busyWith(restore: string | undefined, snapshot: string | undefined, own: string): string | undefined {
  if (restore !== undefined && restore !== own) return `vm restore ${restore} in progress`;
  return snapshot === undefined ? undefined : `vm snapshot ${snapshot} in progress`;
}

function problemOf({ spec }: VirtualMachineRestore): string | undefined {
  if (namesVirtualMachine(spec.target)) return undefined;
  const { apiGroup = '', kind = '' } = spec.target ?? {};
  return `spec.target: a VirtualMachine of kubevirt.io is restored, and no ${kind} of ${apiGroup || 'no group'}`;
}

/** The same words as upstream's errors have (getVMSnapshot and getSnapshotContent in restore.go). */
function sourceOf(
  restore: VirtualMachineRestore,
  target: VirtualMachine | undefined,
  deps: ObserveDeps,
): PresentRestore['source'] {
  const { namespace } = restore.metadata;
  const key = `${namespace}/${restore.spec.virtualMachineSnapshotName}`;
  const snapshot = deps.snapshots.get(key);
  if (!snapshot) return { problem: `VMSnapshot ${key} does not exist` };
  if (snapshot.status?.phase === 'Failed') return { problem: `VMSnapshot ${key} failed and is invalid to use` };
  const contentKey = `${namespace}/${contentNameOf(snapshot)}`;
  const content = deps.contents.get(contentKey);
  // Claims are gone for it already: it is all that is left of them, and waits.
  const isHeld = content !== undefined && isHeldBy(content, restore);
  if (snapshot.metadata.deletionTimestamp && !isHeld) return { problem: `VMSnapshot ${key} is being deleted` };
  if (!isReadyToUse(snapshot)) return { problem: `VMSnapshot ${key} not ready` };
  if (!content) return { problem: `VMSnapshotContent ${contentKey} does not exist` };
  if (!isReadyToUse(content)) return { problem: `VMSnapshotContent ${contentKey} not ready` };
  try {
    return contentFacts(restore, { snapshot, content, target }, deps);
  } catch (error) {
    if (!(error instanceof RestoreError)) throw error;
    return { problem: error.message };
  }
}

interface Given {
  readonly snapshot: VirtualMachineSnapshot;
  readonly content: VirtualMachineSnapshotContent;
  readonly target: VirtualMachine | undefined;
}

function contentFacts(
  restore: VirtualMachineRestore,
  { snapshot, content, target }: Given,
  deps: ObserveDeps,
): SourceFacts | { readonly problem: string } {
  const { virtualMachine: kept } = content.spec.source;
  if (!kept) return { problem: `VMSnapshotContent ${keyOf(content)} has no VM: unexpected snapshot source` };
  const { name } = restore.spec.target;
  // Where a guest finds it follows from the name and the identity of its VM.
  if (keepsState(kept) && name !== kept.metadata.name)
    return {
      problem: `the VM of the snapshot keeps the state of a TPM or of EFI variables, which ${name} cannot have`,
    };
  const missing = target ? [] : leftOutOf(content);
  if (missing.length > 0)
    return {
      problem: `the snapshot has nothing of volumes ${missing.join(', ')}: a new VM would get the disks of its source`,
    };
  const dumps = new Set(volumesOf(kept.spec).flatMap(({ name, isMemoryDump }) => (isMemoryDump ? [name] : [])));
  const backups = (content.spec.volumeBackups ?? []).filter(({ volumeName }) => !dumps.has(volumeName));
  const users = once(() => ({ vms: deps.vms.list(), pods: deps.pods.list() }));
  const volumes = backups.map((backup) => volumeFacts(restore, backup, kept.spec, { ...deps, users }));
  const restores = volumes.map((volume) => ({
    ...volume.restore,
    ...(volume.dataVolumeName !== undefined && { dataVolumeName: volume.dataVolumeName }),
  }));
  const isNamed = restore.status?.restores !== undefined || backups.length === 0;
  const wanted = isNamed ? restoredVm(restore, kept, target, restores) : undefined;
  const names = wanted ? templateNames(wanted.spec) : [];
  const dropped = target && wanted ? templateNames(target.spec).filter((name) => !names.includes(name)) : [];
  const isRestored = (volume: string) => backups.some(({ volumeName }) => volumeName === volume);
  const replaced = new Set(
    volumesOf(target?.spec).flatMap(({ name, claimName }) => (isRestored(name) ? (claimName ?? []) : [])),
  );
  return {
    vmUid: snapshot.status?.sourceUID,
    snapshot,
    content,
    volumes,
    dataVolumes: wanted
      ? listOf(wanted.spec.dataVolumeTemplates).flatMap((each) => dataVolumeFacts(each, restore, deps))
      : [],
    state: stateFacts(restore, content, target, deps),
    wanted,
    obsolete: dropped.filter((name) => replaced.has(name)),
    unkept: dropped.filter((name) => !replaced.has(name)),
  };
}

function stateFacts(
  { metadata: { namespace }, status }: VirtualMachineRestore,
  content: VirtualMachineSnapshotContent,
  target: VirtualMachine | undefined,
  { claims, stateClaims }: ObserveDeps,
): StateFacts | undefined {
  const volumeName = stateBackupOf(content)?.volumeName;
  const restored = status?.restores?.find((each) => each.volumeName === volumeName);
  if (volumeName === undefined || !restored) return undefined;
  const claim = claims.get(`${namespace}/${restored.persistentVolumeClaim}`);
  const former = target ? stateClaims(keyOf(target)) : [];
  return {
    claim,
    isMarked: claim?.metadata.labels?.[keptState.label] !== undefined,
    former: former.filter(({ metadata }) => metadata.name !== claim?.metadata.name && !metadata.deletionTimestamp),
  };
}

type Backup = VolumeFacts['backup'];

interface VolumeDeps extends ObserveDeps {
  users(): Users;
}

/** What was written down counts: names do not change on the way. */
function volumeFacts(
  restore: VirtualMachineRestore,
  backup: Backup,
  spec: VirtualMachine['spec'],
  deps: VolumeDeps,
): VolumeFacts {
  const { namespace } = restore.metadata;
  const { volumeName, volumeSnapshotName } = backup;
  const source = backup.persistentVolumeClaim.metadata?.name ?? '';
  if (volumeSnapshotName === undefined)
    throw new RestoreError(`volume ${volumeName}: the content of the snapshot names no VolumeSnapshot`);
  const stored = listOf(restore.status?.restores).find((each) => isRecord(each) && each.volumeName === volumeName);
  const made = {
    volumeName,
    persistentVolumeClaim: restoredName(restore, volumeName, source),
    volumeSnapshotName,
  };
  const named = (stored as VolumeFacts['restore'] | undefined) ?? made;
  const claim = deps.claims.get(`${namespace}/${named.persistentVolumeClaim}`);
  const template = templateOfVolume(spec, volumeName);
  const filler = claim && controllerOf(claim);
  const isOurs = claim !== undefined && isMadeBy(claim, restore);
  // Any other claim stays, whoever has it.
  const mayGo = claim !== undefined && !isOurs && restore.spec.volumeRestorePolicy === 'InPlace';
  return {
    restore: named,
    backup,
    volumeSnapshot: deps.volumeSnapshots.get(`${namespace}/${volumeSnapshotName}`),
    claim,
    isOurs,
    others: mayGo ? othersOf({ restore: named, backup }, targetOf(restore), deps.users) : undefined,
    bindsLater: bindsLater(claim, deps),
    dataVolumeName: template === undefined ? undefined : restoredName(restore, volumeName, template),
    filledBy: filler?.kind === resources.dataVolumes.kind ? filler.name : undefined,
  };
}

function bindsLater(claim: PersistentVolumeClaim | undefined, { storageClasses }: ObserveDeps): boolean {
  return storageClasses.get(claim?.spec.storageClassName ?? '')?.volumeBindingMode === 'WaitForFirstConsumer';
}

const populated = ['Succeeded', 'WaitForFirstConsumer', 'PendingPopulation'];

function dataVolumeFacts(template: unknown, { metadata }: VirtualMachineRestore, deps: ObserveDeps): DataVolumeFacts[] {
  if (!isRecord(template) || !isRecord(template.metadata) || typeof template.metadata.name !== 'string') return [];
  const { name } = template.metadata;
  const found = deps.dataVolumes.lookUp(`${metadata.namespace}/${name}`);
  const object = found.kind === 'found' ? found.object : undefined;
  const isFilled =
    object !== undefined && (stateOf(object) === 'filled' || populated.includes(object.status?.phase ?? ''));
  return [{ name, template, object, isFilled, isUnread: found.kind === 'unread' }];
}

function formerStateOf({ metadata }: VirtualMachine, { formerStateClaims }: ObserveDeps): PersistentVolumeClaim[] {
  const claims = formerStateClaims(`${metadata.namespace}/${formerStateMark(metadata.name)}`);
  return claims.filter((claim) => !claim.metadata.deletionTimestamp);
}

/** Only those that are the target's: a name may be another's by now. */
function leftoverOf(restore: VirtualMachineRestore, { metadata }: VirtualMachine, deps: ObserveDeps): DataVolume[] {
  return listOf(restore.status?.deletedDataVolumes).flatMap((name) => {
    const found = deps.dataVolumes.lookUp(`${metadata.namespace}/${String(name)}`);
    if (found.kind !== 'found' || found.object.metadata.deletionTimestamp) return [];
    return controllerOf(found.object)?.uid === metadata.uid ? [found.object] : [];
  });
}
