import { X509Certificate } from 'node:crypto';
import { mkdir, readFile } from 'node:fs/promises';
import path from 'node:path';
import { CertificateError, issue, isWorthKeeping, makeAuthority } from '../certificates/index.ts';
import { replaceFile } from '../host/index.ts';

/** PEM texts; the same are in the directory as ca.crt, server.crt and server.key. */
export interface Certificates {
  readonly ca: string;
  readonly cert: string;
  readonly key: string;
}

const hosts = ['localhost', '127.0.0.1', '::1'];
const caDays = 3650;
const serverDays = 825;

/**
 * A self-signed authority and a server certificate for loopback names in `dir` (0700), made when they are missing, torn, foreign to each other or about to expire. Throws CertificateError.
 */
export async function ensureCertificates(dir: string, now: Date = new Date()): Promise<Certificates> {
  const kept = await readUsable(dir, now);
  if (kept) return kept;
  await mkdir(dir, { recursive: true, mode: 0o700 });
  for (const [file, text] of await makeNew(now)) await replaceFile(path.join(dir, file), text, 0o600);
  const made = await readUsable(dir, now);
  if (!made) throw new CertificateError('NOT_VERIFIED', `the certificates that were made in ${dir} do not verify`);
  return made;
}

/** The authority goes first: torn in between, the next start sees that they do not belong together and renews both. */
async function makeNew(now: Date): Promise<readonly (readonly [string, string])[]> {
  const authority = await makeAuthority({ commonName: 'virt-node-ca', days: caDays }, now);
  const request = { commonName: 'virt-node-apiserver', usage: 'serverAuth', hosts, days: serverDays } as const;
  const server = await issue(authority, request, now);
  return [
    ['ca.key', authority.key],
    ['ca.crt', authority.cert],
    ['server.key', server.key],
    ['server.crt', server.cert],
  ];
}

async function readUsable(dir: string, now: Date): Promise<Certificates | undefined> {
  try {
    const read = (file: string) => readFile(path.join(dir, file), 'utf8');
    const [ca, cert, key] = await Promise.all([read('ca.crt'), read('server.crt'), read('server.key')]);
    return isWorthKeeping(ca, { cert, key }, now) && isNamed(cert) ? { ca, cert, key } : undefined;
  } catch {
    return undefined;
  }
}

function isNamed(cert: string): boolean {
  const server = new X509Certificate(cert);
  return server.checkHost('localhost') !== undefined && server.checkIP('127.0.0.1') !== undefined;
}
