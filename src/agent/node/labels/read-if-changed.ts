import type { FileHandle } from 'node:fs/promises';
import { errorCode } from '../../../base/index.ts';
import { openPlainFile, PlainFileError } from '../../../host/index.ts';
import { LibvirtFileError, maxDocumentBytes } from '../libvirt-xml/index.ts';

/** Undefined: it is still the file of that identity. Throws LibvirtFileError. */
export async function readIfChanged(
  file: string,
  identity: string | undefined,
): Promise<{ readonly identity: string; readonly content: string } | undefined> {
  let handle: FileHandle;
  try {
    handle = await openPlainFile(file);
  } catch (cause) {
    if (errorCode(cause) === 'ENOENT') throw new LibvirtFileError('MISSING', 'it is not there', { cause });
    if (cause instanceof PlainFileError) throw new LibvirtFileError('UNREADABLE', cause.message, { cause });
    throw new LibvirtFileError('UNREADABLE', `it cannot be opened (${errorCode(cause)})`, { cause });
  }
  try {
    const stats = await handle.stat({ bigint: true });
    if (stats.size > maxDocumentBytes) throw new LibvirtFileError('TOO_LARGE', `it has ${stats.size} bytes`);
    const seen = `${stats.ino} ${stats.ctimeNs} ${stats.size}`;
    if (seen === identity) return undefined;
    return { identity: seen, content: await handle.readFile('utf8') };
  } finally {
    await handle.close();
  }
}
