import { createPrivateKey, type KeyObject, X509Certificate } from 'node:crypto';
import { errorMessage } from '../base/index.ts';
import { commonNameOf } from './common-name.ts';
import { TlsInputError } from './errors.ts';

/** PEM texts that belong together. */
export interface PemPair {
  readonly cert: string;
  readonly key: string;
}

/** A certificate, with its intermediates if it has some, and its private key. */
export interface KeyPair extends PemPair {
  /** Of the first certificate; empty when it has none. */
  readonly commonName: string;
  readonly expiresAt: Date;
  /** SHA-256 of the certificate, as hex with colons. */
  readonly fingerprint: string;
}

/** Throws TlsInputError; its message never has a part of the key. */
export function readKeyPair(cert: string, key: string): KeyPair {
  const certificate = readCertificate(cert);
  if (!certificate.checkPrivateKey(readKey(key))) {
    throw new TlsInputError('MISMATCH', 'the key is not that of the certificate');
  }
  return {
    cert,
    key,
    commonName: commonNameOf(certificate.toLegacyObject()) ?? '',
    expiresAt: new Date(certificate.validTo),
    fingerprint: certificate.fingerprint256,
  };
}

function readCertificate(text: string): X509Certificate {
  try {
    return new X509Certificate(text);
  } catch (cause) {
    throw new TlsInputError('BAD_CERTIFICATE', `no certificate can be read: ${errorMessage(cause)}`, { cause });
  }
}

function readKey(text: string): KeyObject {
  try {
    return createPrivateKey(text);
  } catch (cause) {
    throw new TlsInputError('BAD_KEY', 'no private key can be read: it must be PEM without a pass phrase', { cause });
  }
}
