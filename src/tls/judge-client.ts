import { X509Certificate } from 'node:crypto';
import type { PeerCertificate, TLSSocket } from 'node:tls';
import type { Authorities } from './authorities.ts';
import { commonNameOf } from './common-name.ts';

/** Which clients are let in, beyond a chain to the authorities and the usage clientAuth (spec 30 §6.3). */
export interface ClientRule {
  /** `any`: upstream's `--externally-managed`. */
  readonly commonNames: readonly string[] | 'any';
  /** Certificates between the client's and an authority may come from the client. */
  readonly allowIntermediates: boolean;
}

export type Verdict =
  | { readonly kind: 'accepted' }
  | { readonly kind: 'refused'; readonly code: string; readonly reason: string };

/** `socket`: its handshake asked for a certificate and has ended. */
export function judgeClient(socket: TLSSocket, authorities: Authorities | undefined, rule: ClientRule): Verdict {
  // Not getPeerX509Certificate(): in Node.js 20 each call loses 5 KB of native memory for good. Empty without a certificate, and
  // null when the connection is gone, whatever the types say.
  const shown: (Pick<PeerCertificate, 'subject'> & { readonly raw?: Buffer }) | null = socket.getPeerCertificate();
  if (!shown?.raw) return refused('NO_CERTIFICATE', 'it showed no certificate');
  if (!socket.authorized) {
    // Node.js has a code here, whatever its types say.
    const code = String(socket.authorizationError ?? 'UNVERIFIED');
    return refused(code, `its certificate does not verify: ${code}`);
  }
  const leaf = new X509Certificate(shown.raw);
  const isDirect = () =>
    authorities?.certificates.some((authority) => leaf.checkIssued(authority) && leaf.verify(authority.publicKey));
  if (!rule.allowIntermediates && !isDirect()) {
    return refused('INTERMEDIATE', 'its certificate is signed by an intermediate, which --externally-managed allows');
  }
  if (rule.commonNames === 'any') return { kind: 'accepted' };
  const name = commonNameOf(shown);
  if (name !== undefined && rule.commonNames.includes(name)) return { kind: 'accepted' };
  return refused('COMMON_NAME', `common name is invalid, got ${JSON.stringify((name ?? '').slice(0, 100))}`);
}

function refused(code: string, reason: string): Verdict {
  return { kind: 'refused', code, reason };
}
