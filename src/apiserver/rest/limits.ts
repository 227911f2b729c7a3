import type { IncomingMessage } from 'node:http';
import type { RequestHandler, Response } from 'express';
import type { Clock } from '../../base/index.ts';
import type { User } from '../access.ts';
import { maxBodyBytes } from './body.ts';
import { Places } from './places.ts';
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

/** An answer that nobody reads for so long is dropped. */
const unreadMs = 60_000;

/** Keeps the requests of one user from taking the memory that the others need. */
export class RequestLimiter {
  readonly #requests: Places;
  readonly #streams: Places;
  readonly #bodyBytes: Places;
  readonly #clock: Clock;

  constructor({ requests, streams, bodyBytes }: RequestLimits, deps: { readonly clock: Clock }) {
    const of = (what: string, [perUser, inAll]: readonly [number, number]) => new Places({ what, perUser, inAll });
    this.#requests = of('requests under way', requests);
    this.#streams = of('watches and followed logs', streams);
    this.#bodyBytes = of('bytes in bodies of requests', bodyBytes);
    this.#clock = deps.clock;
  }

  /** Middleware between who asks and what is asked: refuses with ApiError TOO_MANY_REQUESTS. */
  get handler(): RequestHandler {
    return (request, response, next) => {
      const { name } = response.locals.user as User;
      const places = isStream(request) ? this.#streams : this.#requests;
      // An answer that became a stream is never closed; its connection is.
      const end = request.headers.upgrade === undefined ? response : request.socket;
      end.once('close', places.take(name));
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
