/**
 * Owns: which cgroup a container's process is in, and which block devices may be opened in it, with cgroups of version 1 and 2.
 * Must not know: volumes, VMIs, why a device is allowed.
 */
export { setBlockDevices } from './block-devices.ts';
export type { BlockDevice, StandardRule } from './device-program.ts';
export { CgroupError } from './errors.ts';
export { type DeviceCgroup, deviceCgroupOf } from './places.ts';
