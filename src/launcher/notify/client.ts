import { existsSync } from 'node:fs';
import { credentials, Metadata, type ServiceError } from '@grpc/grpc-js';
import type { Domain } from '../../api/index.ts';
import type { Clock } from '../../base/index.ts';
import { PathWatch } from '../../host/index.ts';
import { clientOptions, negotiateVersion, notify, notifyInfo, type UnixPath, unixTarget } from '../../wire/index.ts';
import type { VmiIdentity } from '../domain/index.ts';
import type { LauncherEvent } from '../ports.ts';
import type { DomainEventType, NotifyReply, NotifySender } from './notifier.ts';

export interface NotifyClientOptions {
  readonly socketPath: string;
  readonly identity: VmiIdentity;
  /** One call, version check included in the first one's. Default 5000, as upstream's. */
  readonly callTimeoutMs?: number;
}

interface Connection {
  readonly name: UnixPath;
  readonly client: notify.NotifyClient;
}

/** For mounts whose changes the kernel does not report. */
const pipeRecheckMs = 5000;
const noStatus = Buffer.alloc(0);

/**
 * The agent's end of the notify pipe. One connection, kept between calls; after any failure it is closed, so that the next
 * call connects to the listener of that time. Not for calls side by side: the notifier sends one after the other.
 */
export class NotifyClient implements NotifySender {
  readonly #options: NotifyClientOptions;
  readonly #timeoutMs: number;
  #connection: Connection | undefined;

  constructor(options: NotifyClientOptions) {
    this.#options = options;
    this.#timeoutMs = options.callTimeoutMs ?? 5000;
  }

  async sendDomain(domain: Domain, type: DomainEventType): Promise<NotifyReply> {
    const request = { domainJSON: Buffer.from(JSON.stringify(domain)), statusJSON: noStatus, eventType: type };
    return this.#send((client, options, done) => client.handleDomainEvent(request, new Metadata(), options, done));
  }

  async sendEvent(event: LauncherEvent): Promise<NotifyReply> {
    const request = { eventJSON: encodeVmiEvent(event, this.#options.identity) };
    return this.#send((client, options, done) => client.handleK8SEvent(request, new Metadata(), options, done));
  }

  close(): void {
    this.#connection?.client.close();
    this.#connection?.name.close();
    this.#connection = undefined;
  }

  async #send(call: (client: notify.NotifyClient, ...rest: UnaryRest<NotifyReply>) => void): Promise<NotifyReply> {
    const options = { deadline: Date.now() + this.#timeoutMs };
    try {
      const client = this.#connection?.client ?? (await this.#connect(options));
      return await unary<NotifyReply>((done) => call(client, options, done));
    } catch (error) {
      this.close();
      throw error;
    }
  }

  /** Nothing else is called before the versions are known to fit (`pkg/handler-launcher-com`). */
  async #connect(options: { deadline: number }): Promise<notify.NotifyClient> {
    const name = unixTarget(this.#options.socketPath);
    const insecure = credentials.createInsecure();
    const client = new notify.NotifyClient(name.target, insecure, clientOptions());
    this.#connection = { name, client };
    const info = new notifyInfo.NotifyInfoClient(name.target, insecure, { channelOverride: client.getChannel() });
    const answer = await unary<notifyInfo.NotifyInfoResponse>((done) => info.info({}, new Metadata(), options, done));
    negotiateVersion(answer.supportedNotifyVersions);
    return client;
  }
}

/** Calls back when the agent has made a (new) notify pipe. The returned function ends it. */
export function watchPipe(socketPath: string, clock: Clock, onAppeared: () => void): () => void {
  const watch = new PathWatch({ recheckMs: pipeRecheckMs }, { clock });
  watch.watch(socketPath, () => {
    if (existsSync(socketPath)) onAppeared();
  });
  return () => watch.close();
}

type Done<T> = (error: ServiceError | null, answer: T) => void;
type UnaryRest<T> = [options: { deadline: number }, done: Done<T>];

function unary<T>(call: (done: Done<T>) => void): Promise<T> {
  return new Promise((resolve, reject) => {
    call((error, answer) => (error ? reject(error) : resolve(answer)));
  });
}

function encodeVmiEvent(event: LauncherEvent, { namespace, name, uid }: VmiIdentity): Buffer {
  const involvedObject = { kind: 'VirtualMachineInstance', apiVersion: 'kubevirt.io/v1', namespace, name, uid };
  const { reason, type, message } = event;
  return Buffer.from(JSON.stringify({ metadata: {}, involvedObject, reason, type, message, source: {} }));
}
