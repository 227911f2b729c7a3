import type { VirtualMachine, VirtualMachineInstance, VolumeSnapshotStatus } from '../../api/index.ts';
import type { ControllerConfig, ReferencePolicy } from '../../cluster-config/index.ts';
import type { Observed } from '../../reconcile/index.ts';
import type { Referred } from '../instancetypes/index.ts';
import type { SyncedKeys } from '../synced-metadata.ts';
import type { DisksState, TemplateFact } from './data-volume-facts.ts';
import type { LiveChange } from './live-change.ts';

/** A VM and its VMI; plain data. What is stored about the VM follows from it, see status.ts. */
export interface VmFacts {
  readonly vm: VirtualMachine;
  /** The VMI of this VM; one of the same name that belongs to another is not seen. */
  readonly vmi: VirtualMachineInstance | undefined;
  /** A VMI was created that the cache does not show yet. */
  readonly creationExpected: boolean;
  /** A VMI was deleted that the cache still shows as before. */
  readonly deletionExpected: boolean;
  /** What follows from what the template wants changed of the guest that runs. */
  readonly changes: readonly LiveChange[];
  /** Another field of the template is not as at the VMI's start, and needs a restart; undefined: that is not known. */
  readonly isChanged: boolean | undefined;
  /** How far the DataVolumes are that its volumes are on. */
  readonly disks: DisksState;
  /** Which of its volumes a snapshot would have; undefined: that is not known yet. */
  readonly volumeStatuses: readonly VolumeSnapshotStatus[] | undefined;
  /** Which VMs have changed blocks recorded. */
  readonly changeTracking: ControllerConfig['changeTracking'];
  readonly now: Date;
}

export interface PresentVm extends VmFacts, Observed {
  readonly kind: 'present';
  /** A VMI of the VM's name that nothing owns. */
  readonly adoptable: VirtualMachineInstance | undefined;
  /** Its instance type and preference. */
  readonly referred: Referred;
  /** How VMs go on that refer to some: with revisions of them, or with all of it in their own templates. */
  readonly referencePolicy: ReferencePolicy;
  /** Annotations and labels of its template that its VMI gets also later. */
  readonly synced: SyncedKeys;
  /** Its templates of DataVolumes. */
  readonly dataVolumes: readonly TemplateFact[];
  /** The cluster lets volumes of a template be plugged into a running VMI. */
  readonly plugsVolumes: boolean;
  /** Why no guest of another VMI object comes to it, in words. */
  readonly noReceiving: string | undefined;
}

/** There is no such VM. */
export interface AbsentVm extends Observed {
  readonly kind: 'absent';
}

/** The API server did not answer what a decision depends on. */
export interface UnclearVm extends Observed {
  readonly kind: 'unclear';
  readonly reason: string;
}

export type VmObservation = PresentVm | AbsentVm | UnclearVm;

/** What went wrong, in words for the condition `Failure`. */
export interface VmFailure {
  readonly reason: string;
  readonly message: string;
}

export type VmStatus = NonNullable<VirtualMachine['status']>;
