import type { explainApiVersion } from './explain.ts';

/**
 * What a guest uses, as its launcher reports it at this moment; served beside the explanations at `/figures/<namespace>/<name>`. Totals
 * count since the guest began, and begin anew with another one.
 */
export interface GuestFigures {
  readonly apiVersion: typeof explainApiVersion;
  readonly kind: 'Figures';
  readonly node: string;
  /** RFC 3339 */
  readonly at: string;
  /** Of the VMI: totals of another one are of another guest. */
  readonly uid: string;
  /** CPU time, hypervisor included. */
  readonly cpuSeconds: number;
  /** Virtual CPUs that are online. */
  readonly vcpus: number;
  readonly memory: {
    /** That the guest has. */
    readonly totalBytes: number;
    /** That it uses, as its balloon tells; absent: it tells nothing. */
    readonly usedBytes?: number;
    /** That the process of the guest takes from the node. */
    readonly residentBytes?: number;
  };
  readonly disks: readonly { readonly name: string; readonly readBytes: number; readonly writtenBytes: number }[];
  readonly interfaces: readonly {
    readonly name: string;
    readonly receivedBytes: number;
    readonly sentBytes: number;
  }[];
}
