/**
 * Owns: what the agent prepares inside a launcher's container before its guest starts: devices, disk images.
 * Must not know: VMI rules, the API server, launchers' calls.
 */
export { deviceOwnership } from './device-ownership.ts';
export { HostError } from './errors.ts';
export { hostDiskImages } from './host-disk-images.ts';
export { LauncherRoot, qemuId } from './launcher-root.ts';
export { unsupportedHostWork } from './unsupported-host-work.ts';
