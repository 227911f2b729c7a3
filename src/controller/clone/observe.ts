import {
  contentNameOf,
  isRestoreOver,
  type Key,
  type PersistentVolumeClaim,
  type VirtualMachine,
  type VirtualMachineClone,
  type VirtualMachineRestore,
  type VirtualMachineSnapshot,
  type VirtualMachineSnapshotContent,
} from '../../api/index.ts';
import { type Clock, listOf } from '../../base/index.ts';
import type { Observed, ReadYourWrites } from '../../reconcile/index.ts';
import { orUnclear } from '../reconciling.ts';
import { keepsState, leftOutOf, type VolumeDeps, type VolumeFacts, volumeFacts } from '../snapshot-source/index.ts';

/** A clone and what is made for it; plain data. */
export interface PresentClone extends Observed {
  readonly kind: 'present';
  readonly clone: VirtualMachineClone;
  /** It is of a VM, and not of a snapshot. */
  readonly isOfVm: boolean;
  /** It never can be made. */
  readonly problem: string | undefined;
  /** A TPM's state or EFI variables outlive the source's starts. */
  readonly keepsState: boolean;
  readonly source: VirtualMachine | VirtualMachineSnapshot | undefined;
  /** Of a source that is a VM. */
  readonly volumes: readonly VolumeFacts[];
  readonly names: CloneNames;
  readonly snapshot: VirtualMachineSnapshot | undefined;
  readonly content: VirtualMachineSnapshotContent | undefined;
  /** Volumes on claims that the snapshot has not. */
  readonly leftOut: readonly string[];
  readonly restore: VirtualMachineRestore | undefined;
  readonly target: VirtualMachine | undefined;
  /** All claims of the target that the restore has made are filled. */
  readonly isBound: boolean;
}

export interface CloneNames {
  readonly snapshot: string;
  readonly restore: string;
  readonly target: string;
}

export interface AbsentClone extends Observed {
  readonly kind: 'absent';
}

/** The API server did not answer what a decision depends on. */
export interface UnclearClone extends Observed {
  readonly kind: 'unclear';
  readonly clone: VirtualMachineClone;
  readonly reason: string;
}

export type CloneObservation = PresentClone | AbsentClone | UnclearClone;

export interface ObserveDeps extends VolumeDeps {
  readonly clones: ReadYourWrites<VirtualMachineClone>;
  readonly snapshots: ReadYourWrites<VirtualMachineSnapshot>;
  readonly contents: Pick<ReadYourWrites<VirtualMachineSnapshotContent>, 'get'>;
  readonly restores: ReadYourWrites<VirtualMachineRestore>;
  readonly vms: Pick<ReadYourWrites<VirtualMachine>, 'get'>;
  readonly claims: { get(key: Key): PersistentVolumeClaim | undefined };
  readonly clock: Clock;
}

const suffixLength = 5;

export async function observeClone(key: Key, deps: ObserveDeps, signal: AbortSignal): Promise<CloneObservation> {
  const clone = deps.clones.get(key);
  const now = deps.clock.now();
  if (!clone) return { kind: 'absent', key, uid: '', now };
  const base = { key, uid: clone.metadata.uid ?? '', now, clone };
  const read = async (): Promise<CloneObservation> => ({
    kind: 'present',
    ...base,
    ...(await factsOf(clone, deps, signal)),
  });
  return orUnclear(base, read, signal);
}

async function factsOf(clone: VirtualMachineClone, deps: ObserveDeps, signal: AbortSignal) {
  const { namespace } = clone.metadata;
  const at = (name: string) => `${namespace}/${name}`;
  const isOfVm = isCloneOfVm(clone);
  const names = namesOf(clone);
  const sourceName = clone.spec.source?.name ?? '';
  const vm = isOfVm ? deps.vms.get(at(sourceName)) : undefined;
  const snapshot = deps.snapshots.get(at(names.snapshot));
  const content = snapshot && deps.contents.get(at(contentNameOf(snapshot)));
  const restore = deps.restores.get(at(names.restore));
  const kept = vm ?? content?.spec.source.virtualMachine;
  const isToBeTaken = vm !== undefined && !snapshot && (clone.status?.phase ?? '') === '';
  return {
    isOfVm,
    names,
    problem: problemOf(clone),
    keepsState: kept !== undefined && keepsState(kept),
    source: isOfVm ? vm : snapshot,
    volumes: isToBeTaken ? await volumeFacts(vm, deps, signal) : [],
    snapshot,
    content,
    leftOut: content ? leftOutOf(content) : [],
    restore,
    target: deps.vms.get(at(names.target)),
    isBound: restore ? isBound(restore, deps) : false,
  };
}

/** And not of a snapshot. */
export function isCloneOfVm({ spec }: VirtualMachineClone): boolean {
  return spec.source?.kind === 'VirtualMachine';
}

/** Names that follow from the clone: whoever is ended on the way finds again what he has made. */
export function namesOf(clone: VirtualMachineClone): CloneNames {
  const { metadata, spec } = clone;
  const { uid = '' } = metadata;
  const source = spec.source?.name ?? '';
  return {
    snapshot: isCloneOfVm(clone) ? `tmp-snapshot-${uid}` : source,
    restore: `tmp-restore-${uid}`,
    target: spec.target?.name || `clone-${source}-${uid.slice(0, suffixLength)}`,
  };
}

function problemOf({ spec }: VirtualMachineClone): string | undefined {
  const { source, target } = spec;
  const kinds = ['VirtualMachine', 'VirtualMachineSnapshot'];
  if (!source || !kinds.includes(source.kind)) return `spec.source: a clone is of one of ${kinds.join(', ')}`;
  if (target && target.kind !== 'VirtualMachine') return 'spec.target: a clone is a VirtualMachine';
  if (source.kind === 'VirtualMachine' && target?.name === source.name)
    return 'spec.target: a VM cannot be a clone of itself';
  return undefined;
}

function isBound(restore: VirtualMachineRestore, { claims }: ObserveDeps): boolean {
  if (!isRestoreOver(restore)) return false;
  return claimsOf(restore).every((claim) => claims.get(claim)?.status?.phase === 'Bound');
}

/** Keys of the claims that a restore has made. */
export function claimsOf({ metadata, status }: VirtualMachineRestore): Key[] {
  return listOf(status?.restores).map((each) => {
    const name = (each as { persistentVolumeClaim?: string }).persistentVolumeClaim ?? '';
    return `${metadata.namespace}/${name}`;
  });
}
