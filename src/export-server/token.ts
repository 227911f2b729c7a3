import { createHash, timingSafeEqual } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import { ExportError } from './answer.ts';
import { readMountedIfThere } from './mounted-files.ts';

/** Of a header and of a query, as upstream's. */
const tokenName = 'x-kubevirt-export-token';

/**
 * Does the request show the token that the file holds now? The file is read each time, for whoever owns the secret may change it. An empty one
 * lets nobody in. Rejects with ExportError UNAVAILABLE when there is none.
 */
export async function showsToken(request: IncomingMessage, tokenFile: string): Promise<boolean> {
  const token = await readMountedIfThere(tokenFile);
  if (token === undefined) throw new ExportError('UNAVAILABLE', 'the secret of the export has no key `token`');
  if (token === '') return false;
  // Both are looked at in any case: how long it takes tells nothing.
  const shown = [request.headers[tokenName], queryToken(request)];
  return shown.map((each) => isSame(each, token)).includes(true);
}

function queryToken({ url = '' }: IncomingMessage): string | undefined {
  const query = url.indexOf('?');
  return query < 0 ? undefined : (new URLSearchParams(url.slice(query)).get(tokenName) ?? undefined);
}

function isSame(shown: string | string[] | undefined, token: string): boolean {
  const digest = (text: string) => createHash('sha256').update(text).digest();
  return timingSafeEqual(digest(typeof shown === 'string' ? shown : ''), digest(token));
}
