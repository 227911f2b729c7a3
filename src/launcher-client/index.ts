/**
 * Owns: finding a launcher's socket without following links, one gRPC connection per VMI UID (pinned to the process that
 * listens), deadlines, error mapping (spec 20), and the proof that a launcher ended.
 * Must not know: why it is called, Kubernetes, ghost records, domain events.
 */

export type {
  LauncherClientsDeps,
  LauncherClientsOptions,
  LauncherHooks,
  LauncherState,
} from './clients.ts';
export { LauncherClients } from './clients.ts';
export { type Command, type CommandRequest, type CommandResponse, type CommandRpc, commands } from './commands.ts';
export { type ConnectionLimits, type ConnectionTarget, LauncherConnection, vmiRequest } from './connection.ts';
export { LauncherError, type LauncherErrorCode } from './errors.ts';
export type { LauncherTarget } from './sockets.ts';
export type { KnownLauncher, Verdict } from './verdict.ts';
