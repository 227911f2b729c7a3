import { chmod, lstat, mkdir, rename, unlink } from 'node:fs/promises';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { createConnection } from 'node:net';
import path from 'node:path';
import { explainSocketName } from '../../../api/index.ts';
import {
  type Clock,
  CodedError,
  type Component,
  errorCode,
  errorMessage,
  type Logger,
  sleep,
} from '../../../base/index.ts';
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

/** The socket cannot be used now; the message says why. */
export class ExplainSocketError extends CodedError<'PATH_TOO_LONG' | 'NO_SOCKET' | 'IN_USE'> {}

/** `sun_path` has 108 bytes, the last one is NUL; Node.js 20 truncates what is longer without a word. */
const maxPathBytes = 107;
const retryMs = 10_000;
const probeTimeoutMs = 1_000;
const limits = { maxHeaderSize: 8 * 1024, headersTimeout: 5_000, requestTimeout: 5_000, keepAliveTimeout: 1_000 };
const maxConnections = 16;

/**
 * "Why" as HTTP on a Unix socket that only root reaches. A socket left behind is replaced; while another agent answers on it,
 * as during an update with surge, this one waits. The VM loop never depends on it: what fails here is logged and tried again.
 */
export class ExplainServer implements Component {
  readonly name = 'why';
  readonly socketFile: string;
  readonly #options: ExplainServerOptions;
  readonly #deps: ExplainServerDeps;
  readonly #stopping = new AbortController();
  #server: Server | undefined;
  #inode: number | undefined;
  #opening: Promise<void> | undefined;

  constructor(options: ExplainServerOptions, deps: ExplainServerDeps) {
    this.#options = options;
    this.#deps = deps;
    this.socketFile = path.join(options.privateDir, explainSocketName);
  }

  /** Resolves after the first try, whatever came of it. */
  async start(): Promise<void> {
    if (await this.#try(true)) return;
    this.#opening = this.#keepTrying();
  }

  async stop(): Promise<void> {
    this.#stopping.abort(new Error('why server stopped'));
    await this.#opening;
    await this.#close();
  }

  async #keepTrying(): Promise<void> {
    const { signal } = this.#stopping;
    while (!signal.aborted) {
      await sleep(retryMs, signal, this.#deps.clock).catch(() => undefined);
      if (signal.aborted || (await this.#try(false))) return;
    }
  }

  async #try(isFirst: boolean): Promise<boolean> {
    const { log } = this.#deps;
    try {
      await this.#open();
      log.info({ socket: this.socketFile }, 'decisions are told on a socket');
      return true;
    } catch (error) {
      const fields = { socket: this.socketFile, code: errorCode(error), reason: errorMessage(error) };
      log[isFirst ? 'warn' : 'debug'](fields, 'decisions cannot be told on the socket; tried again');
      return false;
    }
  }

  /** Bound under a name of its own, then moved over the public one: whoever dials meets the old or the new, never none. */
  async #open(): Promise<void> {
    const draft = path.join(this.#options.privateDir, `.${explainSocketName}.${this.#options.pid}`);
    if (Buffer.byteLength(draft) > maxPathBytes) {
      throw new ExplainSocketError(
        'PATH_TOO_LONG',
        `${this.socketFile} is too long for a Unix socket: choose a shorter directory`,
      );
    }
    await mkdir(this.#options.privateDir, { recursive: true });
    await assertFree(this.socketFile);
    await unlink(draft).catch(() => undefined);
    const server = this.#createServer();
    try {
      await listen(server, draft);
      await chmod(draft, 0o600);
      this.#inode = (await lstat(draft)).ino;
      await rename(draft, this.socketFile);
    } catch (error) {
      server.close();
      await unlink(draft).catch(() => undefined);
      throw error;
    }
    this.#server = server;
  }

  async #close(): Promise<void> {
    const server = this.#server;
    this.#server = undefined;
    if (!server) return;
    const own = await lstat(this.socketFile).catch(() => undefined);
    if (own?.ino === this.#inode) await unlink(this.socketFile).catch(() => undefined);
    const closed = new Promise<void>((resolve) => server.close(() => resolve()));
    server.closeAllConnections();
    await closed;
  }

  #createServer(): Server {
    const server = createServer(limits, (request, response) => void this.#serve(request, response));
    server.maxConnections = maxConnections;
    server.on('error', (error) =>
      this.#deps.log.warn({ reason: errorMessage(error) }, 'the socket of decisions failed'),
    );
    return server;
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

function listen(server: Server, file: string): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen(file, () => {
      server.off('error', reject);
      resolve();
    });
  });
}

/** Throws when something that is not ours to replace is in the way. */
async function assertFree(socketFile: string): Promise<void> {
  const found = await lstat(socketFile).catch(() => undefined);
  if (!found) return;
  if (!found.isSocket()) {
    throw new ExplainSocketError('NO_SOCKET', `${socketFile} is in the way and no socket: remove it`);
  }
  if (await isAnswered(socketFile)) {
    throw new ExplainSocketError(
      'IN_USE',
      `another agent answers on ${socketFile}: it is replaced when that one has left`,
    );
  }
}

/** Only a refused connection proves that nobody is there. */
function isAnswered(socketFile: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = createConnection(socketFile);
    const end = (isAlive: boolean) => {
      socket.destroy();
      resolve(isAlive);
    };
    socket.setTimeout(probeTimeoutMs, () => end(true));
    socket.once('connect', () => end(true));
    socket.once('error', (error) => end(!['ECONNREFUSED', 'ENOENT'].includes(errorCode(error) ?? '')));
  });
}
