/**
 * Owns: making authorities and key pairs where no operator does, and renewing them before they expire. Apart from src/tls, so that
 * programs that make none are shipped without the library.
 * Must not know: servers, connections, Kubernetes.
 */
export { CertificateError } from './errors.ts';
export { issue, isWorthKeeping, type LeafRequest, makeAuthority } from './issue.ts';
export {
  ensureKubevirtCertificates,
  ensureSigningAuthority,
  type KubevirtCertificates,
} from './kubevirt-certificates.ts';
