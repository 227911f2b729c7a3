import type { VirtualMachine, VirtualMachineInstance } from '../../api/index.ts';

/** What one pass of the VM controller knows about a VM. */
export interface VmObservation {
  readonly vm: VirtualMachine;
  /** The VMI of this VM; one of the same name that belongs to another is not seen. */
  readonly vmi: VirtualMachineInstance | undefined;
  /** A VMI was created that the cache does not show yet. */
  readonly creationExpected: boolean;
  /** A VMI was deleted that the cache still shows as before. */
  readonly deletionExpected: boolean;
  readonly failure: { readonly reason: string; readonly message: string } | undefined;
  readonly now: Date;
}

export type VmStatus = NonNullable<VirtualMachine['status']>;
