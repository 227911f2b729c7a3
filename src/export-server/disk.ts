import { type FileHandle, open, readFile, stat } from 'node:fs/promises';
import { Transform } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { createGzip } from 'node:zlib';
import { errorCode, errorMessage } from '../base/index.ts';
import { deviceNumbersOf, openInRoot, SafePathError } from '../host/index.ts';
import { type Exchange, ExportError, type Handler } from './answer.ts';
import { byteRangeOf } from './byte-range.ts';

/** What is read at once. */
const chunkBytes = 256 * 1024;
const diskName = 'disk.img';

interface OpenDisk {
  readonly handle: FileHandle;
  readonly size: number;
}

/** A disk as it is; holes of a sparse file are zeros. A client may ask for a range, and go on where it was. */
export function rawHandler(volume: string): Handler {
  return (exchange) => withDisk(volume, (disk) => sendFile(exchange, disk));
}

/** Level 1: a disk is mostly zeros or what does not get any smaller, and its reader waits. */
export function gzipHandler(volume: string): Handler {
  return async (exchange) => {
    requireGet(exchange);
    await withDisk(volume, async ({ handle, size }) => {
      exchange.response.writeHead(200, { 'content-type': 'application/gzip' });
      const disk = handle.createReadStream({ autoClose: false, highWaterMark: chunkBytes, start: 0 });
      const gzip = createGzip({ level: 1, chunkSize: chunkBytes });
      await pipeline(disk, exactly(size), gzip, exchange.response, { signal: exchange.signal });
    });
  };
}

export function requireGet({ request, response }: Exchange): void {
  if (request.method === 'GET') return;
  response.setHeader('allow', 'GET');
  throw new ExportError('BAD_REQUEST', 'ask by GET');
}

/** What is opened, or the part of it that is asked for. */
export async function sendFile({ request, response, signal }: Exchange, { handle, size }: OpenDisk): Promise<void> {
  const isHead = request.method === 'HEAD';
  if (!isHead && request.method !== 'GET') {
    response.setHeader('allow', 'GET, HEAD');
    throw new ExportError('BAD_REQUEST', 'ask by GET or HEAD');
  }
  // Without a validator nothing proves that what was read before is of the same disk.
  const range = byteRangeOf(request.headers['if-range'] === undefined ? request.headers.range : undefined, size);
  const type = { 'content-type': 'application/octet-stream', 'accept-ranges': 'bytes' };
  if (range.kind === 'none') {
    response.writeHead(416, { ...type, 'content-range': `bytes */${size}` }).end();
    return;
  }
  const [first, last] = range.kind === 'part' ? [range.first, range.last] : [0, size - 1];
  const length = last - first + 1;
  const part = range.kind === 'part' ? { 'content-range': `bytes ${first}-${last}/${size}` } : {};
  response.writeHead(range.kind === 'part' ? 206 : 200, { ...type, ...part, 'content-length': length });
  if (isHead || length === 0) {
    response.end();
    return;
  }
  const bytes = handle.createReadStream({ start: first, end: last, autoClose: false, highWaterMark: chunkBytes });
  await pipeline(bytes, exactly(length), response, { signal });
}

/** Who reads would take a file that became shorter for a whole one. */
function exactly(expected: number): Transform {
  let seen = 0;
  return new Transform({
    transform(chunk: Buffer, _encoding, done) {
      seen += chunk.length;
      done(null, chunk);
    },
    flush(done) {
      if (seen === expected) return done();
      done(new ExportError('CHANGED', `the file has ${seen} bytes where it had ${expected}: it is written to`));
    },
  });
}

async function withDisk(volume: string, use: (disk: OpenDisk) => Promise<void>): Promise<void> {
  const disk = await openDisk(volume);
  try {
    await use(disk);
  } finally {
    await disk.handle.close();
  }
}

/** Rejects with ExportError. */
async function openDisk(volume: string): Promise<OpenDisk> {
  try {
    const found = await stat(volume);
    if (found.isDirectory()) return await openBelow(volume, diskName);
    if (!found.isBlockDevice() && !found.isFile())
      throw new ExportError('NOT_FOUND', `${volume} is neither a block device nor a directory`);
    const handle = await open(volume, 'r');
    try {
      return { handle, size: found.isFile() ? found.size : await deviceBytes(found.rdev) };
    } catch (error) {
      await handle.close();
      throw error;
    }
  } catch (error) {
    throw asExportError(error, volume);
  }
}

/** A plain file of a volume. Links that its tenant made count within the volume only. Rejects with ExportError, or as `openInRoot`. */
export async function openBelow(root: string, relative: string): Promise<OpenDisk> {
  const file = openInRoot(root, relative);
  try {
    const { size } = file.stat();
    return { handle: await file.openForReading(), size };
  } finally {
    file.close();
  }
}

/** Nobody else says how large a device is without rights of root. */
async function deviceBytes(rdev: number): Promise<number> {
  const { major, minor } = deviceNumbersOf(rdev);
  const sectors = Number((await readFile(`/sys/dev/block/${major}:${minor}/size`, 'utf8')).trim());
  return sectors * 512;
}

export function asExportError(error: unknown, shown: string): unknown {
  if (error instanceof ExportError) return error;
  const code = errorCode(error);
  const isMissing = error instanceof SafePathError || ['ENOENT', 'ENOTDIR', 'ENAMETOOLONG'].includes(code ?? '');
  if (isMissing) return new ExportError('NOT_FOUND', `${shown}: there is no such file or disk`, { cause: error });
  if (code === 'EACCES' || code === 'EPERM')
    return new ExportError('FORBIDDEN', `${shown} cannot be read by this server’s user`, { cause: error });
  return new ExportError('UNAVAILABLE', `${shown} cannot be read: ${errorMessage(error)}`, { cause: error });
}

/** Rejects with ExportError when the volume cannot be served at all. */
export async function checkVolume(volume: string): Promise<void> {
  try {
    const found = await stat(volume);
    await (await open(found.isDirectory() ? `${volume}/.` : volume, 'r')).close();
  } catch (error) {
    throw asExportError(error, volume);
  }
}
