/**
 * Owns: the disks of a domain that runs: what has to be plugged in and out, media of CD-ROM drives, growth of claims; SR-IOV devices that it
 * lost on its way here.
 * Must not know: how a domain is started, the command server, the agent.
 */
export { DiskSync, type DiskSyncDeps } from './disk-sync.ts';
export { HostDevicePlug, type HostDevicePlugDeps } from './host-devices.ts';
