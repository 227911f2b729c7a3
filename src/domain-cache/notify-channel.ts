import type { Socket } from 'node:net';
import { Server, type ServerUnaryCall, type sendUnaryData } from '@grpc/grpc-js';
import { connectionInjector, notify, notifyInfo, serverOptions, supportedVersions } from '../wire/index.ts';
import type { NotifyIntake } from './notify-intake.ts';

/** The notify service for exactly one launcher process. Its sender is known from the connection. */
export class NotifyChannel {
  readonly intake: NotifyIntake;
  readonly #sockets = new Set<Socket>();
  /** Made for the first connection: an agent that starts among many launchers would make one for each, most of which say nothing for hours. */
  #served: { readonly server: Server; readonly inject: (socket: Socket) => void } | undefined;
  #closed = false;

  constructor(intake: NotifyIntake) {
    this.intake = intake;
  }

  /** Takes a connection of this launcher. */
  accept(socket: Socket): void {
    if (this.#closed || this.intake.isShut) {
      socket.destroy();
      return;
    }
    const [oldest] = this.#sockets;
    if (this.#sockets.size >= this.intake.limits.connections) oldest?.destroy();
    this.#sockets.add(socket);
    socket.once('close', () => this.#sockets.delete(socket));
    this.#served ??= this.#serve();
    this.#served.inject(socket);
  }

  close(): void {
    this.#closed = true;
    this.#hangUp();
    this.#served?.server.forceShutdown();
  }

  #serve() {
    const server = this.#createServer();
    return { server, inject: connectionInjector(server) };
  }

  #createServer(): Server {
    const server = new Server(
      serverOptions({
        'grpc.max_receive_message_length': this.intake.limits.messageBytes,
        'grpc.max_concurrent_streams': 4,
      }),
    );
    const info: notifyInfo.NotifyInfoServer = {
      info: (_call, answer) => answer(null, { supportedNotifyVersions: [...supportedVersions] }),
    };
    const service: notify.NotifyServer = {
      handleDomainEvent: this.#answering((request: notify.DomainEventRequest) => this.intake.domainEvent(request)),
      handleK8SEvent: this.#answering((request: notify.K8sEventRequest) => this.intake.kubernetesEvent(request)),
    };
    server.addService(notifyInfo.NotifyInfoService, info);
    server.addService(notify.NotifyService, service);
    return server;
  }

  #answering<Request>(handle: (request: Request) => notify.Response) {
    return (call: ServerUnaryCall<Request, notify.Response>, answer: sendUnaryData<notify.Response>) => {
      const response = handle(call.request);
      if (this.intake.isShut) this.#hangUp();
      answer(null, response);
    };
  }

  #hangUp(): void {
    for (const socket of this.#sockets) socket.destroy();
  }
}
