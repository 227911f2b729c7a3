import { constants } from 'node:fs';
import { open } from 'node:fs/promises';
import { externalDataFileBit, qcow2Magic } from './image.ts';

/** The header with all its extensions is in the first cluster, which qemu-img makes this large. */
const clusterBytes = 65_536;
const headerBytes = 104;
const rawDataFileBit = 2n;
const dataFileExtension = 0x44415441;

/**
 * Whether a qcow2 file has no backing file and keeps its data in this raw file, and nothing else that its header could ask for. Nothing that
 * it names is opened, which every tool of QEMU would do.
 */
export async function keepsDataIn(record: string, image: string): Promise<boolean> {
  const handle = await open(record, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  try {
    const header = Buffer.alloc(clusterBytes);
    const { bytesRead } = await handle.read(header, 0, clusterBytes, 0);
    return bytesRead >= headerBytes && isRecordOf(header.subarray(0, bytesRead), image);
  } finally {
    await handle.close();
  }
}

function isRecordOf(header: Buffer, image: string): boolean {
  if (header.readUInt32BE(0) !== qcow2Magic || header.readUInt32BE(4) !== 3) return false;
  if (header.readBigUInt64BE(8) !== 0n) return false;
  if (header.readBigUInt64BE(72) !== externalDataFileBit) return false;
  if ((header.readBigUInt64BE(88) & rawDataFileBit) === 0n) return false;
  const [name, ...others] = dataFileNames(header);
  return others.length === 0 && name?.equals(Buffer.from(image)) === true;
}

/** Type and length are before each extension, which fills up to eight bytes; the type 0 ends them. */
function dataFileNames(header: Buffer): Buffer[] {
  const names: Buffer[] = [];
  let at = header.readUInt32BE(100);
  while (at + 8 <= header.length) {
    const type = header.readUInt32BE(at);
    const length = header.readUInt32BE(at + 4);
    if (type === 0) break;
    if (type === dataFileExtension) names.push(header.subarray(at + 8, at + 8 + length));
    at += 8 + Math.ceil(length / 8) * 8;
  }
  return names;
}
