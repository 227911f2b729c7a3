import { STATUS_CODES } from 'node:http';
import type { Duplex } from 'node:stream';
import type { Clock } from '../base/index.ts';

/** Longest time a refused client may keep its connection. */
const lingerMs = 2000;

/** An answer that is not 101: a status, and a body in words for the client. */
export interface PlainAnswer {
  readonly httpStatus: number;
  readonly message: string;
}

/**
 * Answers an upgrade with plain text and ends the connection: virt-api passes nothing else on to its user (spec 30 §3).
 * What the client still sends is thrown away, so that the answer is not lost to a reset.
 */
export function refuseUpgrade(socket: Duplex, { httpStatus, message }: PlainAnswer, clock: Clock): void {
  const cancel = clock.schedule(lingerMs, () => socket.destroy());
  socket.once('close', cancel);
  socket.on('error', () => socket.destroy());
  socket.resume();
  const head = [
    `HTTP/1.1 ${httpStatus} ${STATUS_CODES[httpStatus] ?? 'Refused'}`,
    'Connection: close',
    'Content-Type: text/plain; charset=utf-8',
    `Content-Length: ${Buffer.byteLength(message)}`,
    ...(httpStatus === 426 ? ['Upgrade: websocket', 'Sec-WebSocket-Version: 13'] : []),
  ];
  socket.end(`${head.join('\r\n')}\r\n\r\n${message}`);
}
