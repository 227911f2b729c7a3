import type { Socket } from 'node:net';
import type { TLSSocket } from 'node:tls';
import { type Clock, errorMessage, type Logger } from '../base/index.ts';
import { HttpServer } from '../http/index.ts';
import { KeyPairFiles, readAuthorities, SettableValue, TlsContext, type TlsSettings } from '../tls/index.ts';
import { checkVolume } from './disk.ts';
import { Routes } from './routes.ts';
import type { ExportSettings } from './settings.ts';
import { BackupTunnels } from './tunnels.ts';

export interface ExportServerDeps {
  readonly log: Logger;
  readonly clock: Clock;
}

/** Nothing but headers comes from clients. */
const limits = {
  maxConnections: 256,
  maxHeaderSize: 16 * 1024,
  headersTimeout: 20_000,
  requestTimeout: 60_000,
  keepAliveTimeout: 60_000,
};
/** What downloads that have begun before the deadline have left. */
const lingerMs = 3_600_000;

/** The program of an exporter pod: it serves until its deadline, and ends then by itself. */
export class ExportServer {
  readonly #settings: ExportSettings;
  readonly #deps: ExportServerDeps;
  readonly #keyPair: KeyPairFiles;
  readonly #tls: TlsContext;
  readonly #http: HttpServer;
  readonly #tunnels: BackupTunnels | undefined;
  readonly #ending = new AbortController();

  constructor(settings: ExportSettings, deps: ExportServerDeps) {
    this.#settings = settings;
    this.#deps = deps;
    const { log, clock } = deps;
    this.#keyPair = new KeyPairFiles(settings.keyPair, deps);
    const tls = new SettableValue<TlsSettings>(settings.tls);
    const { backups } = settings;
    const authorities = new SettableValue(backups && readAuthorities(backups.ca));
    const verify = backups ? 'peers' : 'none';
    this.#tls = new TlsContext({ verify }, { keyPair: this.#keyPair, authorities, settings: tls, log });
    const authenticated = (socket: Socket) => this.#http.authenticated(socket);
    const tunnels = backups && new BackupTunnels({ backupUid: backups.uid }, { log, clock, authenticated });
    this.#tunnels = tunnels;
    const routes = new Routes(settings, { log, authenticated, tunnels, ending: this.#ending.signal });
    this.#http = new HttpServer(
      {
        name: 'export server',
        address: { kind: 'tcp', ...settings.listen },
        limits,
        tls: { context: this.#tls, clients: backups ? 'anyone-asked' : 'anyone', handshakeTimeoutMs: 10_000 },
        drainMs: lingerMs,
      },
      {
        ...{ log, clock, handle: (request, response) => void routes.handle(request, response) },
        ...(tunnels && { http2: (socket: TLSSocket) => tunnels.take(socket) }),
      },
    );
  }

  /** 0 while it does not listen. */
  get port(): number {
    return this.#http.port;
  }

  /** Resolves after the deadline, when the last download is over, or soon after `signal`. Rejects when it cannot serve. */
  async run(signal: AbortSignal): Promise<void> {
    const { log, clock } = this.#deps;
    for (const { path } of this.#settings.volumes) await checkVolume(path);
    await this.#keyPair.start();
    try {
      await this.#http.start();
      const { deadline } = this.#settings;
      if (deadline) log.info({ deadline }, 'serves until its deadline');
      await untilEither(signal, deadline, clock);
      log.info({ reason: signal.aborted ? errorMessage(signal.reason) : 'the deadline is over' }, 'serves no more');
      await this.#stop(signal);
    } finally {
      this.#tls.stop();
      await this.#keyPair.stop();
    }
  }

  async #stop(signal: AbortSignal): Promise<void> {
    const cut = () => this.#ending.abort(new Error('the export ends'));
    if (signal.aborted) cut();
    else signal.addEventListener('abort', cut, { once: true });
    // Its launcher has to be free for the pod that comes after this one: readers go on there, from where they were.
    if (this.#tunnels) cut();
    this.#tunnels?.close();
    await this.#http.stop();
  }
}

function untilEither(signal: AbortSignal, deadline: Date | undefined, clock: Clock): Promise<void> {
  return new Promise((resolve) => {
    let cancel: () => void = () => undefined;
    const end = () => {
      cancel();
      signal.removeEventListener('abort', end);
      resolve();
    };
    if (signal.aborted) return resolve();
    signal.addEventListener('abort', end, { once: true });
    if (deadline) cancel = clock.schedule(Math.max(0, deadline.getTime() - clock.now().getTime()), end);
  });
}
