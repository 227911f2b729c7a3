/**
 * Owns: what a disk image from anywhere is: fetched, unpacked, found out and converted by programs with few rights and limits.
 * Must not know: what becomes of it: images of the node, claims, Kubernetes.
 */
export * from './checksum.ts';
export { isNoSpace } from './confined.ts';
export { convert } from './convert.ts';
export { type Download, download, shownUrl } from './download.ts';
export { findDisk, maxVirtualBytes } from './inspect.ts';
export * from './work-directory.ts';
export type { WorkFile } from './work-file.ts';
