import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { pipeline } from 'node:stream/promises';
import { NodeError } from '../errors.ts';

/** As CDI has them, and their length in hexadecimal digits. */
const algorithms: Readonly<Record<string, number>> = { md5: 32, sha1: 40, sha256: 64, sha512: 128 };

export interface Checksum {
  readonly algorithm: string;
  /** In small letters. */
  readonly digest: string;
}

/** Of `sha256:…`. Undefined: it is none. */
export function parseChecksum(text: string): Checksum | undefined {
  const [algorithm = '', digest = '', ...more] = text.toLowerCase().split(':');
  if (more.length > 0 || digest.length !== algorithms[algorithm] || !/^[0-9a-f]+$/.test(digest)) return undefined;
  return { algorithm, digest };
}

export const checksumForms = 'md5:, sha1:, sha256: or sha512: and the digits';

/** Of a whole file, in hexadecimal digits. */
export async function digestOf(file: string, algorithm: string, signal: AbortSignal): Promise<string> {
  const hash = createHash(algorithm);
  await pipeline(createReadStream(file), hash, { signal });
  return hash.digest('hex');
}

/** Rejects with NodeError CHECKSUM_DIFFERS, which has both. */
export async function verify(file: string, { algorithm, digest }: Checksum, what: string, signal: AbortSignal) {
  const found = await digestOf(file, algorithm, signal);
  if (found === digest) return;
  const text = `${what} has the ${algorithm} checksum ${found}, and should have ${digest}: it is damaged, or another file`;
  throw new NodeError('CHECKSUM_DIFFERS', text);
}
