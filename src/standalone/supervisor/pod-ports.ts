import type { IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { createWebSocketStream, type WebSocketServer } from 'ws';
import type { GuestReach, PodStreams } from '../../apiserver/index.ts';
import { errorMessage, type Logger, systemClock } from '../../base/index.ts';
import { refuseUpgrade } from '../../http/index.ts';
import type { GuestDial, GuestTarget } from '../guest-dial.ts';
import { SpdySession, type SpdyStream } from '../spdy/index.ts';
import { upgradesToWebSockets } from './websockets.ts';

/** The kubelet's (staging/src/k8s.io/kubelet/pkg/cri/streaming/portforward). */
const protocol = 'portforward.k8s.io';
const spdy = 'SPDY/3.1';
/** The same bytes in a websocket, since Kubernetes 1.30. */
const tunnelProtocol = `${spdy}+${protocol}`;

/** One connection of the user: two streams that name it. */
interface Pair {
  data?: SpdyStream;
  error?: SpdyStream;
}

/**
 * What a kubelet does for `kubectl port-forward`: SPDY/3.1 after an upgrade, or in a websocket. Each connection is a stream of bytes, and one of words about
 * what went wrong. The caller has been let in before.
 */
export class PodPorts implements PodStreams {
  readonly #log: Logger;
  readonly #dial: GuestDial;
  readonly #websockets: WebSocketServer;

  constructor(deps: { readonly dial: GuestDial; readonly log: Logger }) {
    this.#log = deps.log;
    this.#dial = deps.dial;
    this.#websockets = upgradesToWebSockets();
    this.#websockets.on('headers', (lines) => lines.push(`Sec-WebSocket-Protocol: ${tunnelProtocol}`));
  }

  forwardPorts(reach: GuestReach, request: IncomingMessage, socket: Duplex, head: Buffer): void {
    // A caller that goes away in the middle of it is no failure of this program.
    socket.on('error', () => undefined);
    const { upgrade = '' } = request.headers;
    if (upgrade.toLowerCase() === 'websocket' && offers(request, 'sec-websocket-protocol', tunnelProtocol)) {
      // The library refuses its name, which is no token: it has a slash.
      delete request.headers['sec-websocket-protocol'];
      this.#websockets.handleUpgrade(request, socket, head, (websocket) => {
        websocket.on('error', () => undefined);
        this.#run(createWebSocketStream(websocket), reach);
      });
    } else if (upgrade.toLowerCase() === spdy.toLowerCase() && offers(request, 'x-stream-protocol-version', protocol)) {
      const lines = ['Connection: Upgrade', `Upgrade: ${spdy}`, `X-Stream-Protocol-Version: ${protocol}`];
      socket.write(`HTTP/1.1 101 Switching Protocols\r\n${lines.join('\r\n')}\r\n\r\n`);
      if (head.length > 0) socket.unshift(head);
      this.#run(socket, reach);
    } else {
      const message = `ask for ${spdy} with ${protocol}, or for a websocket with ${tunnelProtocol}, as kubectl does`;
      refuseUpgrade(socket, { httpStatus: 400, message }, systemClock);
    }
  }

  #run(transport: Duplex, reach: GuestReach): void {
    const pairs = new Map<string, Pair>();
    const session = new SpdySession(transport, (stream) => this.#take(pairs, stream, reach));
    session.run().catch((error: unknown) => {
      this.#log.debug({ reason: errorMessage(error) }, 'a port-forward of a pod ended');
    });
  }

  #take(pairs: Map<string, Pair>, stream: SpdyStream, reach: GuestReach): void {
    const [type, id, portText] = ['streamtype', 'requestid', 'port'].map((name) => stream.headers.get(name) ?? '');
    const port = /^[1-9]\d{0,4}$/.test(portText ?? '') ? Number(portText) : 0;
    const pair = pairs.get(id ?? '') ?? {};
    const isWrong =
      !id || port < 1 || port > 65_535 || (type !== 'data' && type !== 'error') || pair[type] !== undefined;
    if (isWrong) {
      stream.reset();
      return;
    }
    pair[type] = stream;
    pairs.set(id, pair);
    stream.once('close', () => pairs.get(id) === pair && pairs.delete(id));
    const { data, error } = pair;
    if (!data || !error) return;
    pairs.delete(id);
    // The user says nothing there.
    error.resume();
    this.#carry(data, error, { reach, port }).catch((reason: unknown) => {
      this.#log.debug({ reach, port, reason: errorMessage(reason) }, 'a forwarded port of a pod ended');
      // After its words, or kubectl would not read them.
      data.reset();
    });
  }

  async #carry(data: SpdyStream, error: SpdyStream, to: GuestTarget) {
    try {
      const guest = await this.#dial.dial(to, data);
      data.once('close', () => guest.destroySoon());
      // Each way on its own: a server that ends first would otherwise take along what of its last words is not out yet.
      data.pipe(guest);
      guest.once('close', () => {
        data.unpipe(guest);
        // What the user says to nobody must not keep the session's other connections waiting.
        data.resume();
      });
      await pipeline(guest, data);
      error.end();
    } catch (reason) {
      // kubectl prints it.
      await new Promise<void>((resolve) => {
        error.once('close', resolve);
        error.end(`error forwarding port ${to.port}: ${errorMessage(reason)}`, resolve);
      });
      throw reason;
    }
  }
}

/** One of a list of words in a header. */
function offers({ headers }: IncomingMessage, name: string, wanted: string): boolean {
  return String(headers[name] ?? '')
    .split(',')
    .some((each) => each.trim() === wanted);
}
