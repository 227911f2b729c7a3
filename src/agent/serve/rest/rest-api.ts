import { setMaxListeners } from 'node:events';
import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import type { Request, Response } from 'express';
import { labels, makeKey, type VirtualMachineInstance } from '../../../api/index.ts';
import { type Clock, type Logger, withDeadline } from '../../../base/index.ts';
import { answerUpgrade } from '../../../http/index.ts';
import type { VmiEventRecorder, VmiStore } from '../../vmi/ports.ts';
import { type Answer, accepted, sendAnswer } from './answers.ts';
import { parseBody } from './bodies.ts';
import { unfreezeAfterSeconds } from './body-shapes.ts';
import type { Call, LauncherCallDeps } from './call.ts';
import { CallGate } from './call-gate.ts';
import { commandHandlers } from './commands.ts';
import { RestError } from './errors.ts';
import { Freezer } from './freezer.ts';
import type { LauncherActions, StreamSink } from './ports.ts';
import { queryHandlers } from './queries.ts';
import type { RouteServer } from './rest-app.ts';
import type { RestRoute, RouteName } from './routes.ts';
import { streamHandlers } from './streams.ts';
import { UsbSlots } from './usb-slots.ts';

export interface RestApiOptions {
  readonly nodeName: string;
  /** Calls to one VMI's launcher that may be under way; 8 unless given. */
  readonly callsPerVmi?: number;
  /** How long a guest stays frozen whose client has left; 20 s unless given. */
  readonly unfreezeAfterMs?: number;
  /** Where processes are seen; `/proc` unless given. */
  readonly procDir?: string;
}

export interface RestApiDeps {
  readonly vmis: Pick<VmiStore, 'synced' | 'get'>;
  readonly actions: LauncherActions;
  readonly events: Pick<VmiEventRecorder, 'record'>;
  readonly streams: StreamSink;
  readonly clock: Clock;
  readonly log: Logger;
}

type Handlers = { readonly [Name in RouteName]: (call: Call) => Answer | Promise<Answer> };

const stopTimeoutMs = 3_000;
const maxLogged = 512;

/**
 * The console and lifecycle interface (upstream: pkg/virt-handler/rest) for a server that has checked who asks. Upgrades take the same way as other
 * requests, so that each has one answer.
 */
export class RestApi {
  readonly #options: RestApiOptions;
  readonly #deps: RestApiDeps;
  readonly #handlers: Handlers;
  readonly #gate: CallGate;
  readonly #freezer: Freezer;
  readonly #slots = new UsbSlots();
  readonly #leaving = new AbortController();
  readonly #clients = new Set<AbortController>();
  #app: Promise<RequestListener> | undefined;
  readonly #upgrades = new WeakMap<IncomingMessage, { readonly socket: Duplex; readonly head: Buffer }>();

  constructor(options: RestApiOptions, deps: RestApiDeps) {
    this.#options = options;
    this.#deps = deps;
    this.#gate = new CallGate(options.callsPerVmi ?? 8);
    // Every order listens on it.
    setMaxListeners(0, this.#leaving.signal);
    const { actions, events, clock, log } = deps;
    const launcher: LauncherCallDeps = { actions, events, leaving: this.#leaving.signal };
    this.#freezer = new Freezer(
      { unfreezeAfterMs: options.unfreezeAfterMs ?? 20_000, unfreezeTries: 5 },
      { ...launcher, clock, log },
    );
    this.#handlers = {
      ...commandHandlers(launcher),
      ...queryHandlers(launcher),
      ...streamHandlers({ actions, slots: this.#slots, procDir: options.procDir ?? '/proc' }),
      ...freezeHandlers(this.#freezer),
    };
  }

  /** For those who look after the agent. */
  get state(): { readonly calls: number; readonly usbChannels: number; readonly freezing: number } {
    return { calls: this.#gate.size, usbChannels: this.#slots.size, freezing: this.#freezer.size };
  }

  /** Answers one request, whatever it is. */
  handle(request: IncomingMessage, response: ServerResponse): void {
    this.#answer(request, response);
  }

  /** Answers one request of Node.js' `upgrade` event: a stream, or a plain refusal. */
  upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void {
    const response = answerUpgrade(request, socket, this.#deps.clock);
    if (!response) return;
    this.#upgrades.set(request, { socket, head });
    this.#answer(request, response);
  }

  /** The agent leaves: calls end, and guests that no client will unfreeze are unfrozen. Never rejects. */
  async stop(): Promise<void> {
    const reason = new RestError('UNAVAILABLE', 'the node agent leaves');
    this.#leaving.abort(reason);
    for (const client of this.#clients) client.abort(reason);
    const limits = { timeoutMs: stopTimeoutMs, signal: new AbortController().signal, clock: this.#deps.clock };
    await withDeadline(limits, (signal) => this.#freezer.stop(signal));
  }

  /** Express costs an agent 12 MB, and most agents are never asked: it comes with the first request. */
  #answer(request: IncomingMessage, response: ServerResponse): void {
    this.#app ??= import('./rest-app.ts').then(({ createRestApp }) => createRestApp(this.#routes()));
    this.#app.then(
      (app) => app(request, response),
      (error: unknown) => {
        this.#deps.log.error({ err: error }, 'the routes could not be loaded');
        response.writeHead(500).end();
      },
    );
  }

  #routes(): RouteServer {
    return {
      check: (route, request) => {
        if (route.isStream || !this.#upgrades.has(request)) return;
        throw new RestError('BAD_REQUEST', 'there is nothing to upgrade to here');
      },
      serve: (route, request, response) => this.#serve(route, request, response),
      refused: ({ method, path }, { code, httpStatus, message }) => {
        const level = code === 'INTERNAL' ? 'error' : httpStatus >= 500 ? 'warn' : 'debug';
        const fields = { method, path: path.slice(0, maxLogged), status: httpStatus, reason: message };
        this.#deps.log[level](fields, 'request refused');
      },
    };
  }

  async #serve(route: RestRoute, request: Request, response: Response): Promise<void> {
    this.#leaving.signal.throwIfAborted();
    const { namespace, name } = request.params as Record<string, string>;
    const vmi = this.#findVmi(namespace ?? '', name ?? '');
    const key = makeKey(namespace ?? '', name ?? '');
    const upgrade = this.#upgrades.get(request);
    const call: Call = {
      key,
      vmi,
      query: new URL(request.url, 'http://agent').searchParams,
      body: route.hasBody && Buffer.isBuffer(request.body) ? await parseBody(request.body) : undefined,
      client: upgrade ? noSignal : this.#clientSignal(response),
    };
    const startedMs = this.#deps.clock.monotonicMs();
    const run = async () => this.#handlers[route.name](call);
    const answer = route.isStream ? await run() : await this.#gate.run(vmi.metadata.uid ?? '', run);
    if (answer.kind !== 'stream') {
      const tookMs = Math.round(this.#deps.clock.monotonicMs() - startedMs);
      this.#deps.log[route.method === 'PUT' ? 'info' : 'debug'](
        { vmi: key, route: route.name, tookMs },
        'request served',
      );
      sendAnswer(answer, response);
      return;
    }
    if (!upgrade) {
      const headers = { Upgrade: 'websocket', Connection: 'Upgrade', 'Sec-WebSocket-Version': '13' };
      throw new RestError('UPGRADE_REQUIRED', 'this is a stream: ask for it as a websocket', { headers });
    }
    response.detachSocket(upgrade.socket as Socket);
    this.#deps.streams.serve(request, upgrade.socket, upgrade.head, answer.stream);
  }

  /** Names are only compared with those of known objects; no file is ever opened by them. */
  #findVmi(namespace: string, name: string): VirtualMachineInstance {
    const { vmis } = this.#deps;
    const isNamed = namespaceName.test(namespace) && objectName.test(name);
    const vmi = isNamed ? vmis.get(makeKey(namespace, name)) : undefined;
    if (vmi?.metadata.uid && vmi.metadata.labels?.[labels.nodeName] === this.#options.nodeName) return vmi;
    if (isNamed && !vmis.synced) {
      const headers = { 'Retry-After': '1' };
      throw new RestError('UNAVAILABLE', 'the node agent has not listed its VMIs yet: try again soon', { headers });
    }
    throw new RestError('NOT_FOUND', `VMI ${namespace}/${name} does not exist`);
  }

  /** Fires when the client has gone before its answer was written, and when the agent leaves. */
  #clientSignal(response: Response): AbortSignal {
    const client = new AbortController();
    this.#clients.add(client);
    response.once('close', () => {
      this.#clients.delete(client);
      if (!response.writableFinished) client.abort(new RestError('UNAVAILABLE', 'the client left'));
    });
    return client.signal;
  }
}

/** A stream's handler only says what it would open. */
const noSignal = new AbortController().signal;

/** DNS-1123 label and subdomain. */
const namespaceName = /^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/;
const objectName = /^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$/;

function freezeHandlers(freezer: Freezer) {
  return {
    freeze: async ({ vmi, body, client }: Call): Promise<Answer> => {
      await freezer.freeze(vmi, unfreezeAfterSeconds(body), client);
      return accepted;
    },
    unfreeze: async ({ vmi, client }: Call): Promise<Answer> => {
      await freezer.unfreeze(vmi, client);
      return accepted;
    },
  };
}
