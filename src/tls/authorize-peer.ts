import { X509Certificate } from 'node:crypto';
import type { ConnectionOptions, PeerCertificate, TLSSocket } from 'node:tls';
import type { Authorities } from './authorities.ts';
import { commonNameOf } from './common-name.ts';

/** Which peers may connect, beyond a chain to the authorities and the extended key usage of their side. */
export interface PeerRule {
  /** `any`: upstream's `--externally-managed`. */
  readonly commonNames: readonly string[] | 'any';
  /** Certificates between the peer's and an authority may come from the peer. */
  readonly allowIntermediates: boolean;
}

export type PeerAuthorization =
  | { readonly kind: 'authorized' }
  | { readonly kind: 'refused'; readonly code: string; readonly reason: string };

/** Node.js has more than its types say: no certificate is an empty object, and null when the connection has gone. */
type ShownCertificate = (Pick<PeerCertificate, 'subject'> & { readonly raw?: Buffer }) | null;

/** For servers. `socket`: its handshake asked for a certificate and has ended. */
export function authorizeClient(
  socket: TLSSocket,
  authorities: Authorities | undefined,
  rule: PeerRule,
): PeerAuthorization {
  // Not getPeerX509Certificate(): in Node.js 20 each call loses 5 KB of native memory for good.
  const shown: ShownCertificate = socket.getPeerCertificate();
  if (!shown?.raw) return refused('NO_CERTIFICATE', 'it showed no certificate');
  if (!socket.authorized) {
    // Node.js has a code here, whatever its types say.
    const code = String(socket.authorizationError ?? 'UNVERIFIED');
    return refused(code, `its certificate does not verify: ${code}`);
  }
  return applyRule({ subject: shown.subject, raw: shown.raw }, authorities, rule);
}

/**
 * For clients: `checkServerIdentity` of `tls.connect` and `https.request`, which call it once the chain has been verified. The
 * common name counts, host names and addresses do not: no certificate of KubeVirt has them (pkg/util/tls/tls.go).
 */
export function authorizeServer(
  authorities: Authorities,
  rule: PeerRule,
): NonNullable<ConnectionOptions['checkServerIdentity']> {
  return (_host, certificate) => {
    const authorization = applyRule(certificate, authorities, rule);
    if (authorization.kind === 'authorized') return undefined;
    return Object.assign(new Error(`the server was refused: ${authorization.reason}`), { code: authorization.code });
  };
}

/** `shown`: its chain was verified. */
function applyRule(
  shown: Pick<PeerCertificate, 'subject' | 'raw'>,
  authorities: Authorities | undefined,
  rule: PeerRule,
): PeerAuthorization {
  if (!rule.allowIntermediates && !isSignedBy(authorities, new X509Certificate(shown.raw))) {
    return refused('INTERMEDIATE', 'its certificate is signed by an intermediate, which --externally-managed allows');
  }
  if (rule.commonNames === 'any') return { kind: 'authorized' };
  const name = commonNameOf(shown);
  if (name !== undefined && rule.commonNames.includes(name)) return { kind: 'authorized' };
  return refused('COMMON_NAME', `common name is invalid, got ${JSON.stringify((name ?? '').slice(0, 100))}`);
}

function isSignedBy(authorities: Authorities | undefined, leaf: X509Certificate): boolean {
  const isIssuer = (authority: X509Certificate) => leaf.checkIssued(authority) && leaf.verify(authority.publicKey);
  return authorities?.certificates.some(isIssuer) ?? false;
}

function refused(code: string, reason: string): PeerAuthorization {
  return { kind: 'refused', code, reason };
}
