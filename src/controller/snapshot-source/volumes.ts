import {
  keepsState as domainKeepsState,
  type Key,
  keptState,
  keyOf,
  type PersistentVolumeClaim,
  type VirtualMachine,
  type VirtualMachineSnapshotContent,
  type VolumeBackup,
} from '../../api/index.ts';
import { isRecord, listOf, memberAt, textAt } from '../../base/index.ts';
import type { ClaimFilling } from '../data-volumes/index.ts';
import { type StateClaims, stateClaimOf, stateVolumeName } from '../kept-state/index.ts';
import type { FoundClass, SnapshotClasses } from './classes.ts';

/** A volume of a VM, as a snapshot sees it. */
export interface SourceVolume {
  readonly name: string;
  /** The claim that it is on; undefined: it is on none, so that nothing of it can be kept. */
  readonly claimName: string | undefined;
  /** What a guest's memory was written to: kept, but never given back. */
  readonly isMemoryDump: boolean;
  /** What its firmware keeps: none of the VM's own volumes, and of a claim that it gets with its first start. */
  readonly isState?: true;
}

type Vm = Pick<VirtualMachine, 'metadata' | 'spec'>;

/** Of a VM's template; a bare API server takes anything for one. */
export function volumesOf(spec: unknown): SourceVolume[] {
  return listOf(memberAt(spec, 'template', 'spec', 'volumes')).flatMap((volume) => {
    if (!isRecord(volume) || typeof volume.name !== 'string') return [];
    const claimName =
      textAt(volume, 'persistentVolumeClaim', 'claimName') ??
      textAt(volume, 'dataVolume', 'name') ??
      textAt(volume, 'memoryDump', 'claimName');
    return [{ name: volume.name, claimName, isMemoryDump: isRecord(volume.memoryDump) }];
  });
}

/** With the claim of a TPM's state and EFI variables. */
export function volumesOfVm(vm: Vm, stateClaims: StateClaims): SourceVolume[] {
  const volumes = volumesOf(vm.spec);
  if (!keepsState(vm)) return volumes;
  const claimName = stateClaimOf(vm, stateClaims(keyOf(vm)))?.metadata.name;
  return [...volumes, stateVolume(vm, claimName)];
}

function stateVolume({ metadata }: Vm, claimName: string | undefined): SourceVolume {
  return { name: stateVolumeName(metadata.name), claimName, isMemoryDump: false, isState: true };
}

/** All that the snapshot could have of its VM. */
export function volumesOfContent(content: VirtualMachineSnapshotContent): SourceVolume[] {
  const vm = content.spec.source.virtualMachine;
  if (!vm) return [];
  const volumes = volumesOf(vm.spec);
  if (!keepsState(vm)) return volumes;
  const backup = stateBackupOf(content);
  return [...volumes, stateVolume(vm, backup?.persistentVolumeClaim.metadata?.name ?? '')];
}

/** What a snapshot has of the VM's kept state. */
export function stateBackupOf({ spec }: VirtualMachineSnapshotContent): VolumeBackup | undefined {
  const vm = spec.source.virtualMachine;
  if (!vm || !keepsState(vm)) return undefined;
  const own = new Set(volumesOf(vm.spec).map(({ name }) => name));
  return (spec.volumeBackups ?? []).find(({ volumeName, persistentVolumeClaim: { metadata } }) => {
    const isNamedSo = volumeName === stateVolumeName(vm.metadata.name);
    return !own.has(volumeName) && (isNamedSo || metadata?.labels?.[keptState.label] !== undefined);
  });
}

/** Names of volumes on claims that a snapshot has nothing of. */
export function leftOutOf(content: VirtualMachineSnapshotContent): string[] {
  const kept = new Set((content.spec.volumeBackups ?? []).map(({ volumeName }) => volumeName));
  return volumesOfContent(content)
    .filter(({ name, claimName, isMemoryDump }) => claimName !== undefined && !isMemoryDump && !kept.has(name))
    .map(({ name }) => name);
}

/** Persistent TPM or EFI: their claim is none of its volumes. */
export function keepsState({ spec }: Pick<VirtualMachine, 'spec'>): boolean {
  return domainKeepsState(memberAt(spec, 'template', 'spec', 'domain'));
}

export type VolumeSupport =
  /** A VolumeSnapshot of its claim can be made, of this class. */
  | { readonly kind: 'snapshot'; readonly snapshotClass: string }
  /** None can: it stays out of the snapshot. */
  | { readonly kind: 'none'; readonly why: string }
  /** It is not known yet, or the claim is not ready for one. */
  | { readonly kind: 'waits'; readonly why: string };

export interface VolumeFacts extends SourceVolume {
  readonly claim: PersistentVolumeClaim | undefined;
  readonly support: VolumeSupport;
}

export interface VolumeDeps {
  readonly claims: { get(key: Key): PersistentVolumeClaim | undefined };
  readonly stateClaims: StateClaims;
  readonly dataVolumes: { fillingOf(claim: PersistentVolumeClaim): ClaimFilling | undefined };
  readonly classes: Pick<SnapshotClasses, 'of'>;
}

/** What a snapshot of the VM would have of each of its volumes. Rejects with KubeError where the API server does not answer. */
export async function volumeFacts(vm: Vm, deps: VolumeDeps, signal: AbortSignal): Promise<VolumeFacts[]> {
  const classes = { of: eachOnce((storageClass) => deps.classes.of(storageClass, signal)) };
  const facts = volumesOfVm(vm, deps.stateClaims).map(async (volume): Promise<VolumeFacts> => {
    const { claimName, isState } = volume;
    if (claimName === undefined && isState)
      return { ...volume, claim: undefined, support: { kind: 'waits', why: missingStateWords } };
    if (claimName === undefined)
      return { ...volume, claim: undefined, support: { kind: 'none', why: noClaimWords(volume.name) } };
    const claim = deps.claims.get(`${vm.metadata.namespace}/${claimName}`);
    return { ...volume, claim, support: await supportOf(volume.name, claimName, claim, { ...deps, classes }) };
  });
  return Promise.all(facts);
}

const missingStateWords = 'has no claim yet with the state of its TPM or EFI variables: it gets one when it is started';

export function noClaimWords(volume: string): string {
  return `Snapshot is not supported for this volumeSource type [${volume}]`;
}

export function noClassWords(storageClass: string, volume: string): string {
  return `No VolumeSnapshotClass: Volume snapshots are not configured for this StorageClass [${storageClass}] [${volume}]`;
}

/** One question per class: most disks of a VM are of the same. */
function eachOnce(ask: (name: string) => Promise<FoundClass>): (name: string) => Promise<FoundClass> {
  const asked = new Map<string, Promise<FoundClass>>();
  return (name) => {
    const answer = asked.get(name) ?? ask(name);
    asked.set(name, answer);
    return answer;
  };
}

interface SupportDeps {
  readonly dataVolumes: VolumeDeps['dataVolumes'];
  readonly classes: { of(storageClass: string): Promise<FoundClass> };
}

async function supportOf(
  volume: string,
  name: string,
  claim: PersistentVolumeClaim | undefined,
  { dataVolumes, classes }: SupportDeps,
): Promise<VolumeSupport> {
  const why = claimProblem(name, claim, dataVolumes);
  if (why !== undefined || !claim) return { kind: 'waits', why: why ?? '' };
  const storageClass = claim.spec.storageClassName ?? '';
  if (storageClass === '') return { kind: 'none', why: `claim ${name} has no storage class [${volume}]` };
  const found = await classes.of(storageClass);
  if (found.kind !== 'none') return found;
  return { kind: 'none', why: found.why || noClassWords(storageClass, volume) };
}

function claimProblem(
  name: string,
  claim: PersistentVolumeClaim | undefined,
  dataVolumes: VolumeDeps['dataVolumes'],
): string | undefined {
  if (!claim) return `volume doesnt exist: ${name}`;
  if (claim.metadata.deletionTimestamp) return `volume is being deleted: ${name}`;
  if (claim.status?.phase !== 'Bound') return `volume not bound: ${name}`;
  const filling = dataVolumes.fillingOf(claim);
  return filling && filling.state !== 'filled' ? `volume not populated: ${filling.detail}` : undefined;
}
