/**
 * Owns: what is known about the domains of this node (present, gone, unknown, absent), the notify service and its pipe
 * per launcher, ghost records, list, resync and watchdog (spec 21). Identity comes from the connection, never from a body.
 * Must not know: Kubernetes, deciding; how launchers are dialled (`ports.ts`; LauncherClients of launcher-client fits,
 * with `register`, `attach` and `released` as its hooks).
 */
export { DomainCache, type DomainCacheDeps, type DomainCacheOptions } from './domain-cache.ts';
export type { DomainView, GoneProof } from './domain-store.ts';
export { DomainCacheError, type DomainCacheErrorCode } from './errors.ts';
export { type GhostRecord, GhostRecords } from './ghost-records.ts';
export { type ChannelLimits, channelLimits } from './notify-channel.ts';
export type { PipePlace } from './pipe.ts';
export type {
  LauncherEvent,
  LauncherLink,
  LauncherLinks,
  LauncherPlace,
  LauncherProcess,
  LauncherVerdict,
} from './ports.ts';
