import { constants } from 'node:fs';
import { open } from 'node:fs/promises';
import { errorCode } from '../../base/index.ts';
import { maxDocumentBytes } from './document.ts';
import { LabelFileError } from './errors.ts';

/** Undefined: it is still the file of that identity. Throws LabelFileError. */
export async function readIfChanged(
  file: string,
  identity: string | undefined,
): Promise<{ readonly identity: string; readonly content: string } | undefined> {
  let handle: Awaited<ReturnType<typeof open>>;
  try {
    // A pipe must not keep the agent waiting.
    handle = await open(file, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  } catch (cause) {
    if (errorCode(cause) === 'ENOENT') throw new LabelFileError('MISSING', 'it is not there', { cause });
    throw new LabelFileError('UNREADABLE', `it cannot be opened (${errorCode(cause)})`, { cause });
  }
  try {
    const stats = await handle.stat({ bigint: true });
    if (!stats.isFile()) throw new LabelFileError('UNREADABLE', 'it is no plain file');
    if (stats.size > maxDocumentBytes) throw new LabelFileError('TOO_LARGE', `it has ${stats.size} bytes`);
    const seen = `${stats.ino} ${stats.ctimeNs} ${stats.size}`;
    if (seen === identity) return undefined;
    return { identity: seen, content: await handle.readFile('utf8') };
  } finally {
    await handle.close();
  }
}
