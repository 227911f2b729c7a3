import {
  annotations,
  contentNameOf,
  controllerOf,
  findCondition,
  isExportOf,
  isFinal,
  isReadyToUse,
  type Key,
  keyOf,
  type PersistentVolumeClaim,
  resources,
  type VirtualMachine,
  type VirtualMachineBackup,
  type VirtualMachineBackupTracker,
  type VirtualMachineExport,
  type VirtualMachineInstance,
  type VirtualMachineSnapshot,
  type VirtualMachineSnapshotContent,
  type VolumeSnapshot,
} from '../../api/index.ts';
import { listOf, memberAt } from '../../base/index.ts';
import type { ClaimFilling } from '../data-volumes/index.ts';
import type { StateClaims } from '../kept-state/index.ts';
import { vmiOf, volumesOf, volumesOfVm } from '../snapshot-source/index.ts';
import { restoredClaimName } from './names.ts';
import type { SourceFacts, SourceVolume, WantedClaim } from './observation.ts';

export interface SourceDeps {
  readonly vms: { get(key: Key): VirtualMachine | undefined; list(): readonly VirtualMachine[] };
  readonly vmis: { get(key: Key): VirtualMachineInstance | undefined };
  readonly claims: { get(key: Key): PersistentVolumeClaim | undefined };
  readonly stateClaims: StateClaims;
  readonly dataVolumes: { fillingOf(claim: PersistentVolumeClaim): ClaimFilling | undefined };
  readonly snapshots: { get(key: Key): VirtualMachineSnapshot | undefined };
  readonly contents: { get(key: Key): VirtualMachineSnapshotContent | undefined };
  readonly backups: { get(key: Key): VirtualMachineBackup | undefined };
  readonly trackers: { get(key: Key): VirtualMachineBackupTracker | undefined };
  readonly volumeSnapshots: { get(key: Key): VolumeSnapshot | undefined };
}

const none: SourceFacts = { volumes: [], wanted: [], isSkipped: false };

/** What an export is of, from what is known already. */
export function sourceOf(vmExport: VirtualMachineExport, deps: SourceDeps): SourceFacts {
  const { apiGroup, kind, name } = vmExport.spec.source ?? {};
  switch (`${apiGroup ?? ''}/${kind}`) {
    case '/PersistentVolumeClaim':
      return ofClaim(vmExport, deps);
    case 'kubevirt.io/VirtualMachine':
      return { ...ofVm(vmExport, deps), vmName: name };
    case 'snapshot.kubevirt.io/VirtualMachineSnapshot':
      return ofSnapshot(vmExport, deps);
    case 'backup.kubevirt.io/VirtualMachineBackup':
      return ofBackup(vmExport, deps);
    default: {
      const message = `spec.source: a ${kind} of ${apiGroup || 'the core group'} is not exported here: name a PersistentVolumeClaim, a VirtualMachine, a VirtualMachineSnapshot or a VirtualMachineBackup`;
      return { ...none, isSkipped: true, problem: { reason: 'UnsupportedSource', message } };
    }
  }
}

const at = ({ metadata, spec }: VirtualMachineExport) => `${metadata.namespace}/${spec.source.name}`;

function ofClaim(vmExport: VirtualMachineExport, deps: SourceDeps): SourceFacts {
  const key = at(vmExport);
  const claim = deps.claims.get(key);
  if (!claim) {
    const missing = { reason: 'PVCNotFound', message: `PersistentVolumeClaim ${key} not found` };
    const condition = { type: 'PVCReady', status: 'False', ...missing } as const;
    return { ...none, problem: { ...missing, reason: 'Initializing' }, condition };
  }
  const volumes = [{ claim, isDisk: isDisk(claim, deps) || isDiskOfVm(claim, deps) }];
  const why = unreadyWords(claim, deps);
  const problem =
    why === undefined ? undefined : { reason: 'PVCPending', message: `PersistentVolumeClaim ${key} ${why}` };
  return { ...none, volumes, condition: claimCondition(claim), ...(problem && { problem }) };
}

function claimCondition({ status }: PersistentVolumeClaim) {
  const type = 'PVCReady';
  if (status?.phase === 'Bound') return { type, status: 'True', reason: 'PVCBound' } as const;
  return { type, status: 'False', reason: status?.phase === 'Lost' ? 'Unknown' : 'PVCPending' } as const;
}

function ofVm(vmExport: VirtualMachineExport, deps: SourceDeps): SourceFacts {
  const key = at(vmExport);
  const vm = deps.vms.get(key);
  const problem = (reason: string, message: string) => ({ problem: { reason, message } });
  if (!vm) return { ...none, isSkipped: true, ...problem('VMNotFound', `Virtual Machine ${key} not found`) };
  const named = volumesOfVm(vm, deps.stateClaims).flatMap(({ name, claimName }) =>
    claimName === undefined ? [] : [{ name, claimName }],
  );
  if (named.length === 0)
    return { ...none, isSkipped: true, ...problem('VMNoVolumes', `Virtual Machine ${key} has no volumes`) };
  const disks = diskVolumes(vm);
  const volumes = new Map<string, SourceVolume>();
  const unready: string[] = [];
  for (const { name, claimName } of named) {
    const claim = deps.claims.get(`${vm.metadata.namespace}/${claimName}`);
    const why = claim ? unreadyWords(claim, deps) : 'does not exist yet';
    if (why !== undefined) unready.push(`claim ${claimName} ${why}`);
    if (claim) volumes.set(claimName, { claim, isDisk: disks.has(name) || isDisk(claim, deps) });
  }
  const facts = { ...none, vm, volumes: [...volumes.values()] };
  if (unready.length > 0) {
    const message = `Not all volumes in the Virtual Machine ${key} are populated: ${unready.join('; ')}`;
    return { ...facts, ...problem('VolumesNotPopulated', message) };
  }
  const vmi = vmiOf(vm, deps.vmis) ?? deps.vmis.get(key);
  if (vmi && !isFinal(vmi)) return { ...facts, ...problem('InUse', `Virtual Machine ${key} is running`) };
  return facts;
}

/** The launcher brings it to the export of the backup's own name, and to no other. */
function ofBackup(vmExport: VirtualMachineExport, { backups, trackers }: SourceDeps): SourceFacts {
  const key = at(vmExport);
  const backup = backups.get(key);
  const unread = (message: string): SourceFacts => ({ ...none, problem: { reason: 'Initializing', message } });
  if (!backup) return unread(`VirtualMachineBackup ${key} not found`);
  if (!isExportOf(backup, vmExport))
    return unread(
      `VirtualMachineBackup ${key} is read by the export of its own name that is made for it (spec.mode: Pull)`,
    );
  if (findCondition(backup.status?.conditions, 'Progressing')?.status !== 'True')
    return unread(`VirtualMachineBackup ${key} is not under way`);
  if (!backup.status?.type || !backup.status.includedVolumes?.length)
    return unread(`VirtualMachineBackup ${key} has no disks to be read yet`);
  const { kind, name } = backup.spec.source;
  const isByTracker = kind === resources.virtualMachineBackupTrackers.kind;
  const tracker = isByTracker ? trackers.get(`${backup.metadata.namespace}/${name}`) : undefined;
  const vmName = isByTracker ? tracker?.spec.source.name : name;
  return { ...none, backup, ...(vmName !== undefined && { vmName }) };
}

/** The same words as upstream's (vmsnapshot-source.go). */
function ofSnapshot(vmExport: VirtualMachineExport, deps: SourceDeps): SourceFacts {
  const key = at(vmExport);
  const snapshot = deps.snapshots.get(key);
  const created = (reason: string, message: string) =>
    ({ type: 'VolumesCreated', status: 'False', reason, message }) as const;
  const empty = `VirtualMachineSnapshot ${key} does not contain any volume snapshots`;
  if (!snapshot) {
    const problem = { reason: 'VMSnapshotNotFound', message: `VirtualMachineSnapshot ${key} not found` };
    return { ...none, isSkipped: true, problem, condition: created('VMSnapshotNoVolumes', empty) };
  }
  const vmName = snapshot.spec.source.name;
  const content = deps.contents.get(`${snapshot.metadata.namespace}/${contentNameOf(snapshot)}`);
  if (!isReadyToUse(snapshot) || !content) {
    const words = snapshot.status?.phase === 'Failed' ? 'failed: take another one' : 'is not ready to use';
    const problem = { reason: 'NotAllPVCsCreated', message: `VirtualMachineSnapshot ${key} ${words}` };
    return { ...none, vmName, problem, condition: created(problem.reason, problem.message) };
  }
  const backups = content.spec.volumeBackups ?? [];
  if (backups.length === 0) {
    const problem = { reason: 'VMSnapshotNoVolumes', message: empty };
    return { ...none, vmName, isSkipped: true, problem, condition: created(problem.reason, problem.message) };
  }
  return { ...none, vmName, ...ofContent(vmExport, content, deps) };
}

function ofContent(
  vmExport: VirtualMachineExport,
  { spec }: VirtualMachineSnapshotContent,
  deps: SourceDeps,
): Partial<SourceFacts> {
  const { namespace, uid } = vmExport.metadata;
  const vm = spec.source.virtualMachine;
  const disks = vm ? diskVolumes(vm) : new Set<string>();
  const volumes: SourceVolume[] = [];
  const wanted: WantedClaim[] = [];
  for (const backup of spec.volumeBackups ?? []) {
    const isDiskOfIt = disks.has(backup.volumeName);
    const name = restoredClaimName(vmExport, backup.persistentVolumeClaim.metadata?.name ?? backup.volumeName);
    const claim = deps.claims.get(`${namespace}/${name}`);
    if (claim && controllerOf(claim)?.uid !== uid) {
      const message = `claim ${name}, which is to be made of the snapshot, exists and is another’s: delete it, or name the export otherwise`;
      return { ...none, problem: { reason: 'NotAllPVCsCreated', message } };
    }
    const kept = deps.volumeSnapshots.get(`${namespace}/${backup.volumeSnapshotName}`);
    if (claim) volumes.push({ claim, isDisk: isDiskOfIt || isDisk(claim, deps) });
    else wanted.push({ name, backup, isDisk: isDiskOfIt, restoreSize: kept?.status?.restoreSize });
  }
  const areReady = wanted.length === 0 && volumes.every(({ claim }) => claim.status?.phase === 'Bound');
  const condition = areReady
    ? ({ type: 'VolumesCreated', status: 'True', reason: 'AllPVCsReady' } as const)
    : ({
        type: 'VolumesCreated',
        status: 'False',
        reason: 'NotAllPVCsReady',
        message: 'Not all PVCs are ready',
      } as const);
  return { volumes, wanted, condition, ...(vm && { vm: { metadata: vm.metadata, spec: vm.spec } }) };
}

/** Why nothing can be read from it yet. One that waits for its first user gets it by the export. */
function unreadyWords(claim: PersistentVolumeClaim, { dataVolumes }: SourceDeps): string | undefined {
  if (claim.metadata.deletionTimestamp) return 'is being deleted';
  if (claim.status?.phase === 'Lost') return 'has lost its volume';
  const filling = dataVolumes.fillingOf(claim);
  return filling && filling.state !== 'filled' ? `is not populated: ${filling.detail}` : undefined;
}

/** What CDI, and whoever fills claims like it, says of it. A device is nothing else. */
function isDisk(claim: PersistentVolumeClaim, { dataVolumes }: SourceDeps): boolean {
  if (claim.spec.volumeMode === 'Block') return true;
  const said = claim.metadata.annotations?.[annotations.contentType];
  if (said !== undefined) return said === 'kubevirt' || said === '';
  return dataVolumes.fillingOf(claim) !== undefined;
}

/** Names of a VM's volumes that are disks on claims, and not file systems for its guest. */
function diskVolumes({ spec }: Pick<VirtualMachine, 'spec'>): Set<string> {
  const shared = listOf(memberAt(spec, 'template', 'spec', 'domain', 'devices', 'filesystems'));
  const fileSystems = new Set(shared.map((each) => memberAt(each, 'name')));
  return new Set(
    volumesOf(spec).flatMap(({ name, claimName, isMemoryDump }) =>
      claimName === undefined || isMemoryDump || fileSystems.has(name) ? [] : [name],
    ),
  );
}

/** Some VM of the namespace has it as a disk. */
function isDiskOfVm(claim: PersistentVolumeClaim, { vms }: SourceDeps): boolean {
  return vms.list().some((vm) => {
    if (vm.metadata.namespace !== claim.metadata.namespace) return false;
    const disks = diskVolumes(vm);
    return volumesOf(vm.spec).some(({ name, claimName }) => claimName === claim.metadata.name && disks.has(name));
  });
}

/** Keys of all claims that it is about. */
export function claimKeys({ volumes }: SourceFacts): Set<Key> {
  return new Set(volumes.map(({ claim }) => keyOf(claim)));
}
