/**
 * Owns: the connection that a launcher makes to the exporter of a backup in mode Pull, and what it answers there of the disks that QEMU serves.
 * Must not know: how a backup begins and ends, who reads it.
 */
export { BackupTunnel } from './tunnel.ts';
