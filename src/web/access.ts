import { createHash, createHmac, randomBytes, timingSafeEqual } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import type { Clock } from '../base/index.ts';
import { WebError } from './errors.ts';

const minTokenLength = 16;
const wrongPerMinute = 30;

/** What becomes of a request before anything else looks at it. */
export type Verdict =
  | { readonly kind: 'in' }
  /** `GET /?token=…` with the right one: the browser gets its cookie. */
  | { readonly kind: 'enter' }
  | { readonly kind: 'refused'; readonly httpStatus: 401 | 403 | 429; readonly message: string };

/** A token that nobody guesses. */
export function newWebToken(): string {
  return randomBytes(24).toString('base64url');
}

/**
 * Who is let in: whoever shows the token, or the cookie that the token was turned into, from a page of this server. Keeps out
 * pages of other sites and of other ports (Origin, Sec-Fetch-Site), and names that a foreign DNS server resolves to the
 * loopback address (Host). Any port is taken in Host: with `ssh -L` the browser's port is another one, and no name can be
 * resolved to a numeric address.
 */
export class Access {
  readonly #tokenDigest: Buffer;
  readonly #cookieValue: string;
  readonly #clock: Clock;
  /** Monotonic times of the latest wrong tokens. */
  readonly #wrongAtMs: number[] = [];

  /** Throws WebError WEAK_TOKEN. */
  constructor(token: string, clock: Clock) {
    if (token.length < minTokenLength) {
      throw new WebError('WEAK_TOKEN', `the token of the web page has less than ${minTokenLength} characters`);
    }
    this.#tokenDigest = digestOf(token);
    // Not the token itself: cookies go to every server of this host name, whatever its port.
    this.#cookieValue = createHmac('sha256', token).update('cookie of the web page').digest('base64url');
    this.#clock = clock;
  }

  judge(request: IncomingMessage, localPort: number): Verdict {
    return checkHost(request) ?? checkSite(request) ?? this.#checkSecret(request, localPort);
  }

  /** Value of Set-Cookie after `enter`. Cookies know no ports, so the name does. */
  setCookie(localPort: number): string {
    return `${cookieName(localPort)}=${this.#cookieValue}; Path=/; HttpOnly; SameSite=Strict`;
  }

  #checkSecret(request: IncomingMessage, localPort: number): Verdict {
    const token = enteringToken(request);
    if (token !== undefined)
      return this.#isToken(token) ? { kind: 'enter' } : this.#wrong('this token is not the right one');
    const bearer = bearerOf(request);
    // A browser adds no such header by itself, so what has it needs no Origin.
    if (bearer !== undefined)
      return this.#isToken(bearer) ? { kind: 'in' } : this.#wrong('this token is not the right one');
    const cookie = cookieOf(request, cookieName(localPort));
    if (cookie === undefined) return refused(401, 'a token is needed');
    if (!isSame(digestOf(cookie), digestOf(this.#cookieValue))) return this.#wrong('the session has ended');
    const needsOrigin = isUpgrade(request) || !['GET', 'HEAD'].includes(request.method ?? '');
    if (needsOrigin && request.headers.origin === undefined)
      return refused(403, 'a request of a page names its origin');
    return { kind: 'in' };
  }

  #isToken(given: string): boolean {
    return isSame(digestOf(given), this.#tokenDigest);
  }

  /** Whoever has the right token is let in all the time: nobody is locked out by another's guesses. */
  #wrong(message: string): Verdict {
    const nowMs = this.#clock.monotonicMs();
    while ((this.#wrongAtMs[0] ?? nowMs) < nowMs - 60_000) this.#wrongAtMs.shift();
    if (this.#wrongAtMs.length >= wrongPerMinute) return refused(429, 'too many wrong tokens: wait for a minute');
    this.#wrongAtMs.push(nowMs);
    return refused(401, message);
  }
}

const ownHost = /^(?:localhost|127\.0\.0\.1)(?::\d{1,5})?$/i;

function checkHost({ headers: { host = '' } }: IncomingMessage): Verdict | undefined {
  if (ownHost.test(host)) return undefined;
  return refused(403, `the host name ${shown(host)} is not one of this server: use 127.0.0.1`);
}

function checkSite(request: IncomingMessage): Verdict | undefined {
  const { origin, host } = request.headers;
  if (origin !== undefined && origin !== `http://${host?.toLowerCase()}`) {
    return refused(403, `requests made by pages of ${shown(origin)} are refused`);
  }
  const site = request.headers['sec-fetch-site'];
  if (site === undefined || site === 'same-origin' || site === 'none' || isNavigationToPage(request)) return undefined;
  return refused(403, 'requests made by pages of other sites are refused');
}

/** A link on another site may lead here; what it leads to shows nothing without the cookie, which does not come with it. */
function isNavigationToPage(request: IncomingMessage): boolean {
  const { 'sec-fetch-mode': mode, 'sec-fetch-dest': dest } = request.headers;
  const isPage = /^\/(?:\?|$)/.test(request.url ?? '');
  return request.method === 'GET' && isPage && mode === 'navigate' && dest === 'document';
}

function isUpgrade({ headers }: IncomingMessage): boolean {
  return headers.upgrade !== undefined;
}

function enteringToken(request: IncomingMessage): string | undefined {
  const { url = '', method } = request;
  if (method !== 'GET' || !url.startsWith('/?') || isUpgrade(request)) return undefined;
  return new URLSearchParams(url.slice(2)).get('token') ?? undefined;
}

function bearerOf({ headers: { authorization } }: IncomingMessage): string | undefined {
  return /^bearer +(\S+)$/i.exec(authorization ?? '')?.[1];
}

function cookieName(localPort: number): string {
  return `virt-web-${localPort}`;
}

function cookieOf({ headers: { cookie = '' } }: IncomingMessage, name: string): string | undefined {
  const found = cookie.split(';').find((part) => part.trim().startsWith(`${name}=`));
  return found?.trim().slice(name.length + 1);
}

function digestOf(text: string): Buffer {
  return createHash('sha256').update(text, 'utf8').digest();
}

function isSame(one: Buffer, other: Buffer): boolean {
  return timingSafeEqual(one, other);
}

function refused(httpStatus: 401 | 403 | 429, message: string): Verdict {
  return { kind: 'refused', httpStatus, message };
}

function shown(text: string): string {
  return JSON.stringify(text.slice(0, 100));
}
