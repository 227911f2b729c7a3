import type { IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import type { VirtualMachineInstance } from '../../../api/index.ts';
import type { StreamRequest } from '../../../console/index.ts';
import type { ProcessId } from '../../../host/index.ts';

/** Launchers for callers that wait for an answer; never through the VMI loop's queue. */
export interface LauncherActions {
  /**
   * The VMI's launcher, over the connection that the VMI loop has, too. Rejects with an error whose message is for the client;
   * `signal` is the client going away.
   */
  connect(vmi: VirtualMachineInstance, signal: AbortSignal): Promise<LauncherCommands>;
}

/**
 * Calls to one launcher, each with the deadline that upstream's client has for it (pkg/virt-handler/cmd-client/client.go). They reject with an error whose message is for the client; its code
 * TIMEOUT says that the deadline passed, so that the launcher may do it yet.
 */
export interface LauncherCommands {
  /** Who listens on the launcher's socket, in this pid namespace. */
  readonly process: ProcessId & { readonly uid: number };
  pause(signal: AbortSignal): Promise<void>;
  unpause(signal: AbortSignal): Promise<void>;
  reset(signal: AbortSignal): Promise<void>;
  softReboot(signal: AbortSignal): Promise<void>;
  /** `unfreezeAfterSeconds` 0: no unfreeze by itself. Repeatable: a frozen guest stays so and gets the new limit. */
  freeze(unfreezeAfterSeconds: number, signal: AbortSignal): Promise<void>;
  unfreeze(signal: AbortSignal): Promise<void>;
  backup(options: object, signal: AbortSignal): Promise<void>;
  injectLaunchSecret(secret: object, signal: AbortSignal): Promise<void>;
  /** `refused`: the launcher's word; a call that was not answered rejects. */
  redefineCheckpoint(checkpoint: object, signal: AbortSignal): Promise<CheckpointAnswer>;
  /** JSON texts as the launcher wrote them, empty ones included. */
  guestInfo(signal: AbortSignal): Promise<string>;
  users(signal: AbortSignal): Promise<string>;
  filesystems(signal: AbortSignal): Promise<string>;
  sevInfo(signal: AbortSignal): Promise<string>;
  launchMeasurement(signal: AbortSignal): Promise<string>;
  screenshot(signal: AbortSignal): Promise<{ readonly mime: string; readonly data: Buffer }>;
}

export type CheckpointAnswer =
  | { readonly kind: 'done' }
  | { readonly kind: 'refused'; readonly isCorrupt: boolean; readonly message: string };

/** Serves streams from their handshake on (src/console). */
export interface StreamSink {
  /** Answers by itself, whatever comes of it. */
  serve(request: IncomingMessage, socket: Duplex, head: Buffer, stream: StreamRequest): void;
}
