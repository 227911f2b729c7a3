import { createHash, timingSafeEqual } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import type { ApiToken, User } from '../access.ts';
import { ApiError } from '../errors.ts';

const minTokenLength = 16;

/** Who is behind a bearer token. Compares digests, so that neither length nor content shows in the time it takes. */
export class TokenAuthenticator {
  readonly #known: readonly { readonly digest: Buffer; readonly user: User }[];

  /** Throws when a token is too short to be a secret, or belongs to two users. */
  constructor(tokens: readonly ApiToken[]) {
    this.#known = tokens.map(({ token, user, groups = [], rules }) => {
      if (token.length < minTokenLength)
        throw new Error(`the token of ${user} has less than ${minTokenLength} characters`);
      const known = { name: user, groups: [...groups, 'system:authenticated'], ...(rules && { rules }) };
      return { digest: digestOf(token), user: known };
    });
    const twice = tokens.find(({ token }, index) => tokens.findIndex((other) => other.token === token) !== index);
    if (twice) throw new Error(`the token of ${twice.user} belongs to another user too`);
  }

  /** undefined for a token that is not known. */
  userOf(token: string): User | undefined {
    const digest = digestOf(token);
    let found: User | undefined;
    for (const known of this.#known) if (timingSafeEqual(known.digest, digest)) found = known.user;
    return found;
  }

  /** The user of this name; undefined when no token names it. */
  userNamed(name: string): User | undefined {
    return this.#known.find(({ user }) => user.name === name)?.user;
  }

  /** Throws ApiError UNAUTHORIZED, or FORBIDDEN when the user wants to act as another and may not. */
  authenticate(request: IncomingMessage): User {
    const [scheme = '', token = '', ...rest] = (request.headers.authorization ?? '').split(' ');
    const user = scheme.toLowerCase() === 'bearer' && rest.length === 0 ? this.userOf(token) : undefined;
    if (!user) throw new ApiError('UNAUTHORIZED', 'Unauthorized');
    return this.#actingAs(user, request);
  }

  /** `kubectl --as`: who may do everything may act as another user of this server. */
  #actingAs(user: User, { headers }: IncomingMessage): User {
    const asked = Object.keys(headers).filter((name) => name.startsWith('impersonate-'));
    if (asked.length === 0) return user;
    const name = String(headers['impersonate-user'] ?? '');
    if (user.rules !== undefined) {
      const text = `users "${name}" is forbidden: User "${user.name}" cannot impersonate resource "users" in API group "" at the cluster scope`;
      throw new ApiError('FORBIDDEN', text);
    }
    const other = asked.length === 1 ? this.userNamed(name) : undefined;
    if (other) return other;
    const users = this.#known.map((known) => known.user.name).join(', ');
    throw new ApiError('FORBIDDEN', `this server lets you act as one of its users only, without --as-group: ${users}`);
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
