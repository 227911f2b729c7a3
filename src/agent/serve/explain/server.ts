import type { IncomingMessage, ServerResponse } from 'node:http';
import path from 'node:path';
import { explainSocketName } from '../../../api/index.ts';
import { type Clock, type Component, errorMessage, type Logger } from '../../../base/index.ts';
import { HttpServer } from '../../../http/index.ts';
import { type ExplainAnswer, type ExplainService, errorAnswer } from './service.ts';

export interface ExplainServerOptions {
  /** `--kubevirt-private-dir` */
  readonly privateDir: string;
  readonly pid: number;
}

export interface ExplainServerDeps {
  readonly service: Pick<ExplainService, 'answer'>;
  readonly log: Logger;
  readonly clock: Clock;
}

const retryMs = 10_000;
const limits = {
  ...{ maxHeaderSize: 8 * 1024, headersTimeout: 5_000, requestTimeout: 5_000, keepAliveTimeout: 1_000 },
  maxConnections: 16,
};

/**
 * Explanations as HTTP on a Unix socket that only root reaches. While another agent answers on it, as during an update with surge,
 * this one waits. The VM loop never depends on it: what fails here is logged and tried again.
 */
export class ExplainServer implements Component {
  readonly name = 'explain server';
  readonly socketFile: string;
  readonly #deps: ExplainServerDeps;
  readonly #http: HttpServer;

  constructor({ privateDir, pid }: ExplainServerOptions, deps: ExplainServerDeps) {
    const { log, clock } = deps;
    this.#deps = deps;
    this.socketFile = path.join(privateDir, explainSocketName);
    this.#http = new HttpServer(
      {
        ...{ name: this.name, limits, drainMs: 0 },
        address: { kind: 'unix', path: this.socketFile, mode: 0o600, pid, other: 'another agent' },
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
    let answer: ExplainAnswer;
    if (request.headers['content-length'] !== undefined || request.headers['transfer-encoding'] !== undefined) {
      response.shouldKeepAlive = false;
      answer = errorAnswer(400, 'BAD_REQUEST', 'a request has no body here');
    } else {
      try {
        answer = await this.#deps.service.answer(request.method ?? '', request.url ?? '');
      } catch (error) {
        this.#deps.log.error({ err: error }, 'a question could not be answered');
        answer = errorAnswer(500, 'INTERNAL', `this agent cannot answer: ${errorMessage(error)}`);
      }
    }
    const body = `${JSON.stringify(answer.body)}\n`;
    response.writeHead(answer.httpStatus, {
      'content-type': 'application/json',
      'content-length': Buffer.byteLength(body),
      ...(answer.httpStatus === 405 && { allow: 'GET, HEAD' }),
    });
    response.end(request.method === 'HEAD' ? undefined : body);
  }
}
