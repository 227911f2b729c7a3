import { execFile } from 'node:child_process';
import { open } from 'node:fs/promises';
import { promisify } from 'node:util';
import { errorCode, errorMessage, jsonRecord } from '../../base/index.ts';
import { NodeError } from '../errors.ts';

const run = promisify(execFile);
const headerBytes = 80;
const qcow2Magic = 0x514649fb;
const externalDataFileBit = 4n;
const limits = ['--as=2097152000', '--cpu=10', '--core=0', '--'];
const timeoutMs = 30_000;

/** How files begin that are no disk that a guest gets as it is. */
const others: readonly (readonly [what: string, offset: number, magic: Buffer])[] = [
  ['a vmdk image', 0, Buffer.from('KDMV')],
  ['a vmdk image', 0, Buffer.from('COWD')],
  ['a vmdk image', 0, Buffer.from('# Disk DescriptorFile')],
  ['a vdi image', 64, Buffer.from([0x7f, 0x10, 0xda, 0xbe])],
  ['a vhdx image', 0, Buffer.from('vhdxfile')],
  ['a vpc image', 0, Buffer.from('conectix')],
  ['a qed image', 0, Buffer.from('QED\0')],
  ['compressed with gzip', 0, Buffer.from([0x1f, 0x8b])],
  ['compressed with xz', 0, Buffer.from([0xfd, 0x37, 0x7a, 0x58, 0x5a])],
  ['compressed with zstd', 0, Buffer.from([0x28, 0xb5, 0x2f, 0xfd])],
  ['compressed with bzip2', 0, Buffer.from('BZh')],
  ['a zip archive', 0, Buffer.from('PK\u0003\u0004')],
  ['a web page', 0, Buffer.from('<!DOCTYPE')],
];

/**
 * Format of a file of unknown origin: qcow2 without a backing or data file, which could name a file of this machine, or else raw. No
 * program is left to guess it: guessing opens what an image names. Rejects with NodeError IMAGE_INVALID, PROGRAM_MISSING.
 */
export async function imageFormat(file: string): Promise<'raw' | 'qcow2'> {
  const header = Buffer.alloc(headerBytes);
  const handle = await open(file, 'r');
  try {
    const { bytesRead } = await handle.read(header, 0, headerBytes, 0);
    if (bytesRead === 0) throw invalid('it is empty');
  } finally {
    await handle.close();
  }
  const [other] = others.find(([, at, magic]) => header.subarray(at, at + magic.length).equals(magic)) ?? [];
  if (other?.startsWith('compressed')) throw invalid(`it is ${other}: unpack it first`);
  if (other !== undefined) throw invalid(`it is ${other}: make it qcow2 with \`qemu-img convert -O qcow2\``);
  if (header.readUInt32BE(0) !== qcow2Magic) return 'raw';
  refuseReferences(header);
  await checkQcow2(file);
  return 'qcow2';
}

/** Before any program opens the image. */
function refuseReferences(header: Buffer): void {
  if (header.readBigUInt64BE(8) !== 0n) throw invalid('it has a backing file: flatten it with `qemu-img convert`');
  const hasDataFile = header.readUInt32BE(4) >= 3 && (header.readBigUInt64BE(72) & externalDataFileBit) !== 0n;
  if (hasDataFile) throw invalid('its data is in another file: put both together with `qemu-img convert`');
}

/** That it can be read at all, within limits of memory and time. */
async function checkQcow2(file: string): Promise<void> {
  const args = [...limits, 'qemu-img', 'info', '-f', 'qcow2', '--force-share', '--output=json', file];
  const { stdout } = await run('prlimit', args, { timeout: timeoutMs, maxBuffer: 2 ** 20 }).catch((cause: unknown) => {
    if (errorCode(cause) === 'ENOENT') {
      throw new NodeError('PROGRAM_MISSING', 'prlimit is not installed (apt-get install util-linux)', { cause });
    }
    throw invalid(`qemu-img cannot read it: ${lastLine(cause)}`, cause);
  });
  const info: Readonly<Record<string, unknown>> = jsonRecord(stdout) ?? {};
  if (info['backing-filename'] !== undefined)
    throw invalid('it has a backing file: flatten it with `qemu-img convert`');
}

function lastLine(error: unknown): string {
  const text = error instanceof Error && 'stderr' in error ? String(error.stderr) : errorMessage(error);
  return text.trim().split('\n').at(-1)?.slice(0, 300) ?? '';
}

function invalid(why: string, cause?: unknown): NodeError {
  return new NodeError('IMAGE_INVALID', `this is no disk image for a virtual machine: ${why}`, { cause });
}
