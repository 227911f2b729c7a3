import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';
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

/** The node's VMs as they are now. */
export interface VmFeed {
  rows(): readonly VmRow[];
  /** Called after changes; the returned function ends it. */
  onChange(listener: () => void): () => void;
}

/** Reject with an error whose message is for the user. */
export interface VmActions {
  start(namespace: string, name: string, signal: AbortSignal): Promise<void>;
  stop(namespace: string, name: string, signal: AbortSignal): Promise<void>;
}

/** The agent's interface of spec 30 §3 below `/v1/namespaces/…`, in this process or passed on to another. */
export interface VmApi {
  handle(request: IncomingMessage, response: ServerResponse): void;
  upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void;
}

export interface WebBackend {
  readonly nodeName: string;
  readonly vms: VmFeed;
  /** Absent: who serves the page may not start or stop VMs, and the page does not offer it. */
  readonly actions?: VmActions;
  readonly api: VmApi;
  /** Answers `/why`, `/why/<namespace>/<name>` and `/state` (src/api/why.ts). Rejects when the agent cannot be asked. */
  why(target: string, signal: AbortSignal): Promise<{ readonly httpStatus: number; readonly body: unknown }>;
}
