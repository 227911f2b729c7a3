import { jsonRecord, memberAt } from '../../base/index.ts';
import { NodeError } from '../errors.ts';
import { type Limits, runConfined } from './confined.ts';
import { type DiskKind, detect, refused } from './detect.ts';
import { unpack } from './unpack.ts';
import { imageError, type WorkFile } from './work-file.ts';

export interface DiskInfo {
  readonly kind: DiskKind;
  /** What a guest sees. */
  readonly virtualBytes: number;
}

/** QEMU's own measure of a large disk; more is a bomb, or a mistake. */
export const maxVirtualBytes = 64 * 2 ** 40;
const gib = 2 ** 30;
/** As CDI has them for this command: an image that needs more is made for that. */
const infoLimits: Limits = { memoryBytes: gib, cpuSeconds: 30, fileBytes: 0, timeoutMs: 60_000 };

/** What QEMU calls it. */
export function driverOf(kind: DiskKind): string {
  return kind === 'iso' ? 'raw' : kind;
}

/**
 * Unpacks the file as far as it is packed (once: who packs twice means harm) and finds out what disk it is. The work directory belongs
 * to the import user. Rejects with NodeError: DISK_REFUSED with what to do, NO_SPACE, TIMEOUT, PROGRAM_MISSING.
 */
export async function findDisk(
  file: WorkFile,
  limits: { readonly maxBytes: number },
  signal: AbortSignal,
): Promise<{ readonly file: WorkFile; readonly info: DiskInfo }> {
  const content = await detect(`${file.dir}/${file.name}`, file.what);
  if (content.packed === undefined) return { file, info: await inspect(file, content.kind, signal) };
  const unpacked = await unpack(file, content.packed, limits.maxBytes, signal);
  const inner = await detect(`${unpacked.dir}/${unpacked.name}`, unpacked.what);
  if (inner.packed !== undefined) throw refused(file.what, 'is packed twice: unpack it first');
  return { file: unpacked, info: await inspect(unpacked, inner.kind, signal) };
}

/** Of what kind it is, is known: nothing is left to QEMU to guess. */
async function inspect({ dir, name, what }: WorkFile, kind: DiskKind, signal: AbortSignal): Promise<DiskInfo> {
  const argv = ['qemu-img', 'info', '-f', driverOf(kind), '--output=json', name] as const;
  const text = await runConfined(argv, { dir, limits: infoLimits, signal }).catch((error: unknown) => {
    throw imageError(error, what, `is no ${kind} disk that QEMU can read`);
  });
  const info = jsonRecord(text);
  const virtualBytes = info?.['virtual-size'];
  if (typeof virtualBytes !== 'number') throw new NodeError('CHILD_FAILED', 'qemu-img info gave no size');
  const other = info?.['backing-filename'] ?? info?.['full-backing-filename'];
  if (other !== undefined) throw refused(what, 'has a backing file: flatten it with qemu-img convert');
  refuseOtherExtents(info, name, what);
  if (virtualBytes === 0) throw refused(what, 'has a size of 0 bytes');
  if (virtualBytes > maxVirtualBytes) {
    throw refused(what, `says that it is a disk of ${virtualBytes} bytes; at most ${maxVirtualBytes} are taken`);
  }
  return { kind, virtualBytes };
}

/** Of a VMDK, whose descriptor may name files. */
function refuseOtherExtents(info: unknown, name: string, what: string): void {
  const extents = memberAt(info, 'format-specific', 'data', 'extents');
  if (!Array.isArray(extents)) return;
  if (extents.every((extent) => memberAt(extent, 'filename') === name)) return;
  throw refused(what, 'is a VMDK whose data is in other files: convert it first (qemu-img convert -O qcow2)');
}
