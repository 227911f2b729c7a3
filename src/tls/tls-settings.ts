import { DEFAULT_CIPHERS, getCiphers, type SecureVersion } from 'node:tls';
import { isRecord } from '../base/index.ts';

/** What servers accept. */
export interface TlsSettings {
  readonly minVersion: SecureVersion;
  /** In OpenSSL's syntax; suites of TLS 1.3 are always on. */
  readonly ciphers: string;
}

const versions: ReadonlyMap<unknown, SecureVersion> = new Map([
  ['VersionTLS10', 'TLSv1'],
  ['VersionTLS11', 'TLSv1.1'],
  ['VersionTLS12', 'TLSv1.2'],
  ['VersionTLS13', 'TLSv1.3'],
]);

export const defaultTlsSettings: TlsSettings = { minVersion: 'TLSv1.2', ciphers: DEFAULT_CIPHERS };

/**
 * `spec.configuration.tlsConfiguration` of the KubeVirt object, as upstream reads it (pkg/util/tls/tls.go). Total: an unknown
 * version is TLS 1.2, unknown suites and those that this OpenSSL was built without count as not named, no suite left means the
 * defaults.
 */
export function readTlsSettings(tlsConfiguration: unknown): TlsSettings {
  if (!isRecord(tlsConfiguration)) return defaultTlsSettings;
  const { minTLSVersion, ciphers } = tlsConfiguration;
  const names = (Array.isArray(ciphers) ? ciphers : []).filter((name) => typeof name === 'string');
  const suites = [...new Set(names.map(openSslName).filter((name) => name !== undefined && isBuiltIn(name)))];
  const asked = versions.get(minTLSVersion) ?? defaultTlsSettings.minVersion;
  // With suites of TLS 1.3 alone nothing is left that an older version could use.
  const minVersion = suites.length === 0 && names.some(isTls13Suite) ? 'TLSv1.3' : asked;
  const list = suites.length > 0 ? suites.join(':') : defaultTlsSettings.ciphers;
  return { minVersion, ciphers: isOld(minVersion) ? `${list}:@SECLEVEL=0` : list };
}

export function isSameSettings(a: TlsSettings, b: TlsSettings): boolean {
  return a.minVersion === b.minVersion && a.ciphers === b.ciphers;
}

/** OpenSSL 3 speaks versions before 1.2 at its lowest level only, whatever the minimum is. */
function isOld(version: SecureVersion): boolean {
  return version === 'TLSv1' || version === 'TLSv1.1';
}

function isBuiltIn(openSslSuite: string): boolean {
  return getCiphers().includes(openSslSuite.toLowerCase());
}

/** IANA's names, which the KubeVirt object and Go use, and OpenSSL's; those of TLS 1.2 and older. */
const names = [
  ['TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256', 'ECDHE-ECDSA-AES128-GCM-SHA256'],
  ['TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256', 'ECDHE-RSA-AES128-GCM-SHA256'],
  ['TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384', 'ECDHE-ECDSA-AES256-GCM-SHA384'],
  ['TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384', 'ECDHE-RSA-AES256-GCM-SHA384'],
  ['TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256', 'ECDHE-ECDSA-CHACHA20-POLY1305'],
  ['TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256', 'ECDHE-RSA-CHACHA20-POLY1305'],
  ['TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305', 'ECDHE-ECDSA-CHACHA20-POLY1305'],
  ['TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305', 'ECDHE-RSA-CHACHA20-POLY1305'],
  ['TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256', 'ECDHE-ECDSA-AES128-SHA256'],
  ['TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256', 'ECDHE-RSA-AES128-SHA256'],
  ['TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA', 'ECDHE-ECDSA-AES128-SHA'],
  ['TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA', 'ECDHE-RSA-AES128-SHA'],
  ['TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA', 'ECDHE-ECDSA-AES256-SHA'],
  ['TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA', 'ECDHE-RSA-AES256-SHA'],
  ['TLS_ECDHE_RSA_WITH_3DES_EDE_CBC_SHA', 'ECDHE-RSA-DES-CBC3-SHA'],
  ['TLS_ECDHE_ECDSA_WITH_RC4_128_SHA', 'ECDHE-ECDSA-RC4-SHA'],
  ['TLS_ECDHE_RSA_WITH_RC4_128_SHA', 'ECDHE-RSA-RC4-SHA'],
  ['TLS_RSA_WITH_AES_128_GCM_SHA256', 'AES128-GCM-SHA256'],
  ['TLS_RSA_WITH_AES_256_GCM_SHA384', 'AES256-GCM-SHA384'],
  ['TLS_RSA_WITH_AES_128_CBC_SHA256', 'AES128-SHA256'],
  ['TLS_RSA_WITH_AES_128_CBC_SHA', 'AES128-SHA'],
  ['TLS_RSA_WITH_AES_256_CBC_SHA', 'AES256-SHA'],
  ['TLS_RSA_WITH_3DES_EDE_CBC_SHA', 'DES-CBC3-SHA'],
  ['TLS_RSA_WITH_RC4_128_SHA', 'RC4-SHA'],
] as const;

const openSslNames: ReadonlyMap<string, string> = new Map(names);
const tls13Names = new Set(['TLS_AES_128_GCM_SHA256', 'TLS_AES_256_GCM_SHA384', 'TLS_CHACHA20_POLY1305_SHA256']);

/** OpenSSL's name, or undefined for what is not a suite of TLS 1.2 or older. */
function openSslName(ianaName: string): string | undefined {
  return openSslNames.get(ianaName);
}

function isTls13Suite(ianaName: string): boolean {
  return tls13Names.has(ianaName);
}
