import { randomBytes } from 'node:crypto';
import { type ConnectionOptions, connect, type TLSSocket } from 'node:tls';
import { monotonicMs } from '../test/fixtures/scripted-launcher-fleet.ts';

export interface WebsocketPlace {
  readonly host: string;
  readonly port: number;
  readonly tls: ConnectionOptions;
}

const maskKey = Buffer.of(0x37, 0xfa, 0x21, 0x3d);

/**
 * A websocket client that does as little as possible: frames' payloads are counted and, when somebody listens, handed on; what is
 * sent was masked before. A full library would need as much of the machine as what is measured.
 */
export class RawWebsocket {
  readonly socket: TLSSocket;
  /** From the TCP connection to the answer 101. */
  readonly attachMs: number;
  /** Of all messages of the server that are not control frames. */
  receivedBytes = 0;
  onPayload: ((part: Buffer) => void) | undefined;
  #rest = Buffer.alloc(0);
  #leftInFrame = 0;
  #isControl = false;
  #waiting: { readonly untilBytes: number; readonly resolve: () => void } | undefined;

  private constructor(socket: TLSSocket, attachMs: number, head: Buffer) {
    this.socket = socket;
    this.attachMs = attachMs;
    this.#take(head);
    socket.on('data', (chunk: Buffer) => this.#take(chunk));
    socket.on('error', () => undefined);
  }

  /** Throws when the answer is not 101; its text is in the message. */
  static open({ host, port, tls }: WebsocketPlace, path: string, protocol: string): Promise<RawWebsocket> {
    const startMs = monotonicMs();
    const socket = connect({ ...tls, host, port, noDelay: true } as ConnectionOptions);
    const request = [
      `GET ${path} HTTP/1.1`,
      `Host: ${host}:${port}`,
      'Connection: Upgrade',
      'Upgrade: websocket',
      'Sec-WebSocket-Version: 13',
      `Sec-WebSocket-Key: ${randomBytes(16).toString('base64')}`,
      `Sec-WebSocket-Protocol: ${protocol}`,
    ];
    socket.write(`${request.join('\r\n')}\r\n\r\n`);
    return new Promise((resolve, reject) => {
      let answer = Buffer.alloc(0);
      const read = (chunk: Buffer) => {
        answer = Buffer.concat([answer, chunk]);
        const end = answer.indexOf('\r\n\r\n');
        if (end < 0) return;
        if (!answer.subarray(0, end).includes('HTTP/1.1 101')) return fail(new Error(answer.toString('latin1')));
        socket.off('data', read);
        socket.off('error', fail);
        socket.off('close', closed);
        resolve(new RawWebsocket(socket, monotonicMs() - startMs, answer.subarray(end + 4)));
      };
      const fail = (error: Error) => {
        socket.destroy();
        reject(error);
      };
      const closed = () => fail(new Error(`closed before an answer to ${path}: ${answer.toString('latin1')}`));
      socket.on('data', read);
      socket.once('error', fail);
      socket.once('close', closed);
    });
  }

  /** False: the socket has enough for now. */
  send(frame: Buffer): boolean {
    return this.socket.write(frame);
  }

  /** Resolves when so many bytes have come in all. Rejects when the connection ends before. */
  received(bytes: number): Promise<void> {
    if (this.receivedBytes >= bytes) return Promise.resolve();
    return new Promise((resolve, reject) => {
      const gone = () => reject(new Error(`the stream ended after ${this.receivedBytes} of ${bytes} bytes`));
      this.socket.once('close', gone);
      this.#waiting = {
        untilBytes: bytes,
        resolve: () => {
          this.socket.off('close', gone);
          resolve();
        },
      };
    });
  }

  async close(): Promise<void> {
    if (this.socket.destroyed) return;
    const closed = new Promise((resolve) => this.socket.once('close', resolve));
    this.socket.destroy();
    await closed;
  }

  #take(chunk: Buffer): void {
    let bytes = this.#rest.length > 0 ? Buffer.concat([this.#rest, chunk]) : chunk;
    this.#rest = Buffer.alloc(0);
    while (bytes.length > 0) {
      if (this.#leftInFrame === 0) {
        const size = headerOf(bytes);
        if (size === undefined) {
          this.#rest = Buffer.from(bytes);
          break;
        }
        this.#isControl = ((bytes[0] ?? 0) & 0x0f) >= 8;
        this.#leftInFrame = size.payload;
        bytes = bytes.subarray(size.header);
        continue;
      }
      const part = bytes.subarray(0, this.#leftInFrame);
      this.#leftInFrame -= part.length;
      bytes = bytes.subarray(part.length);
      if (this.#isControl) continue;
      this.receivedBytes += part.length;
      this.onPayload?.(part);
    }
    if (this.#waiting && this.receivedBytes >= this.#waiting.untilBytes) {
      const { resolve } = this.#waiting;
      this.#waiting = undefined;
      resolve();
    }
  }
}

/** Of a frame from a server, which is not masked. */
function headerOf(bytes: Buffer): { readonly header: number; readonly payload: number } | undefined {
  const short = (bytes[1] ?? 0) & 0x7f;
  const header = short === 126 ? 4 : short === 127 ? 10 : 2;
  if (bytes.length < header) return undefined;
  if (header === 2) return { header, payload: short };
  return { header, payload: header === 4 ? bytes.readUInt16BE(2) : Number(bytes.readBigUInt64BE(2)) };
}

/** A whole binary message as a client sends it. */
export function clientFrame(payload: Buffer): Buffer {
  const { length } = payload;
  const size = length < 126 ? Buffer.of(0x80 | length) : length < 65_536 ? Buffer.alloc(3) : Buffer.alloc(9);
  if (size.length === 3) {
    size.writeUInt8(0x80 | 126, 0);
    size.writeUInt16BE(length, 1);
  } else if (size.length === 9) {
    size.writeUInt8(0x80 | 127, 0);
    size.writeBigUInt64BE(BigInt(length), 1);
  }
  const masked = Buffer.from(payload);
  for (let at = 0; at < length; at++) masked[at] = (payload[at] ?? 0) ^ (maskKey[at % 4] ?? 0);
  return Buffer.concat([Buffer.of(0x82), size, maskKey, masked]);
}
