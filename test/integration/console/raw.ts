import { once } from 'node:events';
import net from 'node:net';
import tls from 'node:tls';
import { eventually } from '../../fixtures/eventually.ts';
import { uid } from './console-bench.ts';

/** A good upgrade; a header given as undefined is left out. */
export function upgradeText(
  headers: Readonly<Record<string, string | readonly string[] | undefined>> = {},
  requestLine = `GET /console/${uid} HTTP/1.1`,
): string {
  const all = {
    Host: 'agent',
    Connection: 'Upgrade',
    Upgrade: 'websocket',
    'Sec-WebSocket-Version': '13',
    'Sec-WebSocket-Key': 'dGhlIHNhbXBsZSBub25jZQ==',
    'Sec-WebSocket-Protocol': 'plain.kubevirt.io',
    ...headers,
  };
  const lines = Object.entries(all).flatMap(([name, value]) => [value ?? []].flat().map((one) => `${name}: ${one}`));
  return `${[requestLine, ...lines].join('\r\n')}\r\n\r\n`;
}

/** A masked frame as a client sends it. */
export function clientFrame(opcode: number, payload: Buffer, isFinal = true): Buffer {
  const mask = Buffer.from([1, 2, 3, 4]);
  const length =
    payload.length < 126 ? [0x80 | payload.length] : [0x80 | 126, payload.length >> 8, payload.length & 255];
  const masked = payload.map((byte, at) => byte ^ (mask[at % 4] ?? 0));
  return Buffer.concat([Buffer.from([(isFinal ? 0x80 : 0) | opcode, ...length]), mask, masked]);
}

/** A bare connection that keeps what comes. */
export class RawClient {
  readonly socket: net.Socket;
  readonly #chunks: Buffer[] = [];

  constructor(socket: net.Socket) {
    this.socket = socket;
    socket.on('data', (chunk: Buffer) => this.#chunks.push(chunk));
    socket.on('error', () => undefined);
  }

  static async connect(port: number): Promise<RawClient> {
    const socket = net.connect({ port, host: '127.0.0.1' });
    await once(socket, 'connect');
    return new RawClient(socket);
  }

  static async connectTls(port: number): Promise<RawClient> {
    const socket = tls.connect({ port, host: '127.0.0.1', rejectUnauthorized: false });
    await once(socket, 'secureConnect');
    return new RawClient(socket);
  }

  get received(): Buffer {
    return Buffer.concat(this.#chunks);
  }

  /** One chunk for each TLS record, as OpenSSL reads them one by one. */
  get chunks(): readonly Buffer[] {
    return this.#chunks;
  }

  async gets(text: string): Promise<string> {
    await eventually(() => {
      if (!this.received.includes(text, 0, 'latin1'))
        throw new Error(`no ${JSON.stringify(text)}: ${this.received.toString('latin1')}`);
    });
    return this.received.toString('latin1');
  }

  async closed(): Promise<void> {
    await eventually(() => {
      if (!this.socket.closed) throw new Error('still open');
    });
  }
}
