/**
 * Owns: TLS contexts whose key pair, authorities, versions and ciphers change while they are used (as upstream's pkg/util/tls and
 * pkg/certificates/bootstrap do): files watched, contexts rebuilt on change only; HTTPS servers, raw TLS servers and TLS clients on
 * them, with peers known by common name; and making authorities and key pairs where no operator does.
 * Must not know: Kubernetes, routes, what is served.
 */
export { type Authorities, FollowedAuthorities, readAuthorities } from './authorities.ts';
export type { PeerRule } from './authorize-peer.ts';
export { type ChangingValue, SettableValue } from './changing-value.ts';
export { expectCommonName } from './common-name.ts';
export { CertificateError, TlsInputError } from './errors.ts';
export { issue, isWorthKeeping, type LeafRequest, makeAuthority, type PemPair } from './issue.ts';
export { type KeyPair, readKeyPair } from './key-pair.ts';
export { KeyPairFiles } from './key-pair-files.ts';
export {
  clientCommonName,
  ensureKubevirtCertificates,
  type KeyPairPaths,
  type KubevirtCertificates,
  serverCommonName,
} from './kubevirt-certificates.ts';
export { RefusalLog } from './refusal-log.ts';
export { TlsContext, type TlsContextDeps, type TlsState } from './tls-context.ts';
export { createTlsServer, type TlsServerOptions } from './tls-server.ts';
export { defaultTlsSettings, isSameSettings, readTlsSettings, type TlsSettings } from './tls-settings.ts';
