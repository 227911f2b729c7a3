import { type IncomingMessage, ServerResponse, STATUS_CODES } from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import type { Clock } from '../base/index.ts';

/** Longest time a client that was answered may keep its connection. */
const lingerMs = 2000;

/**
 * For a connection whose last bytes are written: Node.js' HTTP server no longer looks after it, so a client that does not hang
 * up would keep it for ever. What it still sends is thrown away, so that the answer is not lost to a reset.
 */
export function letGoSoon(socket: Duplex, clock: Clock): void {
  socket.on('error', () => socket.destroy());
  if (socket.destroyed) return;
  const cancel = clock.schedule(lingerMs, () => socket.destroy());
  socket.once('close', cancel);
  socket.resume();
}

/**
 * What answers a request of Node.js' `upgrade` event, so that it takes the same way as any other; `detachSocket` makes a stream
 * of it. Undefined: it was pipelined behind a request that has no answer yet, which would end up inside of the stream; the
 * connection is cut. Without a look at this Node.js throws, and any client could end the program.
 */
export function answerUpgrade(request: IncomingMessage, socket: Duplex, clock: Clock): ServerResponse | undefined {
  socket.on('error', () => undefined);
  const response = new ServerResponse(request);
  response.shouldKeepAlive = false;
  try {
    response.assignSocket(socket as Socket);
  } catch {
    socket.destroy();
    return undefined;
  }
  response.once('finish', () => {
    letGoSoon(socket, clock);
    socket.end();
  });
  return response;
}

/** An answer that is not 101: a status, and a body in words for the client. */
export interface PlainAnswer {
  readonly httpStatus: number;
  readonly message: string;
}

/**
 * Answers an upgrade with plain text and ends the connection: virt-api passes nothing else on to its user
 * (pkg/virt-api/rest/dialers.go).
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
