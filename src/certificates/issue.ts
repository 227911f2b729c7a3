import { createPrivateKey, webcrypto, X509Certificate } from 'node:crypto';
import { isIP } from 'node:net';
import { errorMessage } from '../base/index.ts';
import type { PemPair } from '../tls/index.ts';
import { CertificateError } from './errors.ts';
import type { Extension } from './library.ts';

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
const dayMs = 24 * 3600 * 1000;
const ownKeys = { name: 'ECDSA', namedCurve: 'P-256' } as const;
const digest = { hash: 'SHA-256' } as const;
/** X.520 allows 64 characters; names that other programs read in their own way are refused. */
const harmless = /^[\w.:@ -]{1,64}$/;
/** As long as DNS allows. */
const harmlessHost = /^[\w.:-]{1,253}$/;

type Library = typeof import('./library.ts');

/** Most programs make no certificate, and most runs of those that do. */
function loadLibrary(): Promise<Library> {
  return import('./library.ts');
}

/** A self-signed authority with a P-256 key. Throws CertificateError. */
export async function makeAuthority(request: AuthorityRequest, now: Date = new Date()): Promise<PemPair> {
  const x509 = await loadLibrary();
  const keys = await webcrypto.subtle.generateKey(ownKeys, true, ['sign', 'verify']);
  const made = await x509.X509CertificateGenerator.createSelfSigned({
    name: nameOf(x509, request.commonName),
    ...validity(request.days, now),
    keys,
    signingAlgorithm: { ...ownKeys, ...digest },
    extensions: [...authorityExtensions(x509), await x509.SubjectKeyIdentifierExtension.create(keys.publicKey)],
  });
  return { cert: pemOf(made), key: await keyPem(keys.privateKey) };
}

/** An authority that another one has signed. Throws CertificateError. */
export function issueIntermediate(
  authority: PemPair,
  request: AuthorityRequest,
  now: Date = new Date(),
): Promise<PemPair> {
  return sign(authority, request, now, authorityExtensions);
}

/** A key pair signed by `authority`, for one usage. Throws CertificateError. */
export function issue(authority: PemPair, request: LeafRequest, now: Date = new Date()): Promise<PemPair> {
  return sign(authority, request, now, (x509) => leafExtensions(x509, request));
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

async function sign(
  authority: PemPair,
  { commonName, days }: AuthorityRequest,
  now: Date,
  extensionsFor: (x509: Library) => readonly Extension[],
): Promise<PemPair> {
  const x509 = await loadLibrary();
  const subject = nameOf(x509, commonName);
  const issuer = new x509.X509Certificate(authority.cert);
  const signingKey = await importKey(authority.key);
  const keys = await webcrypto.subtle.generateKey(ownKeys, true, ['sign', 'verify']);
  // Tells authorities of the same name apart while one follows the other.
  const keyId = issuer.getExtension(x509.SubjectKeyIdentifierExtension)?.keyId;
  const made = await x509.X509CertificateGenerator.create({
    subject,
    issuer: issuer.subjectName,
    ...validity(days, now),
    publicKey: keys.publicKey,
    signingKey,
    signingAlgorithm: { ...signingKey.algorithm, ...digest },
    extensions: [
      ...extensionsFor(x509),
      ...(keyId === undefined ? [] : [new x509.AuthorityKeyIdentifierExtension(keyId)]),
      await x509.SubjectKeyIdentifierExtension.create(keys.publicKey),
    ],
  });
  return { cert: pemOf(made), key: await keyPem(keys.privateKey) };
}

function authorityExtensions(x509: Library) {
  const { keyCertSign, cRLSign } = x509.KeyUsageFlags;
  return [
    new x509.BasicConstraintsExtension(true, undefined, true),
    new x509.KeyUsagesExtension(keyCertSign | cRLSign, true),
  ];
}

function leafExtensions(x509: Library, { usage, hosts = [] }: LeafRequest) {
  const names = hosts.map((host) => ({
    type: isIP(host) === 0 ? ('dns' as const) : ('ip' as const),
    value: checked(host, harmlessHost),
  }));
  return [
    new x509.BasicConstraintsExtension(false, undefined, true),
    new x509.KeyUsagesExtension(x509.KeyUsageFlags.digitalSignature, true),
    new x509.ExtendedKeyUsageExtension([x509.ExtendedKeyUsage[usage]]),
    ...(names.length > 0 ? [new x509.SubjectAlternativeNameExtension(names)] : []),
  ];
}

function validity(days: number, now: Date): { readonly notBefore: Date; readonly notAfter: Date } {
  return { notBefore: now, notAfter: new Date(now.getTime() + days * dayMs) };
}

/** As data: no part of it is read as another field of the name. */
function nameOf(x509: Library, commonName: string): InstanceType<Library['Name']> {
  return new x509.Name([{ CN: [{ utf8String: checked(commonName) }] }]);
}

function checked(name: string, pattern = harmless): string {
  if (pattern.test(name)) return name;
  throw new CertificateError('BAD_NAME', `${JSON.stringify(name)} cannot be the name in a certificate`);
}

function pemOf(certificate: { toString(format: 'pem'): string }): string {
  return `${certificate.toString('pem')}\n`;
}

async function keyPem(key: webcrypto.CryptoKey): Promise<string> {
  const der = Buffer.from(await webcrypto.subtle.exportKey('pkcs8', key));
  return String(createPrivateKey({ key: der, format: 'der', type: 'pkcs8' }).export({ format: 'pem', type: 'pkcs8' }));
}

const curves: ReadonlyMap<string | undefined, string> = new Map([
  ['prime256v1', 'P-256'],
  ['secp384r1', 'P-384'],
  ['secp521r1', 'P-521'],
]);

/** Of an authority: a user may have put one there that another program made. */
async function importKey(pem: string): Promise<webcrypto.CryptoKey> {
  try {
    const key = createPrivateKey(pem);
    const namedCurve = curves.get(key.asymmetricKeyDetails?.namedCurve);
    const algorithm = namedCurve ? { name: 'ECDSA', namedCurve } : { name: 'RSASSA-PKCS1-v1_5', ...digest };
    return await webcrypto.subtle.importKey('pkcs8', key.export({ format: 'der', type: 'pkcs8' }), algorithm, false, [
      'sign',
    ]);
  } catch (cause) {
    const text = `the key of the authority cannot sign: it must be RSA, or EC on P-256, P-384 or P-521 (${errorMessage(cause)})`;
    throw new CertificateError('BAD_AUTHORITY', text, { cause });
  }
}
