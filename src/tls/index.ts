/**
 * Owns: TLS for servers whose key pair, authorities, versions and ciphers change while they run (spec 30 §6): files watched,
 * contexts rebuilt on change only, client names checked; and making authorities and key pairs where nobody else does.
 * Must not know: Kubernetes, routes, what is served.
 */
export { type Authorities, FollowedAuthorities, readAuthorities } from './authorities.ts';
export { type ChangingValue, SettableValue } from './changing-value.ts';
export { expectCommonName } from './common-name.ts';
export { CertificateError, TlsInputError } from './errors.ts';
export { FollowingTlsServer, type TlsState } from './following-server.ts';
export { issue, isWorthKeeping, type LeafRequest, makeAuthority, type PemPair } from './issue.ts';
export type { ClientRule } from './judge-client.ts';
export { type KeyPair, readKeyPair } from './key-pair.ts';
export { KeyPairFiles } from './key-pair-files.ts';
export {
  clientCommonName,
  ensureKubevirtCertificates,
  type KeyPairPaths,
  type KubevirtCertificates,
  serverCommonName,
} from './kubevirt-certificates.ts';
export { defaultTlsSettings, isSameSettings, readTlsSettings, type TlsSettings } from './tls-settings.ts';
