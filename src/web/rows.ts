import type { Condition } from '../api/index.ts';
import type { MigrationFigures } from './migration-text.ts';

/** A move of a VM from one node to another. */
export type MoveRow =
  | {
      readonly kind: 'under-way';
      /** Of the VirtualMachineInstanceMigration. */
      readonly phase: string;
      readonly from?: string;
      readonly to?: string;
      readonly isCancelled: boolean;
      /** Why it does not go on: no node takes it, it waits for others. */
      readonly waitsFor?: string;
      /** From the agent; absent before something has moved. */
      readonly progress?: MigrationFigures;
    }
  | {
      readonly kind: 'arrived';
      readonly from?: string;
      readonly to?: string;
      readonly at: string;
      readonly tookMs?: number;
    }
  /** The guest stays where it was. */
  | { readonly kind: 'failed'; readonly to?: string; readonly at: string; readonly reason: string };

/** A node that VMs can be on. */
export interface NodeRow {
  readonly name: string;
  /** Takes no new VMs, as a person wanted. */
  readonly isCordoned: boolean;
  readonly agent: 'ready' | 'not-ready' | 'away';
  /** Of the agent: why it is not ready. */
  readonly reason?: string;
}

/** What a VM can boot from, as this node keeps it. */
export interface ImageRow {
  /** What a `containerDisk` names. */
  readonly reference: string;
  /** `disk`: a disk or an ISO; `kernel`: a kernel and its RAM disk, `/boot/vmlinuz` and `/boot/initramfs.gz`. */
  readonly boots: 'disk' | 'kernel' | 'nothing';
  /** Bytes that its files take. */
  readonly sizeBytes: number;
  /** `raw`, `qcow2` and so on; absent: nobody has looked. */
  readonly format?: string;
}

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
    /** Where the guest is. Absent: nowhere yet. */
    readonly node?: string;
    readonly ip?: string;
    readonly guestOs?: string;
  };
  /** The newest one of this instance. */
  readonly move?: MoveRow;
  /** Of the VMI, else of the VM. */
  readonly conditions: readonly Condition[];
  /** Absent: a VMI without a VM, which cannot be started again. */
  readonly runStrategy?: string;
  /** What made it, and makes another one in its place: a VirtualMachinePool, a VirtualMachineInstanceReplicaSet. */
  readonly owner?: { readonly kind: string; readonly name: string };
  /** What gives it CPUs, memory and devices. */
  readonly instancetype?: NamedType;
  readonly preference?: NamedType;
  /** RFC 3339 */
  readonly createdAt: string;
  /** Of the instance, else of the template; absent: an instance type says it, and it has not been started. */
  readonly cpus?: number;
  readonly memoryBytes?: number;
}

/** An instance type or a preference, as a VM names it. */
export interface NamedType {
  readonly name: string;
  /** Else it is of the VM's namespace. */
  readonly isCluster: boolean;
}

/** First event of `/api/vms/events`, named `vms`, and answer of `/api/vms`. */
export interface VmList {
  readonly node: string;
  /** The page may start and stop VMs. */
  readonly actions: boolean;
  /** The page may ask the Kubernetes API. */
  readonly kube?: true;
  /** There is a place for images. */
  readonly images?: true;
  /** There are figures of guests. */
  readonly figures?: true;
  /** It is known how guests came to run. */
  readonly timeline?: true;
  /** Nothing may be changed by who looks. */
  readonly lookOnly?: boolean;
  /** What does not work although the rows are as they are now, for people: the agent is away. */
  readonly notice?: string;
  /** Absent: there is only the one. */
  readonly nodes?: readonly NodeRow[];
  /** Why the rows may be old, for people. */
  readonly problem?: string;
  readonly rows: readonly VmRow[];
}

/** Event `change`: what is new since the event before. */
export interface VmChange {
  /** All of them, when one has changed. */
  readonly nodes?: readonly NodeRow[];
  readonly problem?: string;
  readonly notice?: string;
  readonly rows: readonly VmRow[];
  /** Keys (`namespace/name`) of rows that are no more. */
  readonly gone: readonly string[];
}
