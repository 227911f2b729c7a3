/**
 * Owns: finding a launcher's socket without following links, one gRPC connection per VMI UID (pinned to the process that
 * listens), deadlines, error mapping (spec 20), and the proof that a launcher ended.
 * Must not know: why it is called, Kubernetes, ghost records, domain events.
 */
export { LauncherClients, type LauncherClientsOptions } from './clients.ts';
export { type CommandRequest, type CommandResponse, type CommandRpc, commands } from './commands.ts';
export { type ConnectionDeps, type ConnectionTarget, type OpenConnection, vmiRequest } from './connection.ts';
export { LauncherError, type LauncherErrorCode } from './errors.ts';
export type { LauncherHost, Meeting } from './launcher-host.ts';
export type { Sighting } from './sightings.ts';
export type { LauncherTarget } from './sockets.ts';
export { findStrangers, type StrangeLauncher } from './strangers.ts';
