/**
 * Owns: one actor per launcher of this node, by VMI UID: finding its socket without following links, one gRPC connection
 * (pinned to the process that listens), deadlines, error mapping, and the proof that it ended. Publishes each launcher's states.
 * Must not know: why it is called, who follows it, Kubernetes, ghost records, domain events.
 */
export { addressOf } from './actor.ts';
export type { LauncherSubscriber } from './actor-state.ts';
export { LauncherClients, type LauncherClientsOptions } from './clients.ts';
export { type CommandRequest, type CommandResponse, type CommandRpc, commands } from './commands.ts';
export { type ConnectionDeps, type OpenConnection, vmiRequest } from './connection.ts';
export { LauncherClientError, type LauncherClientErrorCode } from './errors.ts';
export type { LauncherHost } from './launcher-host.ts';
export type { Liveness } from './liveness.ts';
export { findOrphanedLaunchers, type OrphanedLauncher } from './orphaned.ts';
export type { Probe, ProbedSocket } from './probe.ts';
