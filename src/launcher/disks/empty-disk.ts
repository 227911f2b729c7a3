import path from 'node:path';
import { parseQuantity, type Volume } from '../../api/index.ts';
import type { ResolvedDisk } from '../domain/index.ts';
import type { DiskEnv } from './env.ts';
import { DiskError } from './errors.ts';
import { ensureEmptyImage } from './image.ts';

const mebibyte = 2 ** 20;

/** A fresh disk that lives as long as the pod (spec 72 §6). */
export async function prepareEmptyDisk(volume: Volume, env: DiskEnv): Promise<ResolvedDisk> {
  const capacity = volume.emptyDisk?.capacity;
  const sizeBytes = Math.floor((parseQuantity(capacity) ?? 0) / mebibyte) * mebibyte;
  if (sizeBytes <= 0 || !Number.isSafeInteger(sizeBytes)) {
    throw new DiskError(
      'INVALID_FIELD',
      `spec.volumes[${volume.name}].emptyDisk.capacity: ${JSON.stringify(capacity)} is not a size of at least 1Mi`,
    );
  }
  const file = path.join(env.paths.emptyDiskDir, `${volume.name}.qcow2`);
  await ensureEmptyImage(file, sizeBytes, env);
  return { path: file, format: 'qcow2', isBlock: false };
}
