/**
 * The disk of vhostmd, by which a guest reads figures of its host (https://github.com/vhostmd/vhostmd, man vhostmd "DISK LAYOUT"; in
 * KubeVirt pkg/downwardmetrics/vhostmd/disk.go): a header of four big-endian words, then XML.
 */

export const vhostmdDiskBytes = 262_144;
/** The guest's tools read no more than this of a body. */
const maxBodyBytes = vhostmdDiskBytes - 24;
const headerBytes = 16;

/** Below `/var/run` of a launcher. */
export const vhostmdDisk = { directory: 'kubevirt-private/downwardapi-disks', name: 'vhostmd0' } as const;
/** The channel's socket there, on which QEMU listens, and its name in the guest. */
export const vhostmdChannel = {
  directory: 'downwardmetrics-channel',
  socket: 'downwardmetrics.sock',
  port: 'org.github.vhostmd.1',
} as const;

/** One write. They are made in order, so that a guest that reads in between finds the disk locked. */
export interface DiskWrite {
  readonly at: number;
  readonly bytes: Uint8Array;
}

/** Throws RangeError for a body that does not fit. */
export function vhostmdWrites(xml: string): readonly DiskWrite[] {
  const body = Buffer.from(`${xml}\n`);
  if (body.length > maxBodyBytes) throw new RangeError(`figures of ${body.length} bytes do not fit on the disk`);
  const head = (isLocked: boolean): DiskWrite => ({ at: 0, bytes: header(body, isLocked) });
  return [head(true), { at: headerBytes, bytes: body }, head(false)];
}

function header(body: Buffer, isLocked: boolean): Buffer {
  const bytes = Buffer.alloc(headerBytes);
  bytes.write('mvbd', 'latin1');
  bytes.writeInt32BE(isLocked ? 1 : 0, 4);
  bytes.writeInt32BE(
    body.reduce((sum, byte) => sum + byte, 0),
    8,
  );
  bytes.writeInt32BE(body.length, 12);
  return bytes;
}
