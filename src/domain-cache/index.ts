/**
 * Owns: what is known about the domains of this node (present, gone, unknown, absent), the notify service and its pipe
 * per launcher, ghost records, list, resync and watchdog (spec 21). Identity comes from the connection, never from a body.
 * Must not know: Kubernetes, deciding; how launchers are dialled (`ports.ts`; LauncherClients of launcher-client fits,
 * with `register`, `attach` and `released` as its hooks).
 */
export { DomainCache, type DomainCacheOptions } from './domain-cache.ts';
export { DomainCacheError } from './errors.ts';
export { GhostRecords } from './ghost-records.ts';
export type { NotifyDoor, NotifyDoors } from './notify-doors.ts';
export { channelLimits, type NotifyIntake } from './notify-intake.ts';
export type { LauncherEvent } from './ports.ts';
export type { RecordFiles } from './record-files.ts';
