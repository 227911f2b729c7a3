/**
 * Owns: which cgroup a container's process is in, which block devices may be opened in it, and on which CPUs its threads run, with
 * cgroups of version 1 and 2.
 * Must not know: volumes, VMIs, why a device is allowed.
 */
export { setBlockDevices } from './block-devices.ts';
export type { BlockDevice, StandardRule } from './device-program.ts';
export { CgroupError } from './errors.ts';
export { cpusetCgroupOf, keepHouse } from './housekeeping.ts';
export { type CgroupOptions, type DeviceCgroup, deviceCgroupOf } from './places.ts';
