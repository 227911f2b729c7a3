import { mkdtemp, rm } from 'node:fs/promises';
import { createServer, type Server, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { type Codec, decodeWith, encodeWith } from '../../../src/libvirt/codec.ts';
import { wireError } from '../../../src/libvirt/error.ts';
import { encodeEvent, eventTypes, type LibvirtEvent } from '../../../src/libvirt/events.ts';
import { encodePacket, type Packet, PacketSplitter, PacketStatus, PacketType } from '../../../src/libvirt/frame.ts';
import { type Procedure, Program, procedures } from '../../../src/libvirt/procedures.ts';

/** One client's side in the fake daemon. */
export class Peer {
  readonly socket: Socket;
  /** Packets of the client that are not calls: stream data, keepalive. */
  readonly packets: Packet[] = [];

  constructor(socket: Socket) {
    this.socket = socket;
  }

  send(packet: Partial<Packet>): void {
    this.socket.write(packetBytes(packet));
  }

  sendEvent(callbackId: number, event: LibvirtEvent): void {
    this.send({
      procedure: eventTypes[event.kind].procedure,
      type: PacketType.MESSAGE,
      serial: 1,
      payload: encodeEvent(callbackId, event),
    });
  }

  sendStream(call: Packet, status: number, payload: Buffer = Buffer.alloc(0)): void {
    this.send({ ...call, type: PacketType.STREAM, status, payload });
  }

  reply(call: Packet, payload: Buffer): void {
    this.send({ ...call, type: PacketType.REPLY, status: PacketStatus.OK, payload });
  }
}

export function packetBytes(packet: Partial<Packet>): Buffer {
  const empty = { program: Program.REMOTE, version: 1, procedure: 0, type: 0, serial: 0, status: 0 };
  return encodePacket({ ...empty, payload: Buffer.alloc(0), ...packet });
}

export function errorPayload(code: number, message: string): Buffer {
  const none = { domain: undefined, str1: undefined, str2: undefined, str3: undefined, network: undefined };
  return encodeWith(wireError, { code, domainCode: 10, message, level: 2, int1: -1, int2: -1, ...none });
}

/** Answers one call; undefined leaves it without an answer. */
export type Handler = (args: Buffer, peer: Peer, call: Packet) => Buffer | undefined;

/** A libvirtd made of handlers, on a real Unix socket. Without a handler a call fails as an unknown procedure does. */
export class FakeDaemon {
  readonly directory: string;
  readonly socketPath: string;
  readonly peers: Peer[] = [];
  /** Procedure numbers in the order in which the calls came. */
  readonly calls: number[] = [];
  readonly #handlers = new Map<number, Handler>();
  #server: Server | undefined;

  private constructor(directory: string) {
    this.directory = directory;
    this.socketPath = path.join(directory, 'sock');
    this.on(procedures.authList, () => ({ types: [0] }));
    this.on(procedures.connectSupportsFeature, () => ({ value: 1 }));
    this.on(procedures.connectOpen, () => undefined);
    let callbackId = 0;
    this.on(procedures.registerEvent, () => ({ callbackId: callbackId++ }));
    this.on(procedures.deregisterEvent, () => undefined);
  }

  static async start(): Promise<FakeDaemon> {
    const daemon = new FakeDaemon(await mkdtemp(path.join(tmpdir(), 'lvf-')));
    await daemon.listen();
    return daemon;
  }

  get peer(): Peer {
    const peer = this.peers.at(-1);
    if (!peer) throw new Error('no client has connected');
    return peer;
  }

  on<Args, Reply>(procedure: Procedure<Args, Reply>, answer: (args: Args) => Reply): void {
    const reply: Codec<Reply> = procedure.reply;
    this.onRaw(procedure.number, (args) => encodeWith(reply, answer(decodeWith(procedure.args, args))));
  }

  onRaw(procedure: number, handler: Handler): void {
    this.#handlers.set(procedure, handler);
  }

  async listen(): Promise<void> {
    const server = createServer((socket) => this.#serve(socket));
    this.#server = server;
    await new Promise<void>((resolve) => server.listen(this.socketPath, resolve));
  }

  /** Ends the listening and all connections. */
  async close(): Promise<void> {
    for (const { socket } of this.peers) socket.destroy();
    const server = this.#server;
    this.#server = undefined;
    if (server) await new Promise((resolve) => server.close(resolve));
  }

  async remove(): Promise<void> {
    await this.close();
    await rm(this.directory, { recursive: true, force: true });
  }

  #serve(socket: Socket): void {
    const peer = new Peer(socket);
    this.peers.push(peer);
    const splitter = new PacketSplitter();
    socket.on('error', () => undefined);
    socket.on('data', (chunk: Buffer) => {
      for (const packet of splitter.push(chunk)) this.#receive(peer, packet);
    });
  }

  #receive(peer: Peer, packet: Packet): void {
    if (packet.type !== PacketType.CALL) {
      peer.packets.push(packet);
      return;
    }
    this.calls.push(packet.procedure);
    const handler = this.#handlers.get(packet.procedure);
    if (!handler) {
      const payload = errorPayload(39, `unknown procedure: ${packet.procedure}`);
      peer.send({ ...packet, type: PacketType.REPLY, status: PacketStatus.ERROR, payload });
      return;
    }
    const payload = handler(packet.payload, peer, packet);
    if (payload) peer.reply(packet, payload);
  }
}
