import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http';
import { request as connect } from 'node:https';
import type { Duplex } from 'node:stream';
import { errorMessage, type Logger, systemClock } from '../../base/index.ts';
import { letGoSoon, refuseUpgrade } from '../../http/index.ts';
import type { VmApi } from '../../web/index.ts';
import { unreachable } from './explain.ts';
import { type AgentTarget, type FindAgent, tlsOptionsOf } from './target.ts';
import { type Attempt, whereItIs } from './where-it-is.ts';

export interface AgentProxyDeps {
  readonly find: FindAgent;
  readonly log: Logger;
}

/** What the agent gets of the caller's request; cookies, tokens and origins of the page are not its business. */
const passedOn = ['accept', 'content-type', 'content-length', 'transfer-encoding'] as const;
const passedOnUpgrade = ['sec-websocket-key', 'sec-websocket-version', 'sec-websocket-protocol'] as const;
const passedBack = ['content-type', 'content-length', 'allow'] as const;
const passedBackOnUpgrade = ['sec-websocket-accept', 'sec-websocket-protocol'] as const;
const connectTimeoutMs = 10_000;
const lingerMs = 5_000;

/**
 * Passes requests and websockets on to the agent as virt-api does: the handshake with the caller's own key, then raw bytes both
 * ways, so that frames, pings and close frames arrive unchanged. The caller has been let in before.
 */
export class AgentProxy implements VmApi {
  readonly #deps: AgentProxyDeps;

  constructor(deps: AgentProxyDeps) {
    this.#deps = deps;
  }

  handle(request: IncomingMessage, response: ServerResponse): void {
    this.#handle(request, response).catch((error: unknown) => {
      this.#deps.log.debug({ reason: errorMessage(error), path: request.url }, 'a request could not be passed on');
      if (response.headersSent) response.destroy();
      else refuse(response, errorMessage(error));
    });
  }

  upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void {
    // A caller that goes away in the middle of it is no failure of this program.
    socket.on('error', () => undefined);
    this.#upgrade(request, socket, head).catch((error: unknown) => {
      this.#deps.log.debug({ reason: errorMessage(error), path: request.url }, 'a stream could not be passed on');
      if (!socket.destroyed) refuseUpgrade(socket, { httpStatus: 502, message: errorMessage(error) }, systemClock);
    });
  }

  async #handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const target = await this.#deps.find(request.url);
    await new Promise<void>((resolve, reject) => {
      const { method, url: path } = request;
      const call = connect({ ...where(target), method, path, headers: chosen(request.headers, passedOn) });
      response.once('close', () => {
        call.destroy();
        resolve();
      });
      call.once('error', (cause) => reject(unreachable(target, cause)));
      call.once('response', (answer) => {
        response.writeHead(answer.statusCode ?? 502, chosen(answer.headers, passedBack));
        answer.once('error', reject);
        answer.pipe(response);
      });
      request.pipe(call);
    });
  }

  async #upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): Promise<void> {
    const gone = new AbortController();
    const onClose = () => gone.abort(new Error('the caller has gone'));
    socket.once('close', onClose);
    try {
      await whereItIs(this.#deps.find, request.url ?? '', gone.signal, (target) =>
        upgradeAt(target, { request, socket, head, signal: gone.signal }),
      );
    } catch (error) {
      if (!gone.signal.aborted) throw error;
    } finally {
      socket.off('close', onClose);
    }
  }
}

interface Upgrade {
  readonly request: IncomingMessage;
  readonly socket: Duplex;
  readonly head: Buffer;
  readonly signal: AbortSignal;
}

/** Joined, or the agent's answer, of which nothing is passed on yet. */
function upgradeAt(target: AgentTarget, { request, socket, head, signal }: Upgrade): Promise<Attempt<void>> {
  const headers = {
    ...chosen(request.headers, passedOnUpgrade),
    connection: 'Upgrade',
    upgrade: request.headers.upgrade ?? 'websocket',
  };
  return new Promise((resolve, reject) => {
    const call = connect({ ...where(target), method: 'GET', path: request.url, headers, timeout: connectTimeoutMs });
    const onGone = () => {
      call.destroy();
      reject(signal.reason);
    };
    signal.addEventListener('abort', onGone, { once: true });
    call.once('timeout', () => call.destroy(new Error(`no answer in ${connectTimeoutMs} ms`)));
    call.once('error', (cause) => reject(unreachable(target, cause)));
    call.once('response', (answer) => {
      // Of an answer that waits for a VMI on its way nobody reads the end; the call goes when the caller does.
      resolve({ kind: 'refused', give: () => passBack(answer, socket) });
    });
    call.once('upgrade', (answer, agent, first) => {
      signal.removeEventListener('abort', onGone);
      const back = { ...chosen(answer.headers, passedBackOnUpgrade), connection: 'Upgrade', upgrade: 'websocket' };
      socket.write(headOf(answer, back));
      if (first.length > 0) socket.write(first);
      if (head.length > 0) agent.write(head);
      join(socket, agent);
      resolve({ kind: 'done', value: undefined });
    });
    call.end();
  });
}

function passBack(answer: IncomingMessage, socket: Duplex): Promise<void> {
  return new Promise((resolve, reject) => {
    socket.write(headOf(answer, chosen(answer.headers, passedBack)));
    answer.pipe(socket);
    answer.once('error', reject);
    answer.once('close', resolve);
    answer.once('end', () => {
      letGoSoon(socket, systemClock);
      resolve();
    });
  });
}

/** Raw bytes both ways; each side waits for the other, and the end of one is the end of both. */
function join(one: Duplex, other: Duplex): void {
  for (const [from, to] of [
    [one, other],
    [other, one],
  ] as const) {
    if ('setTimeout' in from && typeof from.setTimeout === 'function') from.setTimeout(0);
    if ('setNoDelay' in from && typeof from.setNoDelay === 'function') from.setNoDelay(true);
    from.on('error', () => to.destroy());
    from.once('close', () => endSoon(to));
    from.pipe(to);
  }
}

/** What was written is sent; a peer that does not take it, or does not close its side, is not waited for long. */
function endSoon(stream: Duplex): void {
  if (stream.destroyed) return;
  const timer = setTimeout(() => stream.destroy(), lingerMs);
  timer.unref();
  stream.once('close', () => clearTimeout(timer));
  stream.end(() => stream.destroy());
}

function where(target: AgentTarget) {
  const { host, port } = target;
  return { ...tlsOptionsOf(target), host, port, agent: false } as const;
}

function chosen(headers: IncomingHttpHeaders, names: readonly string[]): Record<string, string> {
  const found: Record<string, string> = {};
  for (const name of names) {
    const value = headers[name];
    if (value !== undefined) found[name] = String(value);
  }
  return found;
}

function headOf({ statusCode, statusMessage }: IncomingMessage, headers: Readonly<Record<string, string>>): string {
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}`);
  const closing = statusCode === 101 ? [] : ['connection: close'];
  return [`HTTP/1.1 ${statusCode} ${statusMessage}`, ...lines, ...closing, '', ''].join('\r\n');
}

function refuse(response: ServerResponse, text: string): void {
  response.writeHead(502, { 'content-type': 'text/plain; charset=utf-8' });
  response.end(`${text}\n`);
}
