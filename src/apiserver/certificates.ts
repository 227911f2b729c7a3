import { execFile } from 'node:child_process';
import { createPrivateKey, X509Certificate } from 'node:crypto';
import { mkdir, mkdtemp, readFile, rename, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';
import { CodedError, errorCode } from '../base/index.ts';

const run = promisify(execFile);

/** PEM texts; the same are in the directory as ca.crt, server.crt and server.key. */
export interface Certificates {
  readonly ca: string;
  readonly cert: string;
  readonly key: string;
}

export class CertificateError extends CodedError<'OPENSSL_MISSING' | 'OPENSSL_FAILED'> {}

const hosts = ['localhost', '127.0.0.1', '::1'];
const caDays = 3650;
const serverDays = 825;
/** A certificate that ends sooner is replaced at start. */
const renewBeforeMs = 30 * 24 * 3600 * 1000;

/**
 * A self-signed authority and a server certificate for loopback names in `dir` (0700), made by the program `openssl` when
 * they are missing, torn, foreign to each other or about to expire. Throws CertificateError.
 */
export async function ensureCertificates(dir: string, now: Date = new Date()): Promise<Certificates> {
  const kept = await readUsable(dir, now);
  if (kept) return kept;
  await mkdir(dir, { recursive: true, mode: 0o700 });
  const draft = await mkdtemp(path.join(dir, '.new-'));
  try {
    await makeAuthority(draft);
    await makeServer(draft);
    // The authority goes first: torn in between, the next start sees that they do not belong together and renews both.
    for (const file of ['ca.key', 'ca.crt', 'server.key', 'server.crt']) {
      await rename(path.join(draft, file), path.join(dir, file));
    }
  } finally {
    await rm(draft, { recursive: true, force: true });
  }
  const made = await readUsable(dir, now);
  if (!made) throw new CertificateError('OPENSSL_FAILED', `openssl made certificates in ${dir} that do not verify`);
  return made;
}

async function readUsable(dir: string, now: Date): Promise<Certificates | undefined> {
  try {
    const read = (file: string) => readFile(path.join(dir, file), 'utf8');
    const [ca, cert, key] = await Promise.all([read('ca.crt'), read('server.crt'), read('server.key')]);
    return isUsable({ ca, cert, key }, now) ? { ca, cert, key } : undefined;
  } catch {
    return undefined;
  }
}

function isUsable(files: Certificates, now: Date): boolean {
  const authority = new X509Certificate(files.ca);
  const server = new X509Certificate(files.cert);
  const lastsMs = Math.min(Date.parse(authority.validTo), Date.parse(server.validTo)) - now.getTime();
  const named = server.checkHost('localhost') !== undefined && server.checkIP('127.0.0.1') !== undefined;
  return (
    lastsMs > renewBeforeMs &&
    named &&
    server.verify(authority.publicKey) &&
    server.checkPrivateKey(createPrivateKey(files.key))
  );
}

const newKey = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes'];

async function makeAuthority(dir: string): Promise<void> {
  const config = [
    '[req]',
    'distinguished_name = dn',
    'prompt = no',
    'x509_extensions = ext',
    '[dn]',
    'CN = virt-node-ca',
  ];
  config.push('[ext]', 'basicConstraints = critical,CA:TRUE', 'keyUsage = critical,keyCertSign,cRLSign');
  config.push('subjectKeyIdentifier = hash');
  await writeFile(path.join(dir, 'ca.cnf'), `${config.join('\n')}\n`);
  const args = ['req', '-x509', ...newKey, '-sha256', '-days', String(caDays), '-config', 'ca.cnf'];
  await openssl(dir, [...args, '-keyout', 'ca.key', '-out', 'ca.crt']);
}

async function makeServer(dir: string): Promise<void> {
  const names = hosts.map((host) => (host === 'localhost' ? `DNS:${host}` : `IP:${host}`)).join(',');
  const config = ['[req]', 'distinguished_name = dn', 'prompt = no', '[dn]', 'CN = virt-node-apiserver', '[ext]'];
  config.push('basicConstraints = critical,CA:FALSE', 'keyUsage = critical,digitalSignature');
  config.push('extendedKeyUsage = serverAuth', `subjectAltName = ${names}`);
  await writeFile(path.join(dir, 'server.cnf'), `${config.join('\n')}\n`);
  await openssl(dir, [
    'req',
    '-new',
    ...newKey,
    '-config',
    'server.cnf',
    '-keyout',
    'server.key',
    '-out',
    'server.csr',
  ]);
  const sign = ['x509', '-req', '-in', 'server.csr', '-CA', 'ca.crt', '-CAkey', 'ca.key', '-CAcreateserial', '-sha256'];
  const days = ['-days', String(serverDays), '-extfile', 'server.cnf', '-extensions', 'ext'];
  await openssl(dir, [...sign, ...days, '-out', 'server.crt']);
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
