import type { IncomingMessage, ServerResponse } from 'node:http';
import { type Clock, type Component, errorMessage, type Logger } from '../base/index.ts';
import { HttpServer } from './http-server.ts';

export interface JsonAnswer {
  readonly httpStatus: number;
  readonly body: object;
}

export interface JsonSocketOptions {
  readonly name: string;
  /** Path of the Unix socket. */
  readonly socketFile: string;
  readonly pid: number;
  /** What else may answer on the socket, in words: `another agent`. */
  readonly other: string;
}

export interface JsonSocketDeps {
  /** `target`: path of the request, with a query if it has one. */
  readonly answer: (method: string, target: string) => JsonAnswer | Promise<JsonAnswer>;
  readonly refuse: (httpStatus: 400 | 500, code: 'BAD_REQUEST' | 'INTERNAL', message: string) => JsonAnswer;
  readonly log: Logger;
  readonly clock: Clock;
}

const retryMs = 10_000;
const limits = {
  ...{ maxHeaderSize: 8 * 1024, headersTimeout: 5_000, requestTimeout: 5_000, keepAliveTimeout: 1_000 },
  // Node.js looks twice a minute for clients that are late.
  firstRequestMs: 5_000,
  maxConnections: 16,
};

/**
 * JSON documents over HTTP on a Unix socket that only root reaches. While another process answers on it, as during an update with
 * surge, this one waits. No other part of the program depends on it: what fails here is logged and tried again.
 */
export class JsonSocket implements Component {
  readonly name: string;
  readonly socketFile: string;
  readonly #deps: JsonSocketDeps;
  readonly #http: HttpServer;

  constructor({ name, socketFile, pid, other }: JsonSocketOptions, deps: JsonSocketDeps) {
    const { log, clock } = deps;
    this.name = name;
    this.socketFile = socketFile;
    this.#deps = deps;
    this.#http = new HttpServer(
      {
        ...{ name, limits, drainMs: 0 },
        address: { kind: 'unix', path: socketFile, mode: 0o600, pid, other },
        retry: { baseMs: retryMs, maxMs: retryMs },
      },
      { handle: (request, response) => void this.#serve(request, response), log, clock },
    );
  }

  /** Resolves after the first attempt, whatever came of it. */
  start(): Promise<void> {
    return this.#http.start();
  }

  stop(): Promise<void> {
    return this.#http.stop();
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { httpStatus, body } = await this.#answer(request, response);
    const text = `${JSON.stringify(body)}\n`;
    response.writeHead(httpStatus, {
      'content-type': 'application/json',
      'content-length': Buffer.byteLength(text),
      ...(httpStatus === 405 && { allow: 'GET, HEAD' }),
    });
    response.end(request.method === 'HEAD' ? undefined : text);
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<JsonAnswer> {
    const { answer, refuse, log } = this.#deps;
    if (request.headers['content-length'] !== undefined || request.headers['transfer-encoding'] !== undefined) {
      response.shouldKeepAlive = false;
      return refuse(400, 'BAD_REQUEST', 'a request has no body here');
    }
    try {
      return await answer(request.method ?? '', request.url ?? '');
    } catch (error) {
      log.error({ err: error }, 'a question could not be answered');
      return refuse(500, 'INTERNAL', `no answer is possible: ${errorMessage(error)}`);
    }
  }
}
