import type { Duplex } from 'node:stream';
import type { Clock } from '../base/index.ts';
import { CallQueue, type PendingCall } from './call-queue.ts';
import type { LibvirtCallOptions } from './calls/connection-calls.ts';
import { decodeWith, encodeWith } from './codec.ts';
import { clientError, fromWireError, isLibvirtError, type LibvirtError, wireError } from './error.ts';
import {
  encodePacket,
  headerBytes,
  maxPacketBytes,
  type Packet,
  PacketSplitter,
  PacketStatus,
  PacketType,
} from './frame.ts';
import { type KeepaliveOptions, KeepaliveProcedure, KeepaliveTimer, keepalivePacket } from './keepalive.ts';
import { type Procedure, Program } from './procedures.ts';
import { RpcStream } from './stream.ts';

export interface RpcLimits {
  /** Longest packet that is accepted and sent. */
  readonly maxPacketBytes: number;
  /**
   * Calls sent and not answered. Must stay below the daemon's `max_client_requests` (5): at that number it stops reading
   * the socket, keepalive answers included (docs/kbase/internals/rpc.rst of libvirt).
   */
  readonly maxInFlightCalls: number;
  /** Calls that wait for a free slot. */
  readonly maxQueuedCalls: number;
  /** Unread bytes of a stream at which the connection is no longer read. */
  readonly streamHighWaterBytes: number;
  /** Bytes the daemon has not taken yet, above which its pings go unanswered. */
  readonly maxUnsentBytes: number;
}

/** The daemon queues the reply right behind its first data; one packet has been seen before it. */
const maxEarlyPackets = 16;
const maxEarlyBytes = 4 * 1024 * 1024;

const defaultRpcLimits: RpcLimits = {
  maxPacketBytes,
  maxInFlightCalls: 4,
  maxQueuedCalls: 1000,
  streamHighWaterBytes: 1024 * 1024,
  maxUnsentBytes: 1024 * 1024,
};

export interface RpcConnectionOptions {
  readonly callTimeoutMs: number;
  readonly limits?: Partial<RpcLimits>;
}

export interface RpcConnectionDeps {
  /** A connected socket; the connection owns it. */
  readonly socket: Duplex;
  readonly clock: Clock;
  /** Event messages, in order. */
  readonly onMessage: (packet: Packet) => void;
  /** A packet that the protocol allows to be ignored; for counters and logs. */
  readonly onIgnored?: (reason: string, packet: Packet) => void;
}

/**
 * Calls, replies and streams over one socket. Packets are routed by type first: events carry serial 1 like a call's.
 * Any end of the socket rejects every pending call with `CONNECTION_LOST`; a packet that breaks the protocol ends it.
 */
export class RpcConnection {
  readonly closed: Promise<{ readonly cause?: Error }>;
  readonly #deps: RpcConnectionDeps;
  readonly #limits: RpcLimits;
  readonly #splitter: PacketSplitter;
  readonly #calls: CallQueue;
  /** Stream packets that came before the reply of their call, by serial. */
  readonly #early = new Map<number, Packet[]>();
  readonly #streams = new Map<number, { readonly procedure: number; readonly stream: RpcStream }>();
  readonly #settleClosed: (result: { readonly cause?: Error }) => void;
  #keepalive: KeepaliveTimer | undefined;
  #open = true;
  #holds = 0;

  constructor(options: RpcConnectionOptions, deps: RpcConnectionDeps) {
    this.#deps = deps;
    this.#limits = { ...defaultRpcLimits, ...options.limits };
    this.#splitter = new PacketSplitter(this.#limits.maxPacketBytes);
    const { callTimeoutMs } = options;
    const { maxInFlightCalls, maxQueuedCalls } = this.#limits;
    this.#calls = new CallQueue(
      { callTimeoutMs, maxInFlightCalls, maxQueuedCalls },
      {
        clock: deps.clock,
        send: (call) => this.#sendCall(call),
        onStalled: () =>
          this.#end(clientError('CONNECTION_LOST', 'every place for calls is held by one without answer')),
      },
    );
    let settle: (result: { readonly cause?: Error }) => void = () => undefined;
    this.closed = new Promise((resolve) => {
      settle = resolve;
    });
    this.#settleClosed = settle;
    this.#listen(deps.socket);
  }

  get isOpen(): boolean {
    return this.#open;
  }

  /** Bytes held for an unfinished packet. */
  get reservedBytes(): number {
    return this.#splitter.reservedBytes;
  }

  /** Pings the daemon from now on; a hung one ends the connection. Pings of the daemon are always answered. */
  startKeepalive(options: KeepaliveOptions): void {
    this.#keepalive?.stop();
    this.#keepalive = new KeepaliveTimer(options, {
      clock: this.#deps.clock,
      sendPing: () => this.#sendKeepalive(KeepaliveProcedure.PING),
      onDead: () => this.#end(clientError('CONNECTION_LOST', `no sign of life after ${options.count} keepalive pings`)),
    });
    if (this.#open) this.#keepalive.start();
  }

  /** Sends one call and waits for its reply. Throws `LibvirtError`. */
  async call<Args, Reply>(
    procedure: Procedure<Args, Reply>,
    args: Args,
    options: LibvirtCallOptions = {},
  ): Promise<Reply> {
    const { payload } = await this.#calls.add(this.#prepare(procedure, args), options);
    return decodeReply(procedure, payload);
  }

  /** Like `call`, for a procedure that opens a stream. */
  async openStream<Args, Reply>(
    procedure: Procedure<Args, Reply>,
    args: Args,
    options: LibvirtCallOptions = {},
  ): Promise<{ readonly reply: Reply; readonly stream: RpcStream }> {
    const prepared = { ...this.#prepare(procedure, args), opensStream: true };
    const { payload, stream } = await this.#calls.add(prepared, options);
    if (!stream) throw clientError('PROTOCOL_VIOLATION', `procedure ${procedure.number} opened no stream`);
    try {
      return { reply: decodeReply(procedure, payload), stream };
    } catch (error) {
      stream.abort();
      throw error;
    }
  }

  /** Ends the connection from this side; pending calls get `CONNECTION_LOST`. */
  close(): void {
    this.#end(undefined);
  }

  #prepare<Args, Reply>(
    procedure: Procedure<Args, Reply>,
    args: Args,
  ): { program: number; procedure: number; payload: Buffer } {
    const payload = encodeArguments(procedure, args);
    if (payload.length + headerBytes > this.#limits.maxPacketBytes) {
      throw clientError('INVALID_ARGUMENT', `arguments of ${payload.length} bytes do not fit one packet`);
    }
    return { program: procedure.program, procedure: procedure.number, payload };
  }

  #listen(socket: Duplex): void {
    let failure: Error | undefined;
    socket.on('data', (chunk: Buffer) => this.#receive(chunk));
    socket.on('error', (error: Error) => {
      failure = error;
    });
    socket.on('end', () => socket.destroy());
    socket.on('close', () => {
      this.#end(clientError('CONNECTION_LOST', 'the daemon closed the connection', failure));
    });
  }

  #receive(chunk: Buffer): void {
    this.#keepalive?.heard();
    try {
      for (const packet of this.#splitter.push(chunk)) {
        if (!this.#open) return;
        this.#route(packet);
      }
    } catch (error) {
      this.#end(isLibvirtError(error) ? error : clientError('PROTOCOL_VIOLATION', 'unreadable packet', error));
    }
  }

  #route(packet: Packet): void {
    if (packet.program === Program.KEEPALIVE) {
      this.#receiveKeepalive(packet);
      return;
    }
    switch (packet.type) {
      case PacketType.REPLY:
        this.#receiveReply(packet);
        break;
      case PacketType.MESSAGE:
        this.#deps.onMessage(packet);
        break;
      case PacketType.STREAM:
        this.#receiveStream(packet);
        break;
      case PacketType.STREAM_HOLE:
        this.#ignored('stream hole that was not asked for', packet);
        break;
      default:
        throw clientError('PROTOCOL_VIOLATION', `packet of type ${packet.type} from the daemon`);
    }
  }

  #receiveKeepalive(packet: Packet): void {
    if (packet.type !== PacketType.MESSAGE)
      throw clientError('PROTOCOL_VIOLATION', 'keepalive packet is not a message');
    if (packet.procedure === KeepaliveProcedure.PING) this.#sendKeepalive(KeepaliveProcedure.PONG);
    else if (packet.procedure !== KeepaliveProcedure.PONG) this.#ignored('unknown keepalive message', packet);
  }

  #receiveReply(packet: Packet): void {
    const { serial, program, procedure, status, payload } = packet;
    const call = this.#calls.take(serial);
    if (!call) {
      this.#ignored('reply to no call', packet);
      return;
    }
    if (call.program !== program || call.procedure !== procedure) {
      const error = clientError(
        'PROTOCOL_VIOLATION',
        `reply ${serial} is for procedure ${procedure}, not ${call.procedure}`,
      );
      call.reject(error);
      throw error;
    }
    if (status === PacketStatus.OK) {
      // Made at once, not when the caller goes on: data may follow the reply in the same read.
      const stream = call.opensStream ? this.#openStreamOf(call) : undefined;
      for (const early of this.#takeEarly(serial)) stream?.receive(early.status, early.payload);
      if (!call.wanted) stream?.abort();
      else call.resolve(stream ? { payload, stream } : { payload });
    } else if (status === PacketStatus.ERROR) {
      this.#takeEarly(serial);
      call.reject(decodeError(payload));
    } else {
      const error = clientError('PROTOCOL_VIOLATION', `reply with status ${status}`);
      call.reject(error);
      throw error;
    }
  }

  #openStreamOf(call: PendingCall): RpcStream {
    const { serial, program, procedure } = call;
    const packet = { program, version: 1, procedure, type: PacketType.STREAM, serial };
    const stream = new RpcStream(
      {
        send: (status, payload) => this.#send({ ...packet, status, payload }),
        holdReading: (hold) => this.#holdReading(hold),
        release: () => this.#streams.delete(serial),
      },
      this.#limits.streamHighWaterBytes,
    );
    this.#streams.set(serial, { procedure, stream });
    return stream;
  }

  #receiveStream(packet: Packet): void {
    const entry = this.#streams.get(packet.serial);
    if (entry?.procedure === packet.procedure) entry.stream.receive(packet.status, packet.payload);
    else if (this.#calls.sent(packet.serial)?.opensStream) this.#keepEarly(packet);
    else this.#ignored('data of no stream', packet);
  }

  /** The daemon's stream runs in a thread of its own: its first data may overtake the reply of the call. */
  #keepEarly(packet: Packet): void {
    const early = this.#early.get(packet.serial) ?? [];
    early.push(packet);
    this.#early.set(packet.serial, early);
    const bytes = early.reduce((sum, { payload }) => sum + payload.length, 0);
    if (early.length > maxEarlyPackets || bytes > maxEarlyBytes) {
      throw clientError('PROTOCOL_VIOLATION', `stream ${packet.serial} sends data without a reply to its call`);
    }
  }

  #takeEarly(serial: number): readonly Packet[] {
    const early = this.#early.get(serial) ?? [];
    this.#early.delete(serial);
    return early;
  }

  #holdReading(hold: boolean): void {
    this.#holds += hold ? 1 : -1;
    if (this.#holds > 0) {
      // What is not read cannot be heard: nothing is concluded about the daemon meanwhile.
      this.#keepalive?.stop();
      this.#deps.socket.pause();
    } else if (this.#open) {
      this.#keepalive?.start();
      this.#deps.socket.resume();
    }
  }

  #sendCall(call: PendingCall): void {
    const { program, procedure, serial, payload } = call;
    const packet = { program, version: 1, procedure, type: PacketType.CALL, serial, status: PacketStatus.OK, payload };
    this.#deps.socket.write(encodePacket(packet));
  }

  async #send(packet: Packet): Promise<void> {
    const { socket } = this.#deps;
    if (!this.#open || socket.write(encodePacket(packet))) return;
    const drained = new Promise<void>((resolve) => socket.once('drain', resolve));
    await Promise.race([drained, this.closed]);
  }

  /** A daemon that pings but does not read must not fill this process. */
  #sendKeepalive(procedure: number): void {
    if (this.#open && this.#deps.socket.writableLength <= this.#limits.maxUnsentBytes) {
      this.#deps.socket.write(encodePacket(keepalivePacket(procedure)));
    }
  }

  #ignored(reason: string, packet: Packet): void {
    this.#deps.onIgnored?.(reason, packet);
  }

  #end(cause: LibvirtError | undefined): void {
    if (!this.#open) return;
    this.#open = false;
    this.#keepalive?.stop();
    this.#deps.socket.destroy();
    const message = cause ? `connection to libvirt lost: ${cause.message}` : 'connection to libvirt was closed here';
    const lost = () => clientError('CONNECTION_LOST', message, cause);
    this.#calls.end(lost);
    for (const { stream } of [...this.#streams.values()]) stream.fail(lost());
    this.#streams.clear();
    this.#early.clear();
    this.#settleClosed(cause ? { cause } : {});
  }
}

function encodeArguments<Args, Reply>(procedure: Procedure<Args, Reply>, args: Args): Buffer {
  try {
    return encodeWith(procedure.args, args);
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw clientError('INVALID_ARGUMENT', `argument of procedure ${procedure.number}: ${reason}`, cause);
  }
}

function decodeReply<Args, Reply>(procedure: Procedure<Args, Reply>, payload: Buffer): Reply {
  try {
    return decodeWith(procedure.reply, payload);
  } catch (cause) {
    throw clientError('PROTOCOL_VIOLATION', `unreadable reply to procedure ${procedure.number}`, cause);
  }
}

function decodeError(payload: Buffer): LibvirtError {
  try {
    return fromWireError(decodeWith(wireError, payload));
  } catch (cause) {
    return clientError('PROTOCOL_VIOLATION', 'the daemon answered with an unreadable error', cause);
  }
}
