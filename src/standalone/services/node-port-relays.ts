import { createServer, type Server, type Socket } from 'node:net';
import { pipeline } from 'node:stream/promises';
import { errorMessage, type Logger } from '../../base/index.ts';
import type { GuestDial, GuestTarget } from '../guest-dial.ts';

/** A node port of TCP, and the guests' ports behind it. */
export interface NodePortRelay {
  readonly port: number;
  readonly targets: readonly GuestTarget[];
}

export interface NodePortRelaysDeps {
  readonly dial: Pick<GuestDial, 'dial'>;
  readonly log: Logger;
}

interface Listener {
  relay: NodePortRelay;
  readonly server: Server;
}

const host = '127.0.0.1';
const maxConnections = 500;

/**
 * Node ports of guests with QEMU's user networking: without a pod network there are no packets that a filter could send elsewhere, so this program listens and carries bytes.
 */
export class NodePortRelays {
  readonly #deps: NodePortRelaysDeps;
  readonly #listeners = new Map<number, Listener>();
  readonly #clients = new Set<Socket>();

  constructor(deps: NodePortRelaysDeps) {
    this.#deps = deps;
  }

  /** This program has the port itself. */
  has(port: number): boolean {
    return this.#listeners.has(port);
  }

  /** In place of those before; connections that run go on. A port that cannot be had is left out, to be asked for again. */
  async set(relays: readonly NodePortRelay[]): Promise<void> {
    for (const port of [...this.#listeners.keys()]) {
      if (!relays.some((relay) => relay.port === port)) this.#close(port);
    }
    for (const relay of relays) {
      const listener = this.#listeners.get(relay.port);
      if (listener) listener.relay = relay;
      else await this.#listen(relay);
    }
  }

  async stop(): Promise<void> {
    await this.set([]);
    for (const client of this.#clients) client.destroy();
  }

  async #listen(relay: NodePortRelay): Promise<void> {
    const server = createServer(
      { allowHalfOpen: true, noDelay: true },
      (client) => void this.#serve(client, relay.port),
    );
    server.maxConnections = maxConnections;
    try {
      await new Promise<void>((resolve, reject) => {
        server.once('error', reject);
        server.listen(relay.port, host, resolve);
      });
    } catch (error) {
      this.#deps.log.warn({ port: relay.port, err: errorMessage(error) }, 'a node port cannot be had');
      return;
    }
    server.on('error', (error) => this.#deps.log.warn({ err: errorMessage(error) }, 'a caller of a node port is lost'));
    this.#listeners.set(relay.port, { relay, server });
  }

  #close(port: number): void {
    this.#listeners.get(port)?.server.close();
    this.#listeners.delete(port);
  }

  async #serve(client: Socket, port: number): Promise<void> {
    this.#clients.add(client);
    client.on('error', () => undefined).once('close', () => this.#clients.delete(client));
    try {
      const guest = await this.#dialAny(this.#listeners.get(port)?.relay.targets ?? [], client);
      await pipeline(client, guest, client);
    } catch (error) {
      this.#deps.log.debug({ port, err: errorMessage(error) }, 'a connection to a node port ended');
      client.resetAndDestroy();
    }
  }

  /** Any of them; the next one where the one that was drawn does not answer. */
  async #dialAny(targets: readonly GuestTarget[], client: Socket): Promise<Socket> {
    const start = Math.floor(Math.random() * targets.length);
    const turned = [...targets.slice(start), ...targets.slice(0, start)];
    let reason: unknown = new Error('there is no guest behind it');
    for (const target of turned) {
      try {
        return await this.#deps.dial.dial(target, client);
      } catch (error) {
        reason = error;
        if (client.destroyed) break;
      }
    }
    throw reason;
  }
}
