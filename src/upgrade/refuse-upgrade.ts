import { STATUS_CODES } from 'node:http';
import type { Duplex } from 'node:stream';
import type { Clock } from '../base/index.ts';
import { letGoSoon } from './let-go.ts';

/** An answer that is not 101: a status, and a body in words for the client. */
export interface PlainAnswer {
  readonly httpStatus: number;
  readonly message: string;
}

/**
 * Answers an upgrade with plain text and ends the connection: virt-api passes nothing else on to its user (spec 30 §3).
 */
export function refuseUpgrade(socket: Duplex, { httpStatus, message }: PlainAnswer, clock: Clock): void {
  letGoSoon(socket, clock);
  const head = [
    `HTTP/1.1 ${httpStatus} ${STATUS_CODES[httpStatus] ?? 'Refused'}`,
    'Connection: close',
    'Content-Type: text/plain; charset=utf-8',
    'X-Content-Type-Options: nosniff',
    `Content-Length: ${Buffer.byteLength(message)}`,
    ...(httpStatus === 426 ? ['Upgrade: websocket', 'Sec-WebSocket-Version: 13'] : []),
  ];
  socket.end(`${head.join('\r\n')}\r\n\r\n${message}`);
}
