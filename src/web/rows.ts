import type { Condition } from '../api/index.ts';

/** One line of the list: a VirtualMachine, its VirtualMachineInstance, or both. */
export interface VmRow {
  readonly namespace: string;
  readonly name: string;
  /** `printableStatus` of the VM, or the phase of the VMI. */
  readonly status: string;
  /** Absent: it does not run. */
  readonly vmi?: {
    readonly uid: string;
    readonly phase: string;
    readonly paused: boolean;
    readonly ip?: string;
    readonly guestOs?: string;
  };
  /** Of the VMI, else of the VM. */
  readonly conditions: readonly Condition[];
  /** Absent: a VMI without a VM, which cannot be started again. */
  readonly runStrategy?: string;
  /** RFC 3339 */
  readonly createdAt: string;
}

/** First event of `/api/vms/events`, named `vms`, and answer of `/api/vms`. */
export interface VmList {
  readonly node: string;
  /** The page may start and stop VMs. */
  readonly actions: boolean;
  /** Why the rows may be old, for people. */
  readonly problem?: string;
  readonly rows: readonly VmRow[];
}

/** Event `change`: what is new since the event before. */
export interface VmChange {
  readonly problem?: string;
  readonly rows: readonly VmRow[];
  /** Keys (`namespace/name`) of rows that are no more. */
  readonly gone: readonly string[];
}
