import { execFile } from 'node:child_process';
import { createPrivateKey, X509Certificate } from 'node:crypto';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { isIP } from 'node:net';
import path from 'node:path';
import { promisify } from 'node:util';
import { errorCode } from '../base/index.ts';
import { CertificateError } from './errors.ts';

// Pure, so that programs that make no certificates are bundled without a way to start others.
const run = /* @__PURE__ */ promisify(execFile);

/** PEM texts that belong together. */
export interface PemPair {
  readonly cert: string;
  readonly key: string;
}

export interface AuthorityRequest {
  readonly commonName: string;
  readonly days: number;
}

export interface LeafRequest {
  readonly commonName: string;
  readonly usage: 'serverAuth' | 'clientAuth';
  /** DNS names and IP addresses; none where peers look at the common name only. */
  readonly hosts?: readonly string[];
  readonly days: number;
}

/** What is left of a certificate when its owner replaces it. */
export const renewBeforeMs = 30 * 24 * 3600 * 1000;
const newKey = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-sha256'];
/** openssl's configuration gives a meaning to `$`, `\`, `#` and line ends. */
const harmless = /^[\w.:@ -]{1,64}$/;

/**
 * A self-signed authority with an EC key. `scratchDir` must be there and be nobody else's: the key passes through a draft in
 * it. Throws CertificateError.
 */
export function makeAuthority(scratchDir: string, { commonName, days }: AuthorityRequest): Promise<PemPair> {
  return inDraft(scratchDir, async (draft) => {
    const extensions = ['basicConstraints = critical,CA:TRUE', 'keyUsage = critical,keyCertSign,cRLSign'];
    extensions.push('subjectKeyIdentifier = hash');
    await writeConfig(draft, commonName, extensions);
    const files = ['-config', 'request.cnf', '-extensions', 'ext', '-keyout', 'made.key', '-out', 'made.crt'];
    await openssl(draft, ['req', '-x509', ...newKey, '-days', String(days), ...files]);
    return readPair(draft);
  });
}

/** A key pair signed by `authority`, for one usage. `scratchDir` as for `makeAuthority`. Throws CertificateError. */
export function issue(scratchDir: string, authority: PemPair, request: LeafRequest): Promise<PemPair> {
  return inDraft(scratchDir, async (draft) => {
    const extensions = ['basicConstraints = critical,CA:FALSE', 'keyUsage = critical,digitalSignature'];
    extensions.push(`extendedKeyUsage = ${request.usage}`, ...alternativeNames(request.hosts ?? []));
    // Tells authorities of the same name apart while one follows the other.
    extensions.push('authorityKeyIdentifier = keyid');
    await writeConfig(draft, request.commonName, extensions);
    await writeFile(path.join(draft, 'ca.crt'), authority.cert, { mode: 0o600 });
    await writeFile(path.join(draft, 'ca.key'), authority.key, { mode: 0o600 });
    await openssl(draft, [
      'req',
      '-new',
      ...newKey,
      '-config',
      'request.cnf',
      '-keyout',
      'made.key',
      '-out',
      'made.csr',
    ]);
    const sign = ['x509', '-req', '-in', 'made.csr', '-CA', 'ca.crt', '-CAkey', 'ca.key', '-CAcreateserial', '-sha256'];
    const extra = ['-days', String(request.days), '-extfile', 'request.cnf', '-extensions', 'ext', '-out', 'made.crt'];
    await openssl(draft, [...sign, ...extra]);
    return readPair(draft);
  });
}

/** Both last for a while yet, are made for each other, and the leaf is the authority's. Never throws. */
export function isWorthKeeping(authorityCert: string, pair: PemPair, now: Date): boolean {
  try {
    const authority = new X509Certificate(authorityCert);
    const leaf = new X509Certificate(pair.cert);
    const lastsMs = Math.min(Date.parse(authority.validTo), Date.parse(leaf.validTo)) - now.getTime();
    const isMatching = leaf.checkPrivateKey(createPrivateKey(pair.key));
    return lastsMs > renewBeforeMs && isMatching && leaf.checkIssued(authority) && leaf.verify(authority.publicKey);
  } catch {
    return false;
  }
}

async function inDraft(scratchDir: string, make: (draft: string) => Promise<PemPair>): Promise<PemPair> {
  const draft = await mkdtemp(path.join(scratchDir, '.new-'));
  try {
    return await make(draft);
  } finally {
    await rm(draft, { recursive: true, force: true });
  }
}

async function writeConfig(dir: string, commonName: string, extensions: readonly string[]): Promise<void> {
  const lines = ['[req]', 'distinguished_name = dn', 'prompt = no', '[dn]', `CN = ${checked(commonName)}`, '[ext]'];
  await writeFile(path.join(dir, 'request.cnf'), `${[...lines, ...extensions].join('\n')}\n`);
}

function alternativeNames(hosts: readonly string[]): string[] {
  if (hosts.length === 0) return [];
  const names = hosts.map((host) => `${isIP(host) === 0 ? 'DNS' : 'IP'}:${checked(host)}`);
  return [`subjectAltName = ${names.join(',')}`];
}

function checked(name: string): string {
  if (harmless.test(name)) return name;
  throw new CertificateError('BAD_NAME', `${JSON.stringify(name)} cannot be the name in a certificate`);
}

async function readPair(dir: string): Promise<PemPair> {
  const read = (file: string) => readFile(path.join(dir, file), 'utf8');
  return { cert: await read('made.crt'), key: await read('made.key') };
}

async function openssl(cwd: string, args: readonly string[]): Promise<void> {
  try {
    await run('openssl', args, { cwd, timeout: 30_000 });
  } catch (cause) {
    if (errorCode(cause) === 'ENOENT') {
      const text = 'the program openssl is missing: install it (Debian: apt-get install openssl)';
      throw new CertificateError('OPENSSL_MISSING', text, { cause });
    }
    throw new CertificateError('OPENSSL_FAILED', `openssl ${args[0]} failed`, { cause });
  }
}
