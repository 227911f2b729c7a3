import type { Socket } from 'node:net';
import { Server, type ServerUnaryCall, type sendUnaryData } from '@grpc/grpc-js';
import type { Domain } from '../api/index.ts';
import { type Clock, errorCode, errorMessage, type Logger } from '../base/index.ts';
import { isProcessAlive } from '../host/index.ts';
import { connectionInjector, notify, notifyInfo, serverOptions, supportedVersions } from '../wire/index.ts';
import { type Identity, readDomainEvent, readKubernetesEvent } from './notify-events.ts';
import type { LauncherEvent, LauncherProcess } from './ports.ts';
import { type BucketOptions, TokenBucket } from './token-bucket.ts';

/** What one launcher may cost this agent. A real one sends a few events a second, for a short time. */
export interface ChannelLimits {
  readonly events: BucketOptions;
  readonly eventBytes: BucketOptions;
  readonly kubernetesEvents: BucketOptions;
  /** A real launcher holds one; one more closes the oldest. */
  readonly connections: number;
  /** Events above the rate until the channel is shut for `penaltyMs`. */
  readonly refusedBeforePenalty: number;
  readonly penaltyMs: number;
  readonly messageBytes: number;
}

export const channelLimits: ChannelLimits = {
  events: { perSecond: 20, burst: 100 },
  eventBytes: { perSecond: 2 * 1024 * 1024, burst: 8 * 1024 * 1024 },
  kubernetesEvents: { perSecond: 0.2, burst: 25 },
  connections: 4,
  refusedBeforePenalty: 500,
  penaltyMs: 10_000,
  messageBytes: 2 * 1024 * 1024,
};

export interface ChannelHandlers {
  domain(domain: Domain): void;
  /** Events were skipped, or say nothing by themselves: the state has to be asked for. */
  stale(): void;
  kubernetesEvent(event: LauncherEvent): void;
}

export interface ChannelDeps {
  readonly handlers: ChannelHandlers;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly limits?: ChannelLimits;
}

/**
 * The notify service for exactly one launcher process. Who speaks is known from the connection; what a message claims
 * about its sender is only compared. Everything a launcher sends costs its own channel: rate, bytes, connections.
 */
export class NotifyChannel {
  readonly identity: Identity;
  readonly process: LauncherProcess;
  readonly #deps: ChannelDeps;
  readonly #limits: ChannelLimits;
  readonly #server: Server;
  readonly #inject: (socket: Socket) => void;
  readonly #sockets = new Set<Socket>();
  readonly #events: TokenBucket;
  readonly #bytes: TokenBucket;
  readonly #kubernetesEvents: TokenBucket;
  #refused = 0;
  #shutUntilMs = 0;
  #closed = false;
  #hasEnded = false;

  constructor(identity: Identity, process: LauncherProcess, deps: ChannelDeps) {
    this.identity = identity;
    this.process = process;
    this.#deps = deps;
    this.#limits = deps.limits ?? channelLimits;
    this.#events = new TokenBucket(this.#limits.events, deps.clock);
    this.#bytes = new TokenBucket(this.#limits.eventBytes, deps.clock);
    this.#kubernetesEvents = new TokenBucket(this.#limits.kubernetesEvents, deps.clock);
    this.#server = this.#createServer();
    this.#inject = connectionInjector(this.#server);
  }

  /** The launcher has said that its domain is no more. */
  get hasEnded(): boolean {
    return this.#hasEnded;
  }

  /** Whether `peer` is the process that this channel was made for. */
  isFor(peer: { readonly pid: number; readonly startTime: string }): boolean {
    return peer.pid === this.process.pid && peer.startTime === this.process.startTime;
  }

  /** Takes a connection of this launcher. */
  accept(socket: Socket): void {
    if (this.#closed || this.#deps.clock.monotonicMs() < this.#shutUntilMs) {
      socket.destroy();
      return;
    }
    const [oldest] = this.#sockets;
    if (this.#sockets.size >= this.#limits.connections) oldest?.destroy();
    this.#sockets.add(socket);
    socket.once('close', () => this.#sockets.delete(socket));
    this.#inject(socket);
  }

  close(): void {
    this.#closed = true;
    for (const socket of this.#sockets) socket.destroy();
    this.#server.forceShutdown();
  }

  #createServer(): Server {
    const server = new Server(
      serverOptions({
        'grpc.max_receive_message_length': this.#limits.messageBytes,
        'grpc.max_concurrent_streams': 4,
      }),
    );
    const info: notifyInfo.NotifyInfoServer = {
      info: (_call, answer) => answer(null, { supportedNotifyVersions: [...supportedVersions] }),
    };
    const service: notify.NotifyServer = {
      handleDomainEvent: this.#answering((request: notify.DomainEventRequest) => this.#onDomainEvent(request)),
      handleK8SEvent: this.#answering((request: notify.K8sEventRequest) => this.#onKubernetesEvent(request)),
    };
    server.addService(notifyInfo.NotifyInfoService, info);
    server.addService(notify.NotifyService, service);
    return server;
  }

  /** A refusal is an answer with success=false: launchers do not repeat those. */
  #answering<Request>(handle: (request: Request) => void) {
    return (call: ServerUnaryCall<Request, notify.Response>, answer: sendUnaryData<notify.Response>) => {
      try {
        handle(call.request);
        answer(null, { success: true, message: '' });
      } catch (error) {
        const { key, uid } = this.identity;
        const fields = { vmi: key, uid, code: errorCode(error), reason: errorMessage(error).slice(0, 300) };
        this.#deps.logger.warn(fields, 'launcher event refused');
        answer(null, { success: false, message: errorMessage(error) });
      }
    };
  }

  #onDomainEvent({ eventType, domainJSON }: notify.DomainEventRequest): void {
    const { handlers } = this.#deps;
    if (!this.#events.take() || !this.#bytes.take(domainJSON.length)) {
      this.#refuse();
      handlers.stale();
      return;
    }
    switch (eventType) {
      case 'ADDED':
      case 'MODIFIED': {
        const domain = readDomainEvent(domainJSON, this.identity);
        this.#hasEnded = domain.ObjectMeta.deletionTimestamp !== undefined;
        handlers.domain(domain);
        return;
      }
      case 'DELETED':
        readDomainEvent(domainJSON, this.identity);
        this.#hasEnded = true;
        handlers.stale();
        return;
      case 'ERROR':
        handlers.stale();
        return;
      default:
        return;
    }
  }

  #onKubernetesEvent({ eventJSON }: notify.K8sEventRequest): void {
    if (!this.#kubernetesEvents.take()) {
      this.#refuse();
      throw new Error('too many events');
    }
    this.#deps.handlers.kubernetesEvent(readKubernetesEvent(eventJSON, this.identity));
  }

  /** Above the rate nothing is parsed; who goes on for long is not even read from. */
  #refuse(): void {
    if (++this.#refused < this.#limits.refusedBeforePenalty) return;
    this.#refused = 0;
    this.#shutUntilMs = this.#deps.clock.monotonicMs() + this.#limits.penaltyMs;
    const { key, uid } = this.identity;
    this.#deps.logger.warn({ vmi: key, uid, penaltyMs: this.#limits.penaltyMs }, 'launcher floods the notify channel');
    for (const socket of this.#sockets) socket.destroy();
  }

  /** False is a proof that the launcher ended. */
  isProcessAlive(): boolean {
    return isProcessAlive(this.process);
  }
}
