import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto';
import { isRecord, jsonRecord } from '../../base/index.ts';
import { readIfThere, writeFileAtomic } from '../files.ts';

/** One claim, until then. */
export interface UploadClaim {
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
}

/** As long as CDI's (pkg/token of CDI). */
const lifeMs = 5 * 60_000;
const keyBytes = 32;
const header = encode({ alg: 'HS256', typ: 'JWT' });

/**
 * What an upload has to show: a JSON web token of the node's own, for one claim (its UID: not for the next one of that name) and five minutes. The API
 * server signs, the proxy checks; both read the key from a file for root only.
 */
export class UploadTokenKey {
  readonly #file: string;
  readonly #now: () => number;

  constructor(file: string, now: () => number = Date.now) {
    this.#file = file;
    this.#now = now;
  }

  async issue({ namespace, name, uid }: UploadClaim): Promise<string> {
    const issuedAt = Math.floor(this.#now() / 1000);
    const claims = {
      iss: 'virt-node',
      op: 'Upload',
      namespace,
      name,
      uid,
      iat: issuedAt,
      exp: issuedAt + lifeMs / 1000,
    };
    const signed = `${header}.${encode(claims)}`;
    return `${signed}.${sign(signed, await this.#key()).toString('base64url')}`;
  }

  /** Why the token is not taken, or the claim that it is for. */
  async check(token: string): Promise<UploadClaim | 'invalid' | 'expired'> {
    const parts = token.split('.');
    if (parts.length !== 3 || token.length > 4_096 || parts[0] !== header) return 'invalid';
    const expected = sign(`${parts[0]}.${parts[1]}`, await this.#key());
    const given = Buffer.from(parts[2] ?? '', 'base64url');
    if (given.length !== expected.length || !timingSafeEqual(given, expected)) return 'invalid';
    const claims = jsonRecord(Buffer.from(parts[1] ?? '', 'base64url').toString('utf8'));
    if (!isRecord(claims) || claims.op !== 'Upload') return 'invalid';
    const { namespace, name, uid, exp } = claims;
    if (typeof namespace !== 'string' || typeof name !== 'string' || typeof uid !== 'string') return 'invalid';
    return typeof exp === 'number' && exp * 1000 > this.#now() ? { namespace, name, uid } : 'expired';
  }

  /** Made by whoever needs it first; who comes at the same moment reads what the other one has written. */
  async #key(): Promise<Buffer> {
    const kept = Buffer.from((await readIfThere(this.#file)) ?? '', 'base64');
    if (kept.length === keyBytes) return kept;
    await writeFileAtomic(this.#file, randomBytes(keyBytes).toString('base64'));
    return Buffer.from((await readIfThere(this.#file)) ?? '', 'base64');
  }
}

function encode(value: object): string {
  return Buffer.from(JSON.stringify(value)).toString('base64url');
}

function sign(text: string, key: Buffer): Buffer {
  return createHmac('sha256', key).update(text).digest();
}
