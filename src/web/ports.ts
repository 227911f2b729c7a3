import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Duplex, Readable } from 'node:stream';
import type { ImageRow, NodeRow, VmRow } from './rows.ts';

/** The node's VMs as they are now. */
export interface VmFeed {
  rows(): readonly VmRow[];
  /** Called after changes of the rows or of the problem; the returned function ends it. */
  onChange(listener: () => void): () => void;
  /** Why the rows may be old, for people ("the Kubernetes API does not answer"). Undefined: they are as they are now. */
  problem?(): string | undefined;
}

/** Reject with an error whose message is for the user. */
export interface VmActions {
  start(namespace: string, name: string, signal: AbortSignal): Promise<void>;
  stop(namespace: string, name: string, signal: AbortSignal): Promise<void>;
  restart(namespace: string, name: string, signal: AbortSignal): Promise<void>;
}

export interface KubeRequest {
  readonly method: string;
  /** With its query. */
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string;
  readonly signal: AbortSignal;
}

export interface KubeAnswer {
  readonly httpStatus: number;
  readonly contentType: string;
  readonly text: string;
}

/** The Kubernetes API, with the rights of who serves the page. */
export interface KubePassage {
  /** Rejects when there is no answer. */
  pass(request: KubeRequest): Promise<KubeAnswer>;
}

/** What VMs boot from. Both reject with an error whose message is for the user. */
export interface WebImages {
  list(): Promise<readonly ImageRow[]>;
  /** Reads all of `content`, a disk image, which is there under this reference afterwards, or not at all. */
  upload(reference: string, content: Readable, signal: AbortSignal): Promise<ImageRow>;
}

/** Several nodes that VMs move between. The actions reject with an error whose message is for the user. */
export interface WebNodes {
  /** Changes are those of the VMs' feed. */
  rows(): readonly NodeRow[];
  /** `node`: undefined leaves the choice to the scheduler. */
  move(namespace: string, name: string, node: string | undefined, signal: AbortSignal): Promise<void>;
  cancelMove(namespace: string, name: string, signal: AbortSignal): Promise<void>;
  cordon(node: string, isCordoned: boolean, signal: AbortSignal): Promise<void>;
  /** Cordons it, and moves its VMs to other nodes; gives how many are on their way. Rejects when one of them cannot move. */
  empty(node: string, signal: AbortSignal): Promise<number>;
  /** `why` of the backend, of this node's agent. Rejects when it cannot be asked. */
  explain(node: string, target: string, signal: AbortSignal): Promise<ExplainAnswer>;
}

export interface ExplainAnswer {
  readonly httpStatus: number;
  readonly body: unknown;
}

/** The agent's interface below `/v1/namespaces/…` (in upstream: pkg/virt-handler/rest), in this process or passed on to another. */
export interface VmApi {
  handle(request: IncomingMessage, response: ServerResponse): void;
  upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void;
}

export interface WebBackend {
  readonly nodeName: string;
  readonly vms: VmFeed;
  /** Absent: who serves the page may not start or stop VMs, and the page does not offer it. */
  readonly actions?: VmActions;
  /** Absent: who serves the page has one node. */
  readonly nodes?: WebNodes;
  readonly api: VmApi;
  /** Answers `/why`, `/why/<namespace>/<name>` and `/state` (src/api/explain.ts). Rejects when the agent cannot be asked. */
  why(target: string, signal: AbortSignal): Promise<ExplainAnswer>;
  /** Why a VM that no agent knows is on no node (`WaitingReport`). Absent: nobody here knows. Rejects when the API cannot be asked. */
  waiting?(namespace: string, name: string, signal: AbortSignal): Promise<ExplainAnswer>;
  /** How a VM came to run (`TimelineReport`). Absent: nobody here knows. Rejects when the API cannot be asked. */
  timeline?(namespace: string, name: string, signal: AbortSignal): Promise<ExplainAnswer>;
  /** Absent: the page shows objects, and makes and changes none. */
  readonly kube?: KubePassage;
  /** Absent: who serves the page keeps no images. */
  readonly images?: WebImages;
  /** Figures of a guest as they are now (src/api/figures.ts). Absent: there are none. Rejects when the agent cannot be asked. */
  figures?(namespace: string, name: string, signal: AbortSignal): Promise<ExplainAnswer>;
}
