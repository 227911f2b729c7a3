import type { IncomingMessage } from 'node:http';
import { request } from 'node:https';
import { WebSocket } from 'ws';
import { deadline } from '../../base/index.ts';
import { AgentRefusal, readAnswer, refusalOf, unreachable } from './explain.ts';
import { type AgentTarget, type FindAgent, tlsOptionsOf } from './target.ts';
import { whereItIs } from './where-it-is.ts';

export interface AgentAnswer {
  readonly contentType: string;
  readonly body: Buffer;
}

export interface AgentCallOptions {
  readonly body?: string;
  readonly signal?: AbortSignal;
  /** 60 s unless given: a freeze of file systems takes as long. */
  readonly timeoutMs?: number;
}

/** Screenshots of the largest screens. */
const maxAnswerBytes = 64 * 1024 * 1024;
/** Frames from the agent are 64 KiB at most; scrollback comes in one. */
const maxMessageBytes = 1024 * 1024;
const handshakeTimeoutMs = 10_000;

/**
 * The agent's console and lifecycle interface (upstream's cmd/virt-handler/virt-handler.go, runServer), spoken over mutual TLS.
 * Errors are NodeError: AgentRefusal, AGENT_AWAY, AGENT_FOREIGN.
 */
export class AgentApi {
  readonly #find: FindAgent;

  constructor(find: FindAgent) {
    this.#find = find;
  }

  /** One request. A status other than 2xx is an AgentRefusal with the agent's text. */
  async call(method: 'GET' | 'PUT', path: string, options: AgentCallOptions = {}): Promise<AgentAnswer> {
    const target = await this.#find(path);
    const signal = deadline(options.timeoutMs ?? 60_000, options.signal);
    const response = await exchange(target, { method, path, body: options.body, signal });
    const status = response.statusCode ?? 0;
    if (status < 200 || status > 299) throw await refusalOf(response);
    const body = await readAnswer(response, maxAnswerBytes);
    return { contentType: response.headers['content-type'] ?? '', body };
  }

  /** A websocket that is open and paused: listen, then `resume()`. An answer that is no upgrade is an AgentRefusal. */
  async stream(path: string, protocol: string, signal: AbortSignal): Promise<WebSocket> {
    return whereItIs(this.#find, path, signal, async (target) => {
      try {
        return { kind: 'done', value: await streamAt(target, path, protocol, signal) };
      } catch (error) {
        if (!(error instanceof AgentRefusal)) throw error;
        const give = () => Promise.reject(error);
        return { kind: 'refused', give };
      }
    });
  }
}

function streamAt(target: AgentTarget, path: string, protocol: string, signal: AbortSignal): Promise<WebSocket> {
  const socket = new WebSocket(`wss://${hostOf(target)}:${target.port}${path}`, [protocol], {
    ...tlsOptionsOf(target),
    perMessageDeflate: false,
    maxPayload: maxMessageBytes,
    handshakeTimeout: handshakeTimeoutMs,
  });
  return opened(socket, target, signal);
}

function opened(socket: WebSocket, target: AgentTarget, signal: AbortSignal): Promise<WebSocket> {
  return new Promise((resolve, reject) => {
    const fail = (reason: unknown) => {
      signal.removeEventListener('abort', onAbort);
      reject(reason);
      // Errors that follow its end have no reader.
      socket.on('error', () => undefined);
      socket.terminate();
    };
    const onAbort = () => fail(signal.reason);
    const onError = (cause: Error) => fail(unreachable(target, cause));
    signal.addEventListener('abort', onAbort, { once: true });
    socket.once('error', onError);
    socket.once('unexpected-response', (_request, response) => {
      socket.removeListener('error', onError);
      socket.on('error', () => undefined);
      refusalOf(response).then(fail, fail);
    });
    socket.once('open', () => {
      signal.removeEventListener('abort', onAbort);
      socket.removeListener('error', onError);
      socket.pause();
      resolve(socket);
    });
  });
}

interface Exchange {
  readonly method: string;
  readonly path: string;
  readonly body: string | undefined;
  readonly signal: AbortSignal;
}

function exchange(target: AgentTarget, { method, path, body, signal }: Exchange): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    const { host, port } = target;
    const headers = body === undefined ? {} : { 'content-type': 'application/json' };
    const call = request({ ...tlsOptionsOf(target), host, port, method, path, headers, signal, agent: false }, resolve);
    call.once('error', (cause) => reject(unreachable(target, signal.aborted ? signal.reason : cause)));
    call.end(body);
  });
}

function hostOf({ host }: AgentTarget): string {
  return host.includes(':') ? `[${host}]` : host;
}

/** Path of a VMI in the agent's interface. */
export function vmPath(namespace: string, name: string): string {
  const part = encodeURIComponent;
  return `/v1/namespaces/${part(namespace)}/virtualmachineinstances/${part(name)}`;
}
