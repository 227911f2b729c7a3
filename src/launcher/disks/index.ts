/**
 * Owns: the files behind a VMI's disks: images found and checked, overlays, empty disks, cloud-init and other CD images,
 * kernel boot files. Every path below an image or a pod volume is hostile.
 * Must not know: libvirt, domain XML, the command server.
 */
export type { CloudInitData, DiskEnv } from './env.ts';
export { DiskError } from './errors.ts';
export { chownToQemu } from './image.ts';
export { findPluggedDisks, prepareDisks } from './prepare.ts';
export { forgetChanges, noteGuestEnded, trackedImage } from './tracking.ts';
