import { DEFAULT_CIPHERS, getCiphers, type SecureVersion } from 'node:tls';
import { isRecord } from '../base/index.ts';
import { isTls13Suite, openSslName } from './ciphers.ts';

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
