import type { IncomingMessage } from 'node:http';
import { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { type ServerOptions, type WebSocket, WebSocketServer } from 'ws';
import { type Clock, errorMessage, type Logger } from '../base/index.ts';
import { type PlainAnswer, refuseUpgrade } from '../http/index.ts';
import { isByGuest, type SessionEnd, sessionEnd } from './close.ts';
import { answerOf, closedMeanwhile, GuestConnector } from './guest-connection.ts';
import { awareProtocol, chooseProtocol, upgradeProblem } from './handshake.ts';
import { Session } from './session.ts';
import { type Prepared, SessionRegistry } from './session-registry.ts';
import type { StreamOptions } from './stream-options.ts';
import { StreamRefusal, type StreamRequest } from './stream-request.ts';

export interface StreamServerDeps {
  readonly clock: Clock;
  readonly log: Logger;
  /** A name that was never used before. */
  readonly newId: () => string;
  /** The first session is open, or the last one has ended. */
  readonly onUse?: (isUsed: boolean) => void;
  /** Where a guest goes on that has left its place here; undefined: it has not moved. */
  readonly movedTo?: (guest: GuestName) => string | undefined;
}

/** A VMI as requests name it. */
type GuestName = Pick<StreamRequest, 'uid' | 'shown'>;

/** One session as it is now. */
export interface SessionState {
  readonly kind: StreamRequest['kind'];
  readonly uid: string;
  readonly shown: string;
  readonly role: 'writer' | 'viewer';
  readonly protocol: string;
  readonly ageMs: number;
  /** To the client. */
  readonly sentBytes: number;
  readonly receivedBytes: number;
  readonly bufferedBytes: number;
}

interface Running {
  readonly session: Session;
  readonly stream: StreamRequest;
  readonly websocket: WebSocket;
  readonly sinceMs: number;
}

const busy: PlainAnswer = { httpStatus: 503, message: 'Active VNC connection. Request denied.' };
const leaving: PlainAnswer = { httpStatus: 503, message: 'the agent is leaving; ask again in a moment' };

/**
 * Makes sessions of upgrade requests. The order is: look at the request, connect to the guest, answer 101, take
 * over; so whatever fails before leaves a running session alone.
 */
export class StreamServer {
  readonly #options: StreamOptions;
  readonly #deps: StreamServerDeps;
  readonly #registry: SessionRegistry;
  readonly #connector: GuestConnector;
  readonly #websockets: WebSocketServer;
  readonly #running = new Set<Running>();
  /** From the request on, until it is a session or refused. */
  readonly #admitting = new Set<StreamRequest>();
  /** Ended, but their connection is not closed yet. */
  readonly #connections = new Set<WebSocket>();
  #isLeaving = false;
  readonly #whenIdle: (() => void)[] = [];

  constructor(options: StreamOptions, deps: StreamServerDeps) {
    this.#options = options;
    this.#deps = deps;
    this.#registry = new SessionRegistry(options, deps);
    this.#connector = new GuestConnector(options.connectTimeoutMs, deps.clock);
    // The types do not know closeTimeout yet.
    const settings: ServerOptions & { readonly closeTimeout: number } = {
      noServer: true,
      clientTracking: false,
      perMessageDeflate: false,
      maxPayload: options.maxMessageBytes,
      closeTimeout: options.closeTimeoutMs,
      // Text is ignored or JSON, and upstream takes any text.
      skipUTF8Validation: true,
      handleProtocols: chooseProtocol,
    };
    this.#websockets = new WebSocketServer(settings);
    this.#websockets.on('wsClientError', (error, socket) => {
      refuseUpgrade(socket, { httpStatus: 400, message: error.message }, deps.clock);
    });
  }

  /** Takes over the connection: a session, or a plain answer that says why not. `head` is what came with the request. */
  serve(request: IncomingMessage, socket: Duplex, head: Buffer, stream: StreamRequest): void {
    this.#admitting.add(stream);
    this.#admit(request, socket, head, stream)
      .catch((error: unknown) => {
        this.#deps.log.error({ ...about(stream), error: errorMessage(error) }, 'stream failed');
        socket.destroy();
      })
      .finally(() => this.#admitting.delete(stream));
  }

  /** The VMI is gone, or another one: nothing of it goes on. */
  endAll(uid: string, reason: string): void {
    this.#connector.giveUp(new StreamRefusal('FAILED', 503, reason), uid);
    this.#registry.end(uid, sessionEnd('gone', reason));
  }

  /** The VMI goes on at another node: clients come again, and are led there. */
  moveAll(uid: string, node: string): void {
    const end = movedEnd(node);
    this.#connector.giveUp(new StreamRefusal('FAILED', 503, end.reason), uid);
    this.#registry.end(uid, end);
  }

  /** The agent leaves. Resolves when all connections are closed, within seconds. */
  async close(): Promise<void> {
    this.#isLeaving = true;
    this.#connector.giveUp(new StreamRefusal('BUSY', 503, leaving.message));
    this.#registry.endAll(sessionEnd('leaving', 'the agent is restarting; connect again'));
    if (this.#connections.size > 0) await new Promise<void>((resolve) => this.#whenIdle.push(resolve));
  }

  /** UIDs of the guests shown under this name that have anything `endAll` ends: sessions, requests for one, broadcasts without a session. */
  uidsOf(shown: string): ReadonlySet<string> {
    const uids = new Set<string>();
    const take = (stream: GuestName) => {
      if (stream.shown === shown) uids.add(stream.uid);
    };
    for (const vmi of this.#registry.broadcasts.values()) take(vmi);
    for (const stream of this.#admitting) take(stream);
    for (const { stream } of this.#running) take(stream);
    return uids;
  }

  get openSessions(): number {
    return this.#running.size;
  }

  sessions(): SessionState[] {
    const nowMs = this.#deps.clock.monotonicMs();
    return [...this.#running].map(({ session, stream, websocket, sinceMs }) => ({
      kind: stream.kind,
      uid: stream.uid,
      shown: stream.shown,
      role: session.role,
      protocol: websocket.protocol,
      ageMs: nowMs - sinceMs,
      sentBytes: session.sentBytes,
      receivedBytes: session.receivedBytes,
      bufferedBytes: session.bufferedBytes,
    }));
  }

  async #admit(request: IncomingMessage, socket: Duplex, head: Buffer, stream: StreamRequest): Promise<void> {
    const onError = () => socket.destroy();
    socket.on('error', onError);
    const problem = upgradeProblem(request) ?? this.#denial(stream);
    const prepared = problem ?? (await this.#prepare(stream));
    if ('httpStatus' in prepared) {
      this.#refuse(socket, stream, prepared);
      return;
    }
    const late = this.#denial(stream) ?? (prepared.isOpen ? undefined : closedMeanwhile);
    if (late) this.#refuse(socket, stream, late);
    else socket.off('error', onError);
    if (late || !this.#upgrade(request, socket, head, stream, prepared)) prepared.release();
  }

  #prepare(stream: StreamRequest): Promise<Prepared | PlainAnswer> {
    return this.#registry.prepare(stream, (asked) => this.#connector.connect(asked)).catch(answerOf);
  }

  #refuse(socket: Duplex, stream: StreamRequest, answer: PlainAnswer): void {
    this.#deps.log.info({ ...about(stream), ...answer }, 'stream refused');
    refuseUpgrade(socket, answer, this.#deps.clock);
  }

  #denial(stream: StreamRequest): PlainAnswer | undefined {
    if (this.#isLeaving) return leaving;
    return stream.access === 'take-if-free' && this.#registry.hasWriter(stream) ? busy : undefined;
  }

  /** False: the connection broke, or the library found more to object to than we did. Both happen at once. */
  #upgrade(request: IncomingMessage, socket: Duplex, head: Buffer, stream: StreamRequest, prepared: Prepared): boolean {
    let hasJoined = false;
    this.#websockets.handleUpgrade(request, socket, head, (websocket) => {
      hasJoined = true;
      this.#start(websocket, socket, stream, prepared);
    });
    return hasJoined;
  }

  #start(websocket: WebSocket, socket: Duplex, stream: StreamRequest, prepared: Prepared): void {
    const { clock, log } = this.#deps;
    const isAware = websocket.protocol === awareProtocol;
    const sinceMs = clock.monotonicMs();
    const onEnd = ({ code, reason }: SessionEnd) => {
      this.#running.delete(running);
      if (this.#running.size === 0) this.#deps.onUse?.(false);
      const { sentBytes, receivedBytes } = session;
      log.info(
        { ...about(stream), code, reason, sentBytes, receivedBytes, ageMs: clock.monotonicMs() - sinceMs },
        'session ended',
      );
    };
    const { pingIntervalMs } = this.#options;
    const explainEnd = (end: SessionEnd) => {
      const node = isByGuest(end) ? this.#deps.movedTo?.(stream) : undefined;
      return node === undefined ? end : movedEnd(node);
    };
    const session = new Session({ isAware, pingIntervalMs, explainEnd }, { websocket, socket, clock, onEnd });
    const running = { session, stream, websocket, sinceMs };
    this.#running.add(running);
    if (this.#running.size === 1) this.#deps.onUse?.(true);
    this.#connections.add(websocket);
    websocket.on('close', () => this.#closed(websocket));
    const from = socket instanceof Socket ? socket.remoteAddress : undefined;
    log.info({ ...about(stream), access: stream.access, protocol: websocket.protocol, from }, 'session started');
    prepared.join(session);
  }

  #closed(websocket: WebSocket): void {
    this.#connections.delete(websocket);
    if (this.#connections.size > 0) return;
    for (const resolve of this.#whenIdle.splice(0)) resolve();
  }
}

function movedEnd(node: string): SessionEnd {
  return sessionEnd('moved', `the virtual machine goes on at node ${node}`);
}

/** Of each log line. */
function about({ shown, uid, kind }: StreamRequest) {
  return { vmi: shown, uid, stream: kind };
}
