import { createSocket } from 'node:dgram';
import type { IncomingMessage } from 'node:http';
import { isIPv6 } from 'node:net';
import type { Duplex } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { createWebSocketStream, type RawData, type WebSocket, type WebSocketServer } from 'ws';
import type { GuestPort } from '../../apiserver/index.ts';
import { errorMessage, type Logger, systemClock } from '../../base/index.ts';
import { refuseUpgrade } from '../../http/index.ts';
import type { GuestDial } from '../guest-dial.ts';
import { upgradesToWebSockets } from './websockets.ts';

/** As virt-api and its clients call it. */
const plainProtocol = 'plain.kubevirt.io';
/** Datagrams for a client that does not read are dropped, as a network does. */
const maxWaitingBytes = 1024 * 1024;
const internalError = 1011;

/**
 * Joins websockets to ports of guests, as virt-api does (pkg/virt-api/rest/portforward.go). The guest is connected to first, so that
 * a port on which nothing listens is an answer in words. The caller has been let in before.
 */
export class PortForward {
  readonly #log: Logger;
  readonly #dial: GuestDial;
  readonly #websockets: WebSocketServer;

  constructor(deps: { readonly dial: GuestDial; readonly log: Logger }) {
    this.#log = deps.log;
    this.#dial = deps.dial;
    this.#websockets = upgradesToWebSockets({
      handleProtocols: (offered) => offered.has(plainProtocol) && plainProtocol,
    });
  }

  serve(to: GuestPort, request: IncomingMessage, socket: Duplex, head: Buffer): void {
    // A caller that goes away in the middle of it is no failure of this program.
    socket.on('error', () => undefined);
    const open = (joined: (websocket: WebSocket) => void) =>
      this.#websockets.handleUpgrade(request, socket, head, joined);
    const { reach, port, protocol } = to;
    // The API forwards no others of a launcher.
    if (protocol === 'udp' && reach.kind === 'address') {
      open((websocket) => this.#joinDatagrams(websocket, reach.address, port));
      return;
    }
    this.#serveBytes(to, socket, open).catch((error: unknown) => {
      this.#log.debug({ ...to, reason: errorMessage(error) }, 'a port could not be forwarded');
      if (!socket.destroyed) refuseUpgrade(socket, { httpStatus: 502, message: errorMessage(error) }, systemClock);
    });
  }

  async #serveBytes(
    to: GuestPort,
    caller: Duplex,
    open: (joined: (websocket: WebSocket) => void) => void,
  ): Promise<void> {
    const guest = await this.#dial.dial(to, caller);
    // An upgrade that is refused, and a caller that goes, let the guest's side go.
    caller.once('close', () => guest.destroySoon());
    open((websocket) => {
      const stream = createWebSocketStream(websocket);
      pipeline(stream, guest, stream).catch((error: unknown) => {
        this.#log.debug({ ...to, reason: errorMessage(error) }, 'a forwarded port ended');
        guest.destroy();
        websocket.terminate();
      });
    });
  }

  /** A message each way is a datagram. */
  #joinDatagrams(websocket: WebSocket, address: string, port: number): void {
    const guest = createSocket(isIPv6(address) ? 'udp6' : 'udp4');
    let isConnected = false;
    const waiting: Buffer[] = [];
    const fail = (error: Error) => websocket.close(internalError, errorMessage(error).slice(0, 100));
    const send = (datagram: Buffer) => guest.send(datagram, (error) => error && fail(error));
    guest.on('error', fail);
    guest.on('message', (datagram) => {
      if (websocket.bufferedAmount < maxWaitingBytes) websocket.send(datagram);
    });
    // The types do not know the error.
    guest.connect(port, address, (error?: Error) => {
      if (error) {
        fail(error);
        return;
      }
      isConnected = true;
      for (const datagram of waiting.splice(0)) send(datagram);
    });
    websocket.on('error', () => undefined);
    websocket.on('message', (data: RawData) => {
      const datagram = data as Buffer;
      if (isConnected) send(datagram);
      else waiting.push(datagram);
    });
    websocket.once('close', () => guest.close());
  }
}
