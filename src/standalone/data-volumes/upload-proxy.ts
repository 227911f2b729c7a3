import { createWriteStream } from 'node:fs';
import { rm } from 'node:fs/promises';
import type { IncomingMessage, ServerResponse } from 'node:http';
import path from 'node:path';
import { Transform } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { type Clock, type Component, errorCode, errorMessage, type Logger } from '../../base/index.ts';
import { HttpServer } from '../../http/index.ts';
import { type Authorities, defaultTlsSettings, readKeyPair, SettableValue, TlsContext } from '../../tls/index.ts';
import { isNoSpace, makeWorkDirectory, requireSpace } from '../disk-images/index.ts';
import { NodeError } from '../errors.ts';
import type { AwaitedUpload, DataVolumeController } from './data-volume-controller.ts';
import { mostBytes } from './fill.ts';
import { FormFile } from './form-file.ts';
import type { UploadClaim, UploadTokenKey } from './upload-token.ts';

export interface UploadProxyOptions {
  readonly host: string;
  readonly port: number;
  /** PEM. */
  readonly tls: { readonly cert: string; readonly key: string };
}

export interface UploadProxyDeps {
  readonly controller: Pick<DataVolumeController, 'awaitedUpload' | 'filler'>;
  readonly tokens: Pick<UploadTokenKey, 'check'>;
  readonly clock: Clock;
  readonly log: Logger;
}

interface Answer {
  readonly httpStatus: number;
  readonly message: string;
}

interface Route {
  /** It is answered with the disk in its place, or as soon as what came is known to be one. */
  readonly until: 'filled' | 'accepted';
  /** The disk is the field `file` of a form. */
  readonly isForm: boolean;
}

/** CDI's (pkg/common of CDI). */
const routes: Readonly<Record<string, Route>> = {
  upload: { until: 'filled', isForm: false },
  'upload-async': { until: 'accepted', isForm: false },
  'upload-form': { until: 'filled', isForm: true },
  'upload-form-async': { until: 'accepted', isForm: true },
};
/** As CDI: a page of any origin may send a disk, when it has a token. */
const anyOrigin = {
  'Access-Control-Allow-Origin': '*',
  'Access-Control-Allow-Methods': 'HEAD, POST, PUT',
  'Access-Control-Allow-Headers': 'Authorization, Content-Type',
};
/** A client that sends nothing for so long has gone. */
const silenceMs = 60_000;
const fileName = 'upload';
const limits = { maxConnections: 32, keepAliveTimeout: 5_000, headersTimeout: 15_000, requestTimeout: 0 };

/** Where `virtctl image-upload` sends disks, as CDI's upload proxy takes them (cmd/cdi-uploadproxy): whoever has a token for a claim may fill it, once. */
export class UploadProxy implements Component {
  readonly name = 'upload proxy';
  readonly #deps: UploadProxyDeps;
  readonly #http: HttpServer;
  /** UIDs of claims. */
  readonly #receiving = new Set<string>();

  constructor({ host, port, tls }: UploadProxyOptions, deps: UploadProxyDeps) {
    this.#deps = deps;
    const keyPair = new SettableValue(readKeyPair(tls.cert, tls.key));
    const settings = new SettableValue(defaultTlsSettings);
    const parts = { keyPair, authorities: new SettableValue<Authorities>(), settings, log: deps.log };
    this.#http = new HttpServer(
      {
        name: 'upload proxy',
        address: { kind: 'tcp', host, port },
        limits,
        tls: { context: new TlsContext({ verify: 'none' }, parts), clients: 'anyone', handshakeTimeoutMs: 15_000 },
        drainMs: 1_000,
      },
      { handle: (request, response) => void this.#serve(request, response), log: deps.log, clock: deps.clock },
    );
  }

  get port(): number {
    return this.#http.port;
  }

  async start(): Promise<void> {
    await this.#http.start();
  }

  stop(): Promise<void> {
    return this.#http.stop();
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    // A pipeline that fails takes the request's socket from it, and leaves it open.
    const { socket } = request;
    const answer = await this.#answer(request).catch((error: unknown) => {
      const refusal = refusalOf(error);
      this.#deps.log.warn({ err: errorMessage(error), httpStatus: refusal.httpStatus }, 'an upload was refused');
      return refusal;
    });
    if (socket.destroyed) return;
    // What is left of a body that nobody wants would be taken for the next request.
    if (!request.complete) response.setHeader('Connection', 'close');
    response.writeHead(answer.httpStatus, { ...anyOrigin, 'Content-Type': 'text/plain; charset=utf-8' });
    response.end(request.method === 'HEAD' ? undefined : `${answer.message}\n`);
  }

  async #answer(request: IncomingMessage): Promise<Answer> {
    const { pathname } = new URL(request.url ?? '/', 'https://proxy');
    if (pathname === '/healthz') return { httpStatus: 200, message: 'OK' };
    const [, name = ''] = /^\/v1(?:alpha1|beta1)\/([a-z-]+)$/.exec(pathname) ?? [];
    const route = Object.hasOwn(routes, name) ? routes[name] : undefined;
    if (!route) return { httpStatus: 404, message: `there is no ${pathname} here` };
    if (request.method === 'OPTIONS') return { httpStatus: 200, message: '' };
    if (!['HEAD', 'POST', 'PUT'].includes(request.method ?? '')) return { httpStatus: 405, message: 'use POST' };
    const claim = await this.#claimOf(request.headers.authorization);
    if ('httpStatus' in claim) return claim;
    const awaited = await this.#deps.controller.awaitedUpload(claim.namespace, claim.name);
    if (!awaited || this.#receiving.has(claim.uid)) {
      const message = `claim ${claim.namespace}/${claim.name} awaits no upload now: it is filled, being filled, or not ready yet`;
      return { httpStatus: 503, message };
    }
    if (awaited.claim.metadata.uid !== claim.uid) {
      return { httpStatus: 401, message: 'the token is for a claim that is no more: ask for another one' };
    }
    this.#http.authenticated(request.socket);
    if (request.method === 'HEAD') return { httpStatus: 200, message: '' };
    return this.#receive(request, awaited, route);
  }

  async #claimOf(authorization: string | undefined): Promise<UploadClaim | Answer> {
    const [, token] = /^Bearer (\S+)$/i.exec(authorization ?? '') ?? [];
    if (token === undefined) return { httpStatus: 401, message: 'no token: Authorization: Bearer …' };
    const claim = await this.#deps.tokens.check(token);
    if (typeof claim !== 'string') return claim;
    const why =
      claim === 'expired' ? 'the token has expired: ask for another one' : 'the token is not one of this node';
    return { httpStatus: 401, message: why };
  }

  async #receive(request: IncomingMessage, awaited: AwaitedUpload, route: Route): Promise<Answer> {
    const { filler } = this.#deps.controller;
    const { key, claim, place } = awaited;
    const uid = claim.metadata.uid ?? '';
    const work = filler.workDirectory(uid);
    this.#receiving.add(uid);
    try {
      await makeWorkDirectory(work);
      const maxBytes = mostBytes(place.sizeBytes);
      await requireLength(request, work, maxBytes);
      await this.#store(request, path.join(work, fileName), maxBytes, route);
    } catch (error) {
      await rm(work, { recursive: true, force: true });
      throw error;
    } finally {
      this.#receiving.delete(uid);
    }
    await filler.take(key, claim, place, { name: fileName, until: route.until });
    return { httpStatus: 200, message: 'the disk was taken' };
  }

  async #store(request: IncomingMessage, file: string, maxBytes: number, { isForm }: Route): Promise<void> {
    // Before the parser: what it passes over (other fields, what follows the form) has an end, too.
    const parts = [bounded(maxBytes), ...(isForm ? [new FormFile(request.headers['content-type'])] : [])];
    const out = createWriteStream(file, { flags: 'wx', mode: 0o600 });
    const silent = () => request.destroy(new Error('nothing came for a while'));
    request.setTimeout(silenceMs, silent);
    await pipeline([request, ...parts, out]);
    request.setTimeout(0);
    if (out.bytesWritten === 0) throw new NodeError('DISK_REFUSED', 'the upload is empty');
  }
}

/** Passes on what comes, and fails with NodeError DISK_REFUSED when it is more. */
function bounded(maxBytes: number): Transform {
  let bytes = 0;
  return new Transform({
    transform: (chunk: Buffer, _encoding, done) => {
      bytes += chunk.length;
      if (bytes > maxBytes) done(tooLarge(maxBytes));
      else done(null, chunk);
    },
  });
}

async function requireLength({ headers }: IncomingMessage, work: string, maxBytes: number): Promise<void> {
  const announced = Number(headers['content-length'] ?? 0);
  if (announced > maxBytes) throw tooLarge(maxBytes);
  await requireSpace(work, announced, 'the upload');
}

function tooLarge(maxBytes: number): NodeError {
  const text = `the upload has more than ${maxBytes} bytes, which are the most that its claim can take: make a larger claim`;
  return new NodeError('DISK_REFUSED', text);
}

function refusalOf(error: unknown): Answer {
  const message = errorMessage(error);
  if (isNoSpace(error) || errorCode(error) === 'NO_SPACE') return { httpStatus: 507, message };
  if (errorCode(error) === 'DISK_REFUSED') return { httpStatus: 400, message };
  if (errorCode(error) === 'CLAIM_IN_USE') return { httpStatus: 409, message };
  return { httpStatus: 500, message };
}
