import { type PersistentVolume, type PersistentVolumeClaim, parseQuantity } from '../../api/index.ts';

const mebibyte = 2 ** 20;

/** What the claim is to have, in whole mebibytes; 0 for what is no size. */
export function wantedBytes({ spec }: PersistentVolumeClaim): number {
  return Math.ceil((parseQuantity(spec.resources?.requests?.storage) ?? 0) / mebibyte) * mebibyte;
}

export function bytesOf({ spec }: PersistentVolume): number {
  return parseQuantity(spec.capacity?.storage) ?? 0;
}
