import { createHash, timingSafeEqual } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import type { Clock } from '../../base/index.ts';
import { sameJson, systemClock } from '../../base/index.ts';
import type { ApiToken, User, UserAccount } from '../access.ts';
import { ApiError } from '../errors.ts';

const minTokenLength = 16;
/** Timers of Node.js cannot be set for longer than 24 days. */
const longestWaitMs = 24 * 3_600_000;

interface Known {
  readonly digest: Buffer;
  readonly user: User;
  /** Absent: of the start, for as long as the server runs. */
  readonly account?: UserAccount;
}

/** Who is behind a bearer token. Compares digests, so that neither length nor content shows in the time it takes. */
export class TokenAuthenticator {
  readonly #clock: Clock;
  /** Those of the start, then the accounts. */
  #known: readonly Known[];
  /** What ends with the right of a user: requests that have no answer yet, watches, consoles. */
  readonly #ends = new Map<User, Set<() => void>>();

  /** Throws when a token is too short to be a secret, or belongs to two users. */
  constructor(tokens: readonly ApiToken[], clock: Clock = systemClock) {
    this.#clock = clock;
    this.#known = tokens.map(({ token, user, groups = [], rules }) => {
      if (token.length < minTokenLength)
        throw new Error(`the token of ${user} has less than ${minTokenLength} characters`);
      const known = { name: user, groups: [...groups, 'system:authenticated'], ...(rules && { rules }) };
      return { digest: digestOf(token), user: known };
    });
    const twice = tokens.find(({ token }, index) => tokens.findIndex((other) => other.token === token) !== index);
    if (twice) throw new Error(`the token of ${twice.user} belongs to another user too`);
  }

  /**
   * All users besides those of the start, from now on. What a user has under way whose account is gone or another one is ended.
   * A name or a token of the start is none of an account: such a one is passed over.
   */
  setAccounts(accounts: readonly UserAccount[]): void {
    const fixed = this.#known.filter(({ account }) => account === undefined);
    const before = this.#known.filter(({ account }) => account !== undefined);
    const isTaken = (digest: Buffer, name: string) =>
      fixed.some((known) => known.user.name === name || timingSafeEqual(known.digest, digest));
    const after = accounts.flatMap((account): Known[] => {
      const kept = before.find((known) => sameJson(known.account, account));
      if (kept) return [kept];
      const digest = Buffer.from(account.digest, 'hex');
      if (digest.length !== digestBytes || isTaken(digest, account.user)) return [];
      const user = { name: account.user, groups: ['system:authenticated'], rules: account.rules };
      return [{ digest, user, account }];
    });
    this.#known = [...fixed, ...after];
    for (const known of before) if (!after.includes(known)) this.#end(known.user);
  }

  /** Calls `end` once when the user's right is taken away, or is over. The returned function forgets it. */
  follow(user: User, end: () => void): () => void {
    const account = this.#known.find((known) => known.user === user)?.account;
    // Those of the start stay.
    if (!account) return () => undefined;
    const ends = this.#ends.get(user) ?? new Set();
    this.#ends.set(user, ends.add(end));
    let cancel: (() => void) | undefined;
    const watchTime = (): void => {
      if (account.expiresAtMs === undefined) return;
      const leftMs = account.expiresAtMs - this.#clock.now().getTime();
      if (leftMs <= 0) end();
      else cancel = this.#clock.schedule(Math.min(leftMs, longestWaitMs), watchTime);
    };
    watchTime();
    return () => {
      cancel?.();
      ends.delete(end);
      if (ends.size === 0 && this.#ends.get(user) === ends) this.#ends.delete(user);
    };
  }

  /** undefined for a token that is not known, or not any more. */
  userOf(token: string): User | undefined {
    const digest = digestOf(token);
    let found: Known | undefined;
    for (const known of this.#known) if (timingSafeEqual(known.digest, digest)) found = known;
    return found && this.#isGood(found) ? found.user : undefined;
  }

  /** The user of this name; undefined when no good token names it. */
  userNamed(name: string): User | undefined {
    return this.#known.find((known) => known.user.name === name && this.#isGood(known))?.user;
  }

  #isGood({ account }: Known): boolean {
    return account?.expiresAtMs === undefined || account.expiresAtMs > this.#clock.now().getTime();
  }

  #end(user: User): void {
    for (const end of [...(this.#ends.get(user) ?? [])]) end();
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
    const users = this.#known.flatMap((known) => (this.#isGood(known) ? known.user.name : [])).join(', ');
    throw new ApiError('FORBIDDEN', `this server lets you act as one of its users only, without --as-group: ${users}`);
  }
}

const digestBytes = 32;

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
