import { chmod, rm } from 'node:fs/promises';
import { createServer, type Server, type Socket } from 'node:net';
import { pipeline } from 'node:stream/promises';
import { guestPortAnswer, maxGuestPortsLine, parseGuestPortRequest } from '../../api/index.ts';
import { deadline, errorMessage, type Logger } from '../../base/index.ts';
import { readFirstLine } from '../../host/index.ts';
import { LauncherError } from '../errors.ts';
import type { UserNetwork } from './user-network.ts';

export interface PortServerDeps {
  readonly network: Pick<UserNetwork, 'connect'>;
  readonly log: Logger;
}

const requestMs = 5_000;
const maxConnections = 200;

/** Joins the API of a standalone node to ports of the guest, on a Unix socket of the launcher's private directory. */
export class GuestPortServer {
  readonly #socketFile: string;
  readonly #deps: PortServerDeps;
  readonly #server: Server;
  readonly #clients = new Set<Socket>();

  constructor(options: { readonly socketFile: string }, deps: PortServerDeps) {
    this.#socketFile = options.socketFile;
    this.#deps = deps;
    this.#server = createServer({ allowHalfOpen: true }, (client) => void this.#serve(client));
    this.#server.maxConnections = maxConnections;
  }

  /** Rejects with the system's error. */
  async start(): Promise<void> {
    // Of a launcher of this pod that was killed.
    await rm(this.#socketFile, { force: true });
    await new Promise<void>((resolve, reject) => {
      this.#server.once('error', reject);
      this.#server.listen(this.#socketFile, () => resolve());
    });
    this.#server.on('error', (error) =>
      this.#deps.log.warn({ err: errorMessage(error) }, 'a caller of a port is lost'),
    );
    await chmod(this.#socketFile, 0o600);
  }

  async stop(): Promise<void> {
    const closed = new Promise<void>((resolve) => this.#server.close(() => resolve()));
    for (const client of this.#clients) client.destroy();
    await closed;
  }

  async #serve(client: Socket): Promise<void> {
    const gone = new AbortController();
    this.#clients.add(client);
    client.on('error', () => undefined);
    client.once('close', () => {
      this.#clients.delete(client);
      gone.abort(new LauncherError('STOPPED', 'the caller has gone'));
    });
    try {
      const guest = await this.#join(client, gone.signal);
      client.write(`${guestPortAnswer()}\n`);
      await pipeline(client, guest, client);
    } catch (error) {
      this.#deps.log.debug({ err: errorMessage(error) }, 'a port of the guest is not joined, or no more');
      if (client.bytesWritten === 0) client.end(`${guestPortAnswer(errorMessage(error))}\n`);
      else client.destroy();
    }
  }

  async #join(client: Socket, signal: AbortSignal): Promise<Socket> {
    const line = await readFirstLine(client, maxGuestPortsLine, deadline(requestMs, signal));
    const port = parseGuestPortRequest(line);
    if (port !== undefined) return this.#deps.network.connect(port, signal);
    throw new LauncherError('INVALID_REQUEST', `${JSON.stringify(line)} asks for no TCP port from 1 to 65535`);
  }
}
