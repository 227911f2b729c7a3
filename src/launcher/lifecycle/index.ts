/**
 * Owns: the life of the launcher and its domain, from the first sync to the last report: the phase, starting and ending the domain, what
 * libvirt's events mean for it, the facts that survive a restart of the launcher.
 * Must not know: gRPC, sockets, how libvirt is reached, who calls.
 */
export { DomainEvents } from './domain-events.ts';
export { DomainLock } from './domain-lock.ts';
export { DomainReader } from './domain-reader.ts';
export { awaitFinalNotice, finalNoticeLimits } from './final-notice.ts';
export { GracePeriod } from './grace.ts';
export { HypervisorChoice } from './hypervisor-choice.ts';
export { LauncherLife } from './life.ts';
export { MetadataCache } from './metadata.ts';
export {
  isTerminating,
  noDomainInTime,
  qemuEnded,
  qemuStarted,
  reported,
  serving,
  terminationRequested,
} from './phase.ts';
export { PowerControl } from './power.ts';
export { type DomainHooks, findSriovDevices, prepareDomain } from './prepare-domain.ts';
export { QemuWatch } from './qemu-watch.ts';
export { hasRun, pausedOnPurpose } from './run-record.ts';
export { type SyncDeps, VmiSync } from './sync.ts';
