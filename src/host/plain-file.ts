import { closeSync, constants, fstatSync, lstatSync, openSync, readSync, type Stats } from 'node:fs';
import { type FileHandle, lstat, open } from 'node:fs/promises';
import { CodedError } from '../base/index.ts';

export type PlainFileErrorCode =
  /** A link, a pipe, a socket, a device or a directory. */
  'NO_PLAIN_FILE' | 'TOO_LARGE';

export class PlainFileError extends CodedError<PlainFileErrorCode> {}

/** A pipe without a writer would be waited for without end, and to open a device may be an order to it. */
const flags = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;
const firstBytes = 16 * 1024;

/** Opens a plain file for reading; who gets it closes it. Rejects with PlainFileError, or with the system's error. */
export async function openPlainFile(file: string): Promise<FileHandle> {
  check(await lstat(file));
  const handle = await open(file, flags);
  try {
    check(await handle.stat());
    return handle;
  } catch (error) {
    await handle.close();
    throw error;
  }
}

/** The text of a plain file, or of one of the kernel's. Rejects with PlainFileError, or with the system's error. */
export async function readPlainFile(file: string, maxBytes: number): Promise<string> {
  const handle = await openPlainFile(file);
  try {
    return await readText(handle, maxBytes);
  } finally {
    await handle.close();
  }
}

/** From where an open file stands to its end. Rejects with PlainFileError, or with the system's error. */
export async function readText(handle: FileHandle, maxBytes: number): Promise<string> {
  let buffer = Buffer.alloc(Math.min(firstBytes, maxBytes + 1));
  let length = 0;
  // Files of the kernel have no size.
  for (;;) {
    const { bytesRead } = await handle.read(buffer, length, buffer.length - length);
    length += bytesRead;
    if (bytesRead === 0) return buffer.toString('utf8', 0, length);
    buffer = roomFor(buffer, length, maxBytes);
  }
}

/** The end of an open file, at most `maxBytes`, and how long the file is. Rejects with the system's error. */
export async function lastBytes(
  handle: FileHandle,
  maxBytes: number,
): Promise<{ readonly size: number; readonly bytes: Buffer }> {
  const { size } = await handle.stat();
  const length = Math.min(size, maxBytes);
  const { bytesRead, buffer } = await handle.read(Buffer.alloc(length), 0, length, size - length);
  return { size, bytes: buffer.subarray(0, bytesRead) };
}

/** As `readPlainFile`, for small files at moments that must not end in between. */
export function readPlainFileSync(file: string, maxBytes: number): string {
  check(lstatSync(file));
  return readFrom(openSync(file, flags), maxBytes);
}

/** The same of what was opened before: `stats` are its own, and `file` leads to nothing else. */
export function readOpenedText(stats: Stats, file: string, maxBytes: number): string {
  check(stats);
  return readFrom(openSync(file, constants.O_RDONLY | constants.O_NONBLOCK), maxBytes);
}

function readFrom(fd: number, maxBytes: number): string {
  try {
    check(fstatSync(fd));
    let buffer = Buffer.alloc(Math.min(firstBytes, maxBytes + 1));
    let length = 0;
    for (;;) {
      const bytesRead = readSync(fd, buffer, length, buffer.length - length, null);
      length += bytesRead;
      if (bytesRead === 0) return buffer.toString('utf8', 0, length);
      buffer = roomFor(buffer, length, maxBytes);
    }
  } finally {
    closeSync(fd);
  }
}

function check(stats: Stats): void {
  if (!stats.isFile()) throw new PlainFileError('NO_PLAIN_FILE', 'it is no plain file');
}

/** The buffer, or a larger one with the same content when it is full. */
function roomFor(buffer: Buffer<ArrayBuffer>, length: number, maxBytes: number): Buffer<ArrayBuffer> {
  if (length > maxBytes) throw new PlainFileError('TOO_LARGE', `it has more than ${maxBytes} bytes`);
  if (length < buffer.length) return buffer;
  const larger = Buffer.alloc(Math.min(buffer.length * 4, maxBytes + 1));
  buffer.copy(larger, 0, 0, length);
  return larger;
}
