import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { errorMessage, type Logger } from '../base/index.ts';
import { answerText, ExportError, type Handler, statusOf } from './answer.ts';
import { archiveHandler } from './archive.ts';
import { backupDataHandler, backupMapHandler } from './backups.ts';
import { directoryHandler } from './directory.ts';
import { gzipHandler, rawHandler } from './disk.ts';
import { secretHandler, vmHandler } from './manifests.ts';
import type { ExportSettings } from './settings.ts';
import { showsToken } from './token.ts';
import type { BackupTunnels } from './tunnels.ts';

/** Of a kubelet's probe, which has no token. */
const readyPath = '/exportready';
const maxTransfers = 32;
/** Without a byte that moves. */
const stallMs = 300_000;

export interface RoutesDeps {
  readonly log: Logger;
  /** The client of this connection has shown the token. */
  readonly authenticated: (socket: Socket) => void;
  /** Of a backup. */
  readonly tunnels?: BackupTunnels | undefined;
  /** Aborted: nobody is served any more. */
  readonly ending: AbortSignal;
}

type Found = { readonly handle: Handler; readonly below: string };

/** Finds what is at an address, and gives it to whoever shows the token. */
export class Routes {
  readonly #exact = new Map<string, Handler>();
  readonly #directories = new Map<string, Handler>();
  readonly #settings: ExportSettings;
  readonly #deps: RoutesDeps;
  #transfers = 0;

  constructor(settings: ExportSettings, deps: RoutesDeps) {
    this.#settings = settings;
    this.#deps = deps;
    for (const { path, rawUri, gzipUri, dirUri, archiveUri } of settings.volumes) {
      if (rawUri !== undefined) this.#exact.set(rawUri, rawHandler(path));
      if (gzipUri !== undefined) this.#exact.set(gzipUri, gzipHandler(path));
      if (archiveUri !== undefined) this.#exact.set(archiveUri, archiveHandler(path));
      if (dirUri !== undefined) this.#directories.set(dirUri, directoryHandler(path));
    }
    const { vmUri, secretUri, backups } = settings;
    const { tunnels } = deps;
    for (const { name, dataUri, mapUri } of (tunnels && backups?.disks) ?? []) {
      if (!tunnels || !backups) continue;
      this.#exact.set(dataUri, backupDataHandler(name, tunnels));
      this.#exact.set(mapUri, backupMapHandler(name, backups, tunnels));
    }
    for (const side of ['internal', 'external'] as const) {
      if (vmUri !== undefined) this.#exact.set(`/${side}${vmUri}`, vmHandler(side, settings));
      if (secretUri !== undefined) this.#exact.set(`/${side}${secretUri}`, secretHandler(settings));
    }
  }

  /** Never rejects. */
  async handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const target = (request.url ?? '').split('?', 1)[0] ?? '';
    if (target === readyPath) return answerText(response, 200, 'OK');
    // Nothing that a client sends besides its headers is read.
    request.resume();
    try {
      if (!(await showsToken(request, this.#settings.tokenFile)))
        throw new ExportError('UNAUTHORIZED', 'show the token of the export in the header x-kubevirt-export-token');
      this.#deps.authenticated(request.socket);
      await this.#serve(request, response, this.#find(target));
    } catch (error) {
      this.#refuse(request, response, target, error);
    }
  }

  #find(target: string): Found {
    const path = decoded(target);
    const exact = this.#exact.get(path);
    if (exact) return { handle: exact, below: '' };
    for (const [prefix, handle] of this.#directories)
      if (path.startsWith(prefix)) return { handle, below: path.slice(prefix.length) };
    throw new ExportError('NOT_FOUND', 'nothing is exported at this address');
  }

  async #serve(request: IncomingMessage, response: ServerResponse, { handle, below }: Found): Promise<void> {
    const { ending } = this.#deps;
    if (this.#transfers >= maxTransfers) {
      response.setHeader('retry-after', '10');
      throw new ExportError('UNAVAILABLE', `${maxTransfers} downloads are under way: try again later`);
    }
    this.#transfers++;
    const gone = new AbortController();
    response.once('close', () => gone.abort());
    // A client that does not read keeps a place, and perhaps a process.
    response.setTimeout(stallMs, () => response.destroy());
    try {
      await handle({ request, response, below, signal: AbortSignal.any([gone.signal, ending]) });
    } finally {
      this.#transfers--;
    }
  }

  /** Once a part of the answer is out, all that can be said is that it is not whole. */
  #refuse(request: IncomingMessage, response: ServerResponse, target: string, error: unknown): void {
    const status = statusOf(error);
    const fields = { path: target, peer: request.socket.remoteAddress, status, reason: errorMessage(error) };
    if (response.headersSent) {
      if (response.writableFinished) return;
      this.#deps.log.warn(fields, 'a download was cut');
      response.destroy();
      return;
    }
    this.#deps.log.info(fields, 'a request was refused');
    const isKnown = error instanceof ExportError;
    answerText(response, status, isKnown ? error.message : 'the server cannot answer; its log says why');
  }
}

function decoded(target: string): string {
  try {
    return decodeURIComponent(target);
  } catch (cause) {
    throw new ExportError('BAD_REQUEST', 'the address is no text in UTF-8', { cause });
  }
}
