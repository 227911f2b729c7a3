/**
 * Owns: mounting in the machine's mount namespace, from any other one, without a process of its own.
 * Must not know: what is mounted and why, records of it.
 */
export { type HostMounts, KernelMounts } from './host-mounts.ts';
