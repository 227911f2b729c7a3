import type { PeerCertificate } from 'node:tls';

/** Common names by which KubeVirt's programs know each other. */
export const serverCommonName = 'kubevirt.io:system:node:virt-handler';
export const clientCommonName = 'kubevirt.io:system:client:virt-handler';

/** Undefined: there is none, or there are several, and it is not known which one counts. */
export function commonNameOf(certificate: Pick<PeerCertificate, 'subject'>): string | undefined {
  // A subject with several common names is an array here, whatever the types say.
  const name: unknown = certificate.subject?.CN;
  return typeof name === 'string' ? name : undefined;
}

/**
 * `checkServerIdentity` for clients of KubeVirt's servers: the common name counts, the host name does not (pkg/util/tls/tls.go).
 */
export function expectCommonName(
  expected: string,
): (host: string, certificate: Pick<PeerCertificate, 'subject'>) => Error | undefined {
  return (_host, certificate) => {
    const found = commonNameOf(certificate);
    if (found === expected) return undefined;
    return new Error(`the server is ${JSON.stringify(found ?? '')}, not ${expected}`);
  };
}
