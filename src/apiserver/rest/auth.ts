import { createHash, timingSafeEqual } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import { ApiError } from '../errors.ts';
import type { User } from '../objects/context.ts';
import type { ApiToken } from '../options.ts';

const minTokenLength = 16;

/** Who is behind a bearer token. Compares digests, so that neither length nor content shows in the time it takes. */
export class TokenAuthenticator {
  readonly #known: readonly { readonly digest: Buffer; readonly user: User }[];

  /** Throws when a token is too short to be a secret. */
  constructor(tokens: readonly ApiToken[]) {
    this.#known = tokens.map(({ token, user, groups = [] }) => {
      if (token.length < minTokenLength)
        throw new Error(`the token of ${user} has less than ${minTokenLength} characters`);
      return { digest: digestOf(token), user: { name: user, groups: [...groups, 'system:authenticated'] } };
    });
  }

  /** undefined for a token that is not known. */
  userOf(token: string): User | undefined {
    const digest = digestOf(token);
    let found: User | undefined;
    for (const known of this.#known) if (timingSafeEqual(known.digest, digest)) found = known.user;
    return found;
  }

  /** Throws ApiError UNAUTHORIZED. */
  authenticate(request: IncomingMessage): User {
    const [scheme = '', token = '', ...rest] = (request.headers.authorization ?? '').split(' ');
    const user = scheme.toLowerCase() === 'bearer' && rest.length === 0 ? this.userOf(token) : undefined;
    if (!user) throw new ApiError('UNAUTHORIZED', 'Unauthorized');
    return user;
  }
}

function digestOf(token: string): Buffer {
  return createHash('sha256').update(token, 'utf8').digest();
}

const loopback = /^(?:localhost|127(?:\.\d{1,3}){3}|\[::1\])$/;

/**
 * Keeps out web pages: a name that a foreign DNS server resolved to this address (rebinding), and requests that a browser made
 * for another site. Throws ApiError FORBIDDEN.
 */
export function checkOrigin(request: IncomingMessage, extraHosts: readonly string[]): void {
  const host = request.headers.host ?? '';
  if (!isOwnHost(host, extraHosts)) {
    throw new ApiError('FORBIDDEN', `the host name ${JSON.stringify(host)} is not one of this server: use 127.0.0.1`);
  }
  const { origin } = request.headers;
  if (origin === undefined) return;
  if (!URL.canParse(origin) || !isOwnHost(new URL(origin).host, extraHosts) || new URL(origin).host !== host) {
    throw new ApiError('FORBIDDEN', `requests made by pages of ${JSON.stringify(origin)} are refused`);
  }
}

function isOwnHost(host: string, extraHosts: readonly string[]): boolean {
  const name = host.replace(/:\d+$/, '').toLowerCase();
  return loopback.test(name) || extraHosts.includes(name);
}
