/**
 * Owns: what is known about the domains of this node (present, gone, unknown, absent), the notify service and its pipe
 * per launcher, ghost records, list, resync and watchdog. Identity comes from the connection, never from a body. Follows what
 * LauncherClients of src/launcher-client publishes; that folder does not know this one.
 * Must not know: Kubernetes, deciding; how launchers are found and dialled.
 */
export { DomainCache, type DomainCacheOptions } from './domain-cache.ts';
export { DomainCacheError } from './errors.ts';
export type { Launchers } from './follower.ts';
export { GhostRecords } from './ghost-records.ts';
export { channelLimits, type NotifyIntake } from './notify-intake.ts';
export type { NotifyListener, NotifyListeners } from './notify-listeners.ts';
