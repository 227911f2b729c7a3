import type { IncomingMessage } from 'node:http';
import type { RequestHandler, Response } from 'express';
import type { Clock } from '../../base/index.ts';
import type { User } from '../access.ts';
import { ApiError } from '../errors.ts';
import { maxBodyBytes } from './body.ts';
import { isTrue, parseQuery } from './request.ts';

const mebibyte = 1024 * 1024;

/** How much one user, and all of them, may have at a time. A kube-apiserver has 400 requests under way, 200 of them writes. */
export interface RequestLimits {
  /** Requests that are answered at once. Default 200 and 400. */
  readonly requests: readonly [perUser: number, inAll: number];
  /** Watches and logs that are followed. Default 128 and 512. */
  readonly streams: readonly [perUser: number, inAll: number];
  /** Bytes of bodies. Default 48 and 96 MiB. */
  readonly bodyBytes: readonly [perUser: number, inAll: number];
}

export const defaultLimits: RequestLimits = {
  requests: [200, 400],
  streams: [128, 512],
  bodyBytes: [48 * mebibyte, 96 * mebibyte],
};

/** An answer that its client does not read for so long is dropped. */
const unreadMs = 60_000;

/** Keeps the requests of one user from taking the memory that the others need. */
export class RequestLimiter {
  readonly #requests: UserQuota;
  readonly #streams: UserQuota;
  readonly #bodyBytes: UserQuota;
  readonly #clock: Clock;

  constructor({ requests, streams, bodyBytes }: RequestLimits, deps: { readonly clock: Clock }) {
    const of = (what: string, [perUser, inAll]: readonly [number, number]) => new UserQuota({ what, perUser, inAll });
    this.#requests = of('requests under way', requests);
    this.#streams = of('watches and followed logs', streams);
    this.#bodyBytes = of('bytes in bodies of requests', bodyBytes);
    this.#clock = deps.clock;
  }

  /** Middleware between who asks and what is asked: refuses with ApiError TOO_MANY_REQUESTS. */
  get handler(): RequestHandler {
    return (request, response, next) => {
      const { name } = response.locals.user as User;
      const quota = isStream(request) ? this.#streams : this.#requests;
      // An answer that became a stream is never closed; its connection is.
      const end = request.headers.upgrade === undefined ? response : request.socket;
      end.once('close', quota.take(name));
      const bytes = bodyBytesOf(request);
      if (bytes > 0) end.once('close', this.#bodyBytes.take(name, bytes));
      this.#dropUnread(response);
      next();
    };
  }

  /** From the end of an answer on: what is written meanwhile belongs to a stream, which sees to itself. */
  #dropUnread(response: Response): void {
    response.once('prefinish', () => {
      if (response.writableLength === 0) return;
      const cancel = this.#clock.schedule(unreadMs, () => response.destroy());
      response.once('close', cancel);
    });
  }
}

function isStream({ method, url = '', headers }: IncomingMessage): boolean {
  if (headers.upgrade !== undefined) return true;
  if (method !== 'GET') return false;
  const { watch, follow } = parseQuery(url);
  return [watch, follow].some((value) => value !== undefined && isTrue(value));
}

/** As many as it says; as many as it may have where it does not say. */
function bodyBytesOf({ headers }: IncomingMessage): number {
  const isUnknown = headers['transfer-encoding'] !== undefined || headers['content-encoding'] !== undefined;
  if (isUnknown) return maxBodyBytes;
  const length = Number(headers['content-length'] ?? 0);
  // The reader of bodies refuses what is larger before it has read any of it.
  return length > maxBodyBytes ? 0 : length;
}

interface QuotaLimits {
  /** What is counted, in the plural: `requests under way`. */
  readonly what: string;
  readonly perUser: number;
  readonly inAll: number;
}

/** Counts what each user has of something, so that no user takes it from the others. */
export class UserQuota {
  readonly #limits: QuotaLimits;
  readonly #held = new Map<string, number>();
  #all = 0;

  constructor(limits: QuotaLimits) {
    this.#limits = limits;
  }

  /** Takes `count` of them; the returned function gives them back, once. Throws ApiError TOO_MANY_REQUESTS. */
  take(user: string, count = 1): () => void {
    const { perUser, inAll } = this.#limits;
    const held = this.#held.get(user) ?? 0;
    if (held + count > perUser) throw this.#refusal(`user "${user}" may have ${perUser}`);
    if (this.#all + count > inAll) throw this.#refusal(`all users together may have ${inAll}`);
    this.#change(user, count);
    let isHeld = true;
    return () => {
      if (isHeld) this.#change(user, -count);
      isHeld = false;
    };
  }

  #change(user: string, by: number): void {
    this.#all += by;
    const held = (this.#held.get(user) ?? 0) + by;
    if (held > 0) this.#held.set(user, held);
    else this.#held.delete(user);
  }

  #refusal(limit: string): ApiError {
    const text = `Too many requests, please try again later: ${limit} ${this.#limits.what}`;
    return new ApiError('TOO_MANY_REQUESTS', text, { details: { retryAfterSeconds: 1 } });
  }
}
