import { createPrivateKey, X509Certificate } from 'node:crypto';
import { chmod, mkdir, readFile } from 'node:fs/promises';
import path from 'node:path';
import { replaceFile } from '../host/index.ts';
import { clientCommonName, type KeyPairPaths, type PemPair, serverCommonName } from '../tls/index.ts';
import { CertificateError } from './errors.ts';
import { issue, isWorthKeeping, type LeafRequest, makeAuthority, renewBeforeMs } from './issue.ts';

/**
 * What a node needs where no operator hands out certificates, as upstream's does
 * (pkg/virt-operator/resource/generate/components/secrets.go).
 */
export interface KubevirtCertificates {
  /** PEM, for key `ca-bundle` of ConfigMap `kubevirt-ca`. */
  readonly caBundle: string;
  /** Of virt-handler's servers. */
  readonly server: KeyPairPaths;
  /** Of their client, virt-api in a cluster. */
  readonly client: KeyPairPaths;
}

const authorityDays = 3650;
const leafDays = 825;
const leaves = {
  server: { commonName: serverCommonName, usage: 'serverAuth', days: leafDays },
  client: { commonName: clientCommonName, usage: 'clientAuth', days: leafDays },
} as const satisfies Record<string, LeafRequest>;

/**
 * An authority in `dir` (0700) and its key pairs in `dir/server` and `dir/client` as `tls.crt` and `tls.key`: made when missing,
 * torn, foreign to each other, with another name, or about to expire. May be called again while a server follows the files.
 * Throws CertificateError.
 */
export async function ensureKubevirtCertificates(dir: string, now: Date = new Date()): Promise<KubevirtCertificates> {
  await ensurePrivateDir(dir);
  const authority = await ensureAuthority(dir, 'ca', 'kubevirt.io', now);
  for (const [name, request] of Object.entries(leaves)) {
    const leafDir = path.join(dir, name);
    await ensurePrivateDir(leafDir);
    const kept = await readPair(leafDir, 'tls');
    if (kept && isWorthKeeping(authority.cert, kept, now) && hasName(kept.cert, request.commonName)) continue;
    await writePair(leafDir, 'tls', await issue(authority, request, now));
    const made = await readPair(leafDir, 'tls');
    if (!made || !isWorthKeeping(authority.cert, made, now)) {
      throw new CertificateError('NOT_VERIFIED', `the certificate that was made in ${leafDir} does not verify`);
    }
  }
  return { caBundle: authority.cert, server: pathsIn(dir, 'server'), client: pathsIn(dir, 'client') };
}

/**
 * An authority for others to sign with, as `tls.crt` and `tls.key` in `dir` (0700): made when missing, torn or about to expire. Throws
 * CertificateError.
 */
export async function ensureSigningAuthority(dir: string, commonName: string, now: Date = new Date()): Promise<void> {
  await ensurePrivateDir(dir);
  await ensureAuthority(dir, 'tls', commonName, now);
}

async function ensurePrivateDir(dir: string): Promise<void> {
  await mkdir(dir, { recursive: true, mode: 0o700 });
  await chmod(dir, 0o700);
}

async function ensureAuthority(dir: string, name: string, commonName: string, now: Date): Promise<PemPair> {
  const kept = await readPair(dir, name);
  if (kept && isUsableAuthority(kept, now)) return kept;
  const made = await makeAuthority({ commonName, days: authorityDays }, now);
  await writePair(dir, name, made);
  return made;
}

function isUsableAuthority({ cert, key }: PemPair, now: Date): boolean {
  try {
    const certificate = new X509Certificate(cert);
    const lastsMs = Date.parse(certificate.validTo) - now.getTime();
    return lastsMs > renewBeforeMs && certificate.ca && certificate.checkPrivateKey(createPrivateKey(key));
  } catch {
    return false;
  }
}

function hasName(cert: string, commonName: string): boolean {
  return new X509Certificate(cert).subject === `CN=${commonName}`;
}

function pathsIn(dir: string, name: string): KeyPairPaths {
  return { certFile: path.join(dir, name, 'tls.crt'), keyFile: path.join(dir, name, 'tls.key') };
}

async function readPair(dir: string, name: string): Promise<PemPair | undefined> {
  try {
    const [cert, key] = await Promise.all(
      ['crt', 'key'].map((ending) => readFile(path.join(dir, `${name}.${ending}`), 'utf8')),
    );
    return cert === undefined || key === undefined ? undefined : { cert, key };
  } catch {
    return undefined;
  }
}

/** Each file appears whole; a reader in between sees a pair that does not match and reads again. */
async function writePair(dir: string, name: string, pair: PemPair): Promise<void> {
  for (const [ending, text] of [
    ['key', pair.key],
    ['crt', pair.cert],
  ] as const) {
    await replaceFile(path.join(dir, `${name}.${ending}`), text, 0o600);
  }
}
