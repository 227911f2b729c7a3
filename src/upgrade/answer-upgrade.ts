import { type IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import type { Clock } from '../base/index.ts';
import { letGoSoon } from './let-go.ts';

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
