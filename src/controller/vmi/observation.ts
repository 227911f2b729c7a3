import type { Pod, VirtualMachineInstance } from '../../api/index.ts';
import type { ControllerConfig } from '../../cluster-config/index.ts';

/** Everything a decision about one VMI rests on; plain data. */
export interface VmiObservation {
  readonly vmi: VirtualMachineInstance;
  /** All launcher pods of this VMI, finished and temporary ones too. */
  readonly pods: readonly Pod[];
  /** Pods that say they are its launchers: nothing of what they tell is believed. */
  readonly strangers: readonly Pod[];
  /** The one that runs or will run the guest. */
  readonly pod: Pod | undefined;
  /** A VirtualMachine that owns it is in the cache. */
  readonly hasOwnerVm: boolean;
  readonly config: ControllerConfig;
  readonly now: Date;
}

/** What went wrong in a step, in words for a condition. */
export interface SyncFailure {
  readonly reason: string;
  readonly message: string;
}
