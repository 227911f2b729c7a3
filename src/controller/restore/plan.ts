import type {
  DataVolume,
  PersistentVolumeClaim,
  VirtualMachine,
  VirtualMachineSnapshotContent,
  VolumeRestore,
} from '../../api/index.ts';
import { listOf, memberAt } from '../../base/index.ts';
import type { Decided, ObjectEvent, Step } from '../../reconcile/index.ts';
import type { SaidConditions } from '../snapshot-source/index.ts';
import type { DataVolumeFacts, PresentRestore, VolumeFacts } from './observation.ts';

export interface RestoreStepArgs {
  protect: object;
  release: object;
  lockTarget: { readonly vm: VirtualMachine };
  unlockTarget: { readonly vm: VirtualMachine };
  /** VMs that name a restore which is gone. */
  unlockVms: { readonly vms: readonly VirtualMachine[] };
  stopTarget: { readonly vm: VirtualMachine };
  /** Claims in whose places others are restored. */
  replaceClaims: { readonly volumes: readonly VolumeFacts[] };
  /** Contents that the restore needs no more. */
  letGo: { readonly contents: readonly VirtualMachineSnapshotContent[] };
  createClaims: { readonly volumes: readonly VolumeFacts[] };
  /** Marks claims as those of DataVolumes. */
  markPopulated: { readonly volumes: readonly VolumeFacts[] };
  createDataVolumes: { readonly wanted: readonly DataVolumeFacts[] };
  /** The claim becomes the one of the VM's state, and those that were it do not count any more. */
  switchState: { readonly claim: PersistentVolumeClaim; readonly former: readonly PersistentVolumeClaim[] };
  /** The opposite, where the VM itself was not written: what it had before is the state of its disks. */
  putStateBack: { readonly vm: VirtualMachine };
  /** Makes or changes the target. */
  writeTarget: { readonly wanted: VirtualMachine };
  ownClaims: { readonly vm: VirtualMachine; readonly claims: readonly PersistentVolumeClaim[] };
  ownRevisions: { readonly vm: VirtualMachine };
  deleteDataVolumes: { readonly vm: VirtualMachine; readonly dataVolumes: readonly DataVolume[] };
  deleteFormerState: { readonly vm: VirtualMachine; readonly claims: readonly PersistentVolumeClaim[] };
}

/** What is said of it; members that are absent stay. */
export interface Said extends SaidConditions {
  readonly restores?: readonly VolumeRestore[];
  readonly deletedDataVolumes?: readonly string[];
  readonly isComplete?: true;
}

export interface RestorePlan {
  readonly steps: readonly Step<RestoreStepArgs>[];
  readonly events?: readonly ObjectEvent[];
  readonly requeueAfterMs?: number;
  /** Absent: the status stays. Said when the steps went well. */
  readonly says?: Said;
}

export interface RestoreDecision extends Decided, RestorePlan {
  readonly steps: readonly Step<RestoreStepArgs>[];
}

export type Facts = PresentRestore;

/** Until what is not announced by any change is looked at again. */
export const lookMs = 5_000;

const both = (why: string): Said => ({ progressing: ['False', why], ready: ['False', why] });

/** Told once: the condition keeps it. */
export function refused(facts: Facts, why: string, event: ObjectEvent, more: Partial<RestorePlan> = {}): RestorePlan {
  const known = listOf(facts.restore.status?.conditions).some((one) => memberAt(one, 'reason') === why);
  return { steps: [], says: both(why), ...(known ? {} : { events: [event] }), ...more };
}

export function troubled(facts: Facts, why: string, more: Partial<RestorePlan> = {}): RestorePlan {
  const message = `VirtualMachineRestore encountered error ${why}`;
  return refused(facts, why, { type: 'Warning', reason: 'VirtualMachineRestoreError', message }, more);
}

export function failing(facts: Facts, why: string): RestorePlan {
  const message = `VirtualMachineRestore failed ${why}`;
  const plan = refused(facts, why, { type: 'Warning', reason: 'VirtualMachineRestoreFailed', message });
  return { ...plan, says: { ...both(why), failure: why } };
}
