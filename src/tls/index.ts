/**
 * Owns: TLS contexts whose key pair, authorities, versions and ciphers change while they are used (as upstream's pkg/util/tls and
 * pkg/certificates/bootstrap do): files watched, contexts rebuilt on change only; HTTPS servers, raw TLS servers and TLS clients on
 * them, with peers known by common name.
 * Must not know: Kubernetes, routes, what is served, how certificates are made.
 */
export { type Authorities, FollowedAuthorities, readAuthorities } from './authorities.ts';
export type { PeerRule } from './authorize-peer.ts';
export { type ChangingValue, SettableValue } from './changing-value.ts';
export { clientCommonName, expectCommonName, serverCommonName } from './common-name.ts';
export { TlsInputError } from './errors.ts';
export { type KeyPair, type PemPair, readKeyPair } from './key-pair.ts';
export { firstPairThere, KeyPairFiles, type KeyPairPaths } from './key-pair-files.ts';
export { RefusalLog } from './refusal-log.ts';
export { TlsContext, type TlsContextDeps, type TlsState } from './tls-context.ts';
export { createTlsServer } from './tls-server.ts';
export { defaultTlsSettings, isSameSettings, readTlsSettings, type TlsSettings } from './tls-settings.ts';
