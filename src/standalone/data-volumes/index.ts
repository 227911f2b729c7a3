/**
 * Owns: DataVolumes of the standalone node: what fills claims, how far it is, uploads and their tokens.
 * Must not know: how claims get their volumes (a port), pods but for whether they have a claim, VMs.
 */
export { DataVolumeController } from './data-volume-controller.ts';
export type { ClaimPlace, ClaimPlaces } from './ports.ts';
export { UploadProxy } from './upload-proxy.ts';
export { UploadTokenKey } from './upload-token.ts';
