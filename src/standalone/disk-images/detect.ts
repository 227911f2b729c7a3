import { constants } from 'node:fs';
import { open } from 'node:fs/promises';
import { NodeError } from '../errors.ts';

/** What a disk may come as; `iso` and `raw` are the same bytes to QEMU. */
export type DiskKind = 'raw' | 'iso' | 'qcow2' | 'vmdk' | 'vdi' | 'vhdx' | 'vpc';

export type Packing = 'gzip' | 'xz';

export type Content = { readonly packed: Packing } | { readonly packed?: undefined; readonly kind: DiskKind };

const beginBytes = 512;
const isoOffset = 0x8001;

type Magic = readonly [offset: number, bytes: Buffer];

const packings: readonly (readonly [Packing, Magic])[] = [
  ['gzip', [0, Buffer.from([0x1f, 0x8b, 0x08])]],
  ['xz', [0, Buffer.from([0xfd, 0x37, 0x7a, 0x58, 0x5a, 0x00])]],
];

const kinds: readonly (readonly [DiskKind, Magic])[] = [
  ['qcow2', [0, Buffer.from('QFI\xfb', 'latin1')]],
  ['vmdk', [0, Buffer.from('KDMV')]],
  ['vdi', [64, Buffer.from([0x7f, 0x10, 0xda, 0xbe])]],
  ['vhdx', [0, Buffer.from('vhdxfile')]],
  ['vpc', [0, Buffer.from('conectix')]],
];

/** What people do with a disk, and QEMU or this node does not. */
const refusals: readonly (readonly [Magic, string])[] = [
  [
    [0, Buffer.from([0x28, 0xb5, 0x2f, 0xfd])],
    'is packed by zstd: unpack it first (zstd -d), or pack it by xz or gzip',
  ],
  [[0, Buffer.from('BZh')], 'is packed by bzip2: unpack it first (bunzip2)'],
  [[0, Buffer.from('PK\x03\x04')], 'is a zip archive: unpack it first (unzip), and give the disk in it'],
  [[0, Buffer.from('7z\xbc\xaf\x27\x1c', 'latin1')], 'is a 7z archive: unpack it first, and give the disk in it'],
  [
    [257, Buffer.from('ustar')],
    'is a tar archive (an OVA or a saved container image is one, too): unpack it first, and give the disk in it',
  ],
  [
    [0, Buffer.from('# Disk DescriptorFile')],
    'is a VMDK whose data is in other files: convert it first (qemu-img convert -O qcow2)',
  ],
  [[0, Buffer.from('COWD')], 'is a VMDK of ESXi of an old form: convert it first (qemu-img convert -O qcow2)'],
  [[0, Buffer.from('QED\0')], 'is a QED disk: convert it first (qemu-img convert -O qcow2)'],
  [[0, Buffer.from('LUKS\xba\xbe', 'latin1')], 'is encrypted by LUKS: decrypt it first (qemu-img convert)'],
  [[0, Buffer.from('<!DOCTYPE')], 'is a web page and no disk: is the address that of the file itself?'],
  [[0, Buffer.from('<html')], 'is a web page and no disk: is the address that of the file itself?'],
];

/**
 * What a file is, by its first bytes: its name says nothing, and a tool that guesses opens what the file names. Throws NodeError
 * DISK_REFUSED for what is known to be no disk that a VM can have, in words about `what`.
 */
export async function detect(file: string, what: string): Promise<Content> {
  const handle = await open(file, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  try {
    const begin = Buffer.alloc(beginBytes);
    const { bytesRead } = await handle.read(begin, 0, beginBytes, 0);
    if (bytesRead === 0) throw refused(what, 'is empty');
    const [, problem] = refusals.find(([magic]) => has(begin, magic)) ?? [];
    if (problem) throw refused(what, problem);
    const [packed] = packings.find(([, magic]) => has(begin, magic)) ?? [];
    if (packed) return { packed };
    const [kind] = kinds.find(([, magic]) => has(begin, magic)) ?? [];
    if (kind === 'qcow2') refuseQcow2References(begin, what);
    if (kind === 'vmdk') refuseVmdkDescriptor(begin, what);
    if (kind) return { kind };
    const volume = Buffer.alloc(5);
    await handle.read(volume, 0, volume.length, isoOffset);
    return { kind: volume.equals(Buffer.from('CD001')) ? 'iso' : 'raw' };
  } finally {
    await handle.close();
  }
}

function has(begin: Buffer, [offset, bytes]: Magic): boolean {
  return begin.subarray(offset, offset + bytes.length).equals(bytes);
}

/** Before any tool opens it (docs/interop/qcow2.txt of QEMU). */
function refuseQcow2References(header: Buffer, what: string): void {
  const flatten = 'flatten it with qemu-img convert';
  if (header.readBigUInt64BE(8) !== 0n) throw refused(what, `has a backing file: ${flatten}`);
  if (header.readUInt32BE(32) !== 0) throw refused(what, `is encrypted: decrypt it with qemu-img convert`);
  const hasDataFile = header.readUInt32BE(4) >= 3 && (header.readBigUInt64BE(72) & 4n) !== 0n;
  if (hasDataFile) throw refused(what, `keeps its data in another file: ${flatten}`);
}

/** Without a capacity a descriptor within the file says what else is opened. */
function refuseVmdkDescriptor(header: Buffer, what: string): void {
  if (header.readBigUInt64LE(12) === 0n) {
    throw refused(what, 'is a VMDK whose data is in other files: convert it first (qemu-img convert -O qcow2)');
  }
}

export function refused(what: string, problem: string, cause?: unknown): NodeError {
  return new NodeError('DISK_REFUSED', `${what} ${problem}`, { cause });
}
