import type { IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';

/** Which object; both names are Kubernetes names that the server has found. */
export interface VmTarget {
  readonly namespace: string;
  readonly name: string;
}

export interface AgentReply {
  readonly httpStatus: number;
  readonly contentType: string;
  readonly body: Buffer;
}

export type PowerAction = 'start' | 'stop' | 'restart';

/** What became of it; `message` is for the user. */
export type PowerOutcome =
  | { readonly kind: 'done' }
  | { readonly kind: 'refused'; readonly why: 'not-found' | 'conflict'; readonly message: string };

/** Where the ports of a pod's guest are. */
export type GuestReach =
  /** IPv4 or IPv6; of the launcher's pod, never what the guest says of itself. */
  | { readonly kind: 'address'; readonly address: string }
  /** With QEMU's user networking: the launcher joins its callers to them. */
  | { readonly kind: 'launcher'; readonly nodeName: string; readonly podUid: string; readonly vmiUid: string };

/** A port of a guest. */
export interface GuestPort {
  readonly reach: GuestReach;
  /** 1 to 65535. */
  readonly port: number;
  readonly protocol: 'tcp' | 'udp';
}

/** What group `subresources.kubevirt.io` needs besides objects: virt-api's other side. */
export interface VmSubresources {
  /** One request to the agent's interface (`pkg/virt-handler/rest`). Rejects with an error for people when it cannot be asked. */
  call(method: 'GET' | 'PUT', path: string, body: string, signal: AbortSignal): Promise<AgentReply>;
  /** A websocket to the agent; `request.url` is the path there. Answers by itself, whatever comes of it. */
  upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void;
  /** A websocket whose bytes (of UDP: whose messages) are those of a port. Answers by itself, whatever comes of it. */
  forward(to: GuestPort, request: IncomingMessage, socket: Duplex, head: Buffer): void;
  power(action: PowerAction, target: VmTarget, isPaused: boolean, signal: AbortSignal): Promise<PowerOutcome>;
}

/** Streams to pods: a kubelet's other side. */
export interface PodStreams {
  /** Ports of a pod, as `kubectl port-forward` asks for them. Answers by itself, whatever comes of it. */
  forwardPorts(reach: GuestReach, request: IncomingMessage, socket: Duplex, head: Buffer): void;
}
