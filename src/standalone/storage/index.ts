/**
 * Owns: storage of the standalone node: claims, volumes, their classes and snapshots, what is decided about them, and their data on disk.
 * Must not know: pods but for whether they have a claim, launchers, programs of the node, what a guest does with its disk.
 */
export { awaitedBy } from './awaited.ts';
export { StorageCaches } from './caches.ts';
export { ensureStorageClasses } from './default-classes.ts';
export { boundHandle, driver } from './driver.ts';
export type { ClaimDeps } from './loop.ts';
export { LoopDevices } from './loop-devices.ts';
export { StorageController } from './storage-controller.ts';
export { VolumeFiles } from './volume-files.ts';
