import { KubeError } from './errors.ts';

/** What one request carries to prove who sends it. */
export interface RequestIdentity {
  readonly headers: Readonly<Record<string, string>>;
  /** PEM client certificate and key. */
  readonly cert?: string | Buffer | undefined;
  readonly key?: string | Buffer | undefined;
  readonly passphrase?: string | undefined;
}

export interface Credentials {
  /** Asked before each request; cheap unless something has to be read again. Rejects with BAD_CONFIG. */
  current(): Promise<RequestIdentity>;
  /** After a 401: forget what is held. True when asking again may give something else. */
  invalidate(): boolean;
}

/** How to reach an API server and as whom. */
export interface KubeAccess {
  /** `https://host:port`, perhaps with a path; `http:` for a local proxy. */
  readonly server: string;
  /** PEM; absent: the system's authorities. */
  readonly ca?: string | Buffer | undefined;
  /** TLS name to check instead of the host in `server`. */
  readonly tlsServerName?: string | undefined;
  readonly insecureSkipTlsVerify?: boolean | undefined;
  readonly credentials: Credentials;
}

/** Throws BAD_CONFIG. */
export function checkedServer(server: string): string {
  if (!URL.canParse(server) || !/^https?:$/.test(new URL(server).protocol)) {
    throw new KubeError('BAD_CONFIG', `${JSON.stringify(server)} is no http(s) URL of an API server`);
  }
  return server.replace(/\/+$/, '');
}
