import { createHash, createHmac, randomBytes, timingSafeEqual } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import type { Clock } from '../base/index.ts';

const wrongPerMinute = 30;
/** A page that is open for longer asks for the address again. */
const sessionMs = 24 * 3_600_000;
/** A browser can set no header of a websocket but this list; the key is one of its names. */
const keyProtocolPrefix = 'bearer.virt-handler.io.';

export interface Refusal {
  readonly kind: 'refused';
  readonly httpStatus: 401 | 403 | 429;
  readonly message: string;
}

/** What becomes of a request before anything else looks at it. */
export type Authorization =
  /** `token`: may make a session. `session`: for so long. */
  | { readonly kind: 'in'; readonly by: 'token'; readonly right: PageRight }
  | { readonly kind: 'in'; readonly by: 'session'; readonly right: PageRight; endsInMs: number }
  | Refusal;

/** `look`: the list, decisions, pictures, consoles and screens of others; it changes nothing, and no key reaches a guest. */
export type PageRight = 'act' | 'look';

/**
 * Who is let in: a client that shows the token of this start of the server, or a key of a session that the token was turned into.
 * Both are worthless after the next start, and so is the host name that the page's address has: an origin of its own per start.
 * What another program got or left in the browser while it held the port (a session, a service worker) is of an origin
 * that is not used again. No cookie: browsers send cookies to every port of a host, to any program that listens there.
 * Also kept out: pages of other sites and of other ports (Origin, Sec-Fetch-Site), and names that a foreign DNS server resolves
 * to the loopback address (Host). Any port is taken in Host: with `ssh -L` the browser's port is another one.
 */
export class PageAccess {
  /** 192 bits; of this start. */
  readonly token = randomBytes(24).toString('base64url');
  /** The same for who may look only. */
  readonly viewToken = randomBytes(24).toString('base64url');
  /** Resolved to the loopback addresses by browsers themselves (RFC 6761), ::1 first: the server has to hold both. */
  readonly hostName = `vms-${randomBytes(8).toString('hex')}.localhost`;
  readonly #tokens: readonly (readonly [digest: Buffer, right: PageRight])[] = [
    [digestOf(this.token), 'act'],
    [digestOf(this.viewToken), 'look'],
  ];
  readonly #sessionSecret = randomBytes(32);
  readonly #clock: Clock;
  /** Monotonic times of the latest wrong tokens. */
  readonly #wrongAtMs: number[] = [];

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** For what anybody may see: the page itself, without any data. */
  authorizeSite(request: IncomingMessage): Refusal | undefined {
    return checkHost(request, this.hostName) ?? checkSite(request);
  }

  authorize(request: IncomingMessage): Authorization {
    return this.authorizeSite(request) ?? this.#checkSecret(request);
  }

  /** For a page whose address had the token. */
  newSession(right: PageRight): { readonly key: string; readonly lastsMs: number } {
    const untilMs = Math.round(this.#clock.monotonicMs()) + sessionMs;
    return { key: this.#keyOf(right, untilMs), lastsMs: sessionMs };
  }

  #checkSecret(request: IncomingMessage): Authorization {
    const secret = secretOf(request);
    if (secret === undefined) return refused(401, 'a token is needed');
    const shown = digestOf(secret);
    for (const [digest, right] of this.#tokens) if (isSame(shown, digest)) return { kind: 'in', by: 'token', right };
    const [, word = '', until] = /^(look)?(\d{1,15})\./.exec(secret) ?? [];
    const untilMs = Number(until ?? Number.NaN);
    const right = word === 'look' ? 'look' : 'act';
    if (Number.isNaN(untilMs) || !isSame(shown, digestOf(this.#keyOf(right, untilMs)))) return this.#wrong();
    const endsInMs = untilMs - this.#clock.monotonicMs();
    // A client with a true key, old or not, does not guess.
    return endsInMs > 0 ? { kind: 'in', by: 'session', right, endsInMs } : refused(401, 'the session has ended');
  }

  /** Of a right and a time of the monotonic clock, both of which the key vouches for; nothing has to be kept for it. */
  #keyOf(right: PageRight, untilMs: number): string {
    const text = right === 'look' ? `look${untilMs}` : String(untilMs);
    const mac = createHmac('sha256', this.#sessionSecret).update(text).digest('base64url');
    return `${text}.${mac}`;
  }

  /** A client with the right one is let in all the time: no client is locked out by another's guesses. */
  #wrong(): Refusal {
    const nowMs = this.#clock.monotonicMs();
    while ((this.#wrongAtMs[0] ?? nowMs) < nowMs - 60_000) this.#wrongAtMs.shift();
    if (this.#wrongAtMs.length >= wrongPerMinute) return refused(429, 'too many wrong tokens: wait for a minute');
    this.#wrongAtMs.push(nowMs);
    return refused(401, 'this token or session is not of this start of the node');
  }
}

/** The names in `Sec-WebSocket-Protocol` that are none of the agent's. */
export function isKeyProtocol(name: string): boolean {
  return name.startsWith(keyProtocolPrefix);
}

const loopback = /^(?:localhost|127\.0\.0\.1)$/;

/** A program names the address; a browser is led to the name of this start. */
function checkHost({ headers: { host = '' } }: IncomingMessage, hostName: string): Refusal | undefined {
  const name = /^([a-z\d.-]+)(?::\d{1,5})?$/i.exec(host)?.[1]?.toLowerCase() ?? '';
  if (name === hostName || loopback.test(name)) return undefined;
  if (/^vms-[\da-f]{16}\.localhost$/.test(name)) return refused(403, 'this address is of an earlier start of the node');
  return refused(403, `the host name ${shown(host)} is not one of this server: use 127.0.0.1`);
}

function checkSite(request: IncomingMessage): Refusal | undefined {
  const { origin, host } = request.headers;
  if (origin !== undefined && origin !== `http://${host?.toLowerCase()}`) {
    return refused(403, `requests made by pages of ${shown(origin)} are refused`);
  }
  const site = request.headers['sec-fetch-site'];
  if (site === undefined || site === 'same-origin' || site === 'none' || isNavigationToPage(request)) return undefined;
  return refused(403, 'requests made by pages of other sites are refused');
}

/** A link on another site may lead here; what it leads to shows nothing without the token of its address. */
function isNavigationToPage(request: IncomingMessage): boolean {
  const { 'sec-fetch-mode': mode, 'sec-fetch-dest': dest } = request.headers;
  return request.method === 'GET' && request.url === '/' && mode === 'navigate' && dest === 'document';
}

/** A browser adds none of the two by itself, so that another site's page cannot have it sent. */
function secretOf({ headers }: IncomingMessage): string | undefined {
  const bearer = /^bearer +(\S+)$/i.exec(headers.authorization ?? '')?.[1];
  if (bearer !== undefined || headers.upgrade === undefined) return bearer;
  const names = (headers['sec-websocket-protocol'] ?? '').split(',').map((name) => name.trim());
  return names.find(isKeyProtocol)?.slice(keyProtocolPrefix.length);
}

function digestOf(text: string): Buffer {
  return createHash('sha256').update(text, 'utf8').digest();
}

function isSame(one: Buffer, other: Buffer): boolean {
  return timingSafeEqual(one, other);
}

function refused(httpStatus: Refusal['httpStatus'], message: string): Refusal {
  return { kind: 'refused', httpStatus, message };
}

function shown(text: string): string {
  return JSON.stringify(text.slice(0, 100));
}
