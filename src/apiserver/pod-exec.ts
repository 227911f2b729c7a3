import type { IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';

/** One command that a user wants to run in a container. */
export interface ExecWish {
  readonly uid: string;
  /** Of the pod. */
  readonly nodeName: string;
  readonly container: string;
  /** Program and arguments. */
  readonly command: readonly string[];
  /** Further variables of its environment, as the container has them. */
  readonly env: Readonly<Record<string, string>>;
  readonly stdin: boolean;
  readonly stdout: boolean;
  readonly stderr: boolean;
  readonly tty: boolean;
}

/** Who can run commands in containers. */
export interface PodExec {
  /** A websocket of `v5.channel.k8s.io` or `v4.channel.k8s.io`. Answers by itself, whatever comes of it. */
  serve(wish: ExecWish, request: IncomingMessage, socket: Duplex, head: Buffer): void;
}
