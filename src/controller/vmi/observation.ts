import type { Pod, VirtualMachineInstance } from '../../api/index.ts';
import type { ControllerConfig } from '../../cluster-config/index.ts';
import type { Observed } from '../../reconcile/index.ts';
import type { ClaimFilling } from '../data-volumes/index.ts';
import type { KeptState } from '../kept-state/index.ts';
import type { AttachmentPod, Claims } from '../pod/index.ts';

/** A VMI and its pods; plain data. What is stored about the VMI follows from it, see project.ts. */
export interface VmiFacts {
  readonly vmi: VirtualMachineInstance;
  /** All launcher pods of this VMI, finished and temporary ones too. */
  readonly pods: readonly Pod[];
  /** Pods that say they are its launchers and are not: nothing of what they say is believed. */
  readonly foreignPods: readonly Pod[];
  /** The newest of those by which volumes that wait for a first consumer get one; no guest runs in it. */
  readonly temporaryPod: Pod | undefined;
  /** The one that runs or will run the guest. */
  readonly pod: Pod | undefined;
  /** Pods that bring volumes to that one while the guest runs. */
  readonly attachments: readonly AttachmentPod[];
  /** Those by which claims that are to be plugged in get a first consumer. */
  readonly triggers: readonly AttachmentPod[];
  /** The claims of its volumes that are there, by name. */
  readonly claims: Claims;
  /** Of the claims that the guest starts with, those that a DataVolume fills. */
  readonly fillings: readonly ClaimFilling[];
  /** The same of claims that are plugged in. */
  readonly pluggedFillings: readonly ClaimFilling[];
  /** Its TPM and EFI variables, as far as they outlive it. */
  readonly keptState: KeptState;
  /** A VirtualMachine that owns it is in the cache. */
  readonly hasOwnerVm: boolean;
  /** In hertz, of the TSC of a guest that needs to be told one and is not yet; 0: no node tells one. */
  readonly tscFrequency: number | undefined;
  readonly config: ControllerConfig;
  readonly now: Date;
}

/**
 * Launcher pods that the API has of a VMI without a current one. `none`: it has none, or was not asked; `cached`: all of them are in
 * the cache, so the watch tells of their changes (temporary pods); `unseen`: the cache lacks one.
 */
export type OtherPods = 'none' | 'cached' | 'unseen';

/** Everything a decision about one VMI rests on. */
export interface PresentVmi extends VmiFacts, Observed {
  readonly kind: 'present';
  /** Foreign pods that no event reports yet. */
  readonly newForeignPods: readonly Pod[];
  /** Launcher pods of an earlier VMI of this name. */
  readonly orphans: readonly Pod[];
  readonly otherPods: OtherPods;
  /** Why the VMI cannot be started, as far as its form goes; in words for its user. */
  readonly problem: string | undefined;
}

/** No VMI of this name is in the cache. */
export interface AbsentVmi extends Observed {
  readonly kind: 'absent';
  /** Launcher pods of a VMI of this name that the API does not have any more either. */
  readonly orphans: readonly Pod[];
}

/** The API server did not answer what a decision depends on. */
export interface UnclearVmi extends Observed {
  readonly kind: 'unclear';
  readonly reason: string;
}

export type VmiObservation = PresentVmi | AbsentVmi | UnclearVmi;

/** What went wrong, in words for a condition. */
export interface SyncFailure {
  readonly reason: string;
  readonly message: string;
}
