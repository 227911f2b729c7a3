/**
 * Owns: TLS for servers whose key pair, authorities, versions and ciphers change while they run (spec 30 §6): files watched,
 * contexts rebuilt on change only, client names checked; and making authorities and key pairs where nobody else does.
 * Must not know: Kubernetes, routes, what is served.
 */
export type { ChangingValue } from './changing-value.ts';
export { CertificateError } from './errors.ts';
export {
  type AuthorityRequest,
  issue,
  isWorthKeeping,
  type LeafRequest,
  makeAuthority,
  type PemPair,
} from './issue.ts';
export {
  clientCommonName,
  ensureKubevirtCertificates,
  type KeyPairPaths,
  type KubevirtCertificates,
  serverCommonName,
} from './kubevirt-certificates.ts';
