import { type ServerOptions, WebSocketServer } from 'ws';
import { systemClock } from '../../base/index.ts';
import { refuseUpgrade } from '../../http/index.ts';

const maxMessageBytes = 1024 * 1024;

/** What makes websockets of the API server's upgrades. A request that is none is answered in words, as every upgrade that is refused. */
export function upgradesToWebSockets(choice: Pick<ServerOptions, 'handleProtocols'> = {}): WebSocketServer {
  const websockets = new WebSocketServer({
    noServer: true,
    clientTracking: false,
    perMessageDeflate: false,
    maxPayload: maxMessageBytes,
    ...choice,
  });
  websockets.on('wsClientError', ({ message }, socket) => {
    refuseUpgrade(socket, { httpStatus: 400, message }, systemClock);
  });
  return websockets;
}
