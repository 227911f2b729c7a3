import { createServer, type Server, type Socket } from 'node:net';
import path from 'node:path';
import { type Clock, type Component, errorMessage, type Logger } from '../../base/index.ts';
import { peerOf, preparePeers } from '../../host/index.ts';
import { listenAt } from '../../http/index.ts';
import { MigrationProxyError } from './errors.ts';
import { LineChannel } from './line-channel.ts';
import type { ProxyKeeper } from './proxy-keeper.ts';
import {
  type RelayAnswer,
  type RelayFailure,
  type RelayRequest,
  type RelayState,
  readRequest,
  relaySocketName,
  relayVersion,
} from './relay-protocol.ts';

export interface MigrationRelayOptions {
  /** Of the socket; this user's alone. */
  readonly directory: string;
  readonly pid: number;
  /** Figures are sent this often while there are some. */
  readonly lookMs?: number;
}

export interface MigrationRelayDeps {
  readonly proxies: ProxyKeeper;
  readonly clock: Clock;
  readonly log: Logger;
}

/** Agents of one node: the one that serves, one that leaves, and those of a test. */
const maxAgents = 8;
const maxOrders = 64;
const lookAgainMs = 500;

/**
 * Keeps the proxy processes of live migrations for agents that come and go: it starts and ends what an agent of this node orders over
 * a Unix socket. Only a process of the same user is listened to, whom the kernel names. What an agent sends that is no request ends
 * its connection, and what it waited for then is given up.
 */
export class MigrationRelay implements Component {
  readonly name = 'migration relay';
  readonly #options: Required<MigrationRelayOptions>;
  readonly #deps: MigrationRelayDeps;
  readonly #agents = new Set<RelayedAgent>();
  #server: Server | undefined;
  #release: () => Promise<void> = async () => undefined;
  #refusal: string | undefined;
  #endChanges: (() => void) | undefined;
  #cancelLook: (() => void) | undefined;

  constructor(options: MigrationRelayOptions, deps: MigrationRelayDeps) {
    this.#options = { lookMs: 5_000, ...options };
    this.#deps = deps;
  }

  /** Rejects with ListenError, when another relay serves there, or the system's error. What a former relay left is taken up before an agent is answered. */
  async start(signal: AbortSignal): Promise<void> {
    const { directory, pid } = this.#options;
    const { proxies, log } = this.#deps;
    await preparePeers();
    let begin: () => void = () => undefined;
    const ready = new Promise<void>((resolve) => {
      begin = resolve;
    });
    const create = () => {
      const server = createServer((socket) => void this.#welcome(socket, ready));
      server.maxConnections = maxAgents;
      return server;
    };
    const address = {
      ...({ kind: 'unix', path: path.join(directory, relaySocketName), mode: 0o600, pid } as const),
      other: 'another migration relay',
    };
    const { servers, release, shown } = await listenAt(create, address);
    [this.#server] = servers;
    this.#release = release;
    await proxies.start(signal);
    this.#endChanges = proxies.onChange(() => this.#tellAll());
    this.#lookLater();
    begin();
    log.info({ socket: shown, address: proxies.address }, 'the migration relay serves this node');
  }

  /** No migration begins any more; resolves when those that run have ended, or `gracefulMs` have passed. */
  async leave(gracefulMs: number): Promise<void> {
    const { proxies, clock, log } = this.#deps;
    this.#refusal = 'the migration relay of this node is leaving; its successor takes migrations again';
    this.#tellAll();
    const endMs = clock.monotonicMs() + gracefulMs;
    const open = () => proxies.kept().length;
    if (open() > 0) log.info({ open: open(), atMostSeconds: gracefulMs / 1000 }, 'waiting for running migrations');
    while (open() > 0 && clock.monotonicMs() < endMs) {
      await new Promise<void>((resolve) => {
        clock.schedule(lookAgainMs, resolve);
      });
    }
    if (open() > 0) log.warn({ open: open() }, 'migrations still run; they end with this container');
  }

  /** Its processes go on as long as its container does. */
  async stop(): Promise<void> {
    this.#cancelLook?.();
    this.#endChanges?.();
    await this.#release();
    this.#server?.close();
    for (const agent of this.#agents) agent.end('the relay leaves');
    await this.#deps.proxies.stop();
  }

  async #welcome(socket: Socket, ready: Promise<void>): Promise<void> {
    const { proxies, clock, log } = this.#deps;
    socket.on('error', () => undefined);
    try {
      const { uid, pid } = await peerOf(socket);
      if (uid !== process.geteuid?.()) throw new Error(`process ${pid} is user ${uid}`);
      await ready;
    } catch (error) {
      log.warn({ reason: errorMessage(error) }, 'what connected is no agent of this node');
      socket.destroy();
      return;
    }
    if (socket.destroyed) return;
    const agent = new RelayedAgent(socket, {
      ...{ proxies, clock },
      refusal: () => this.#refusal,
      onEnd: (reason) => {
        this.#agents.delete(agent);
        if (reason !== undefined) log.warn({ reason }, 'the connection of an agent was ended');
      },
    });
    this.#agents.add(agent);
    agent.tell(this.#state);
  }

  get #state(): RelayState {
    const { proxies } = this.#deps;
    const { address, supported } = proxies;
    const problem = this.#refusal ?? proxies.problem;
    const kept = proxies.kept().map(({ duty, process, figures }) => {
      const { pid, startTime } = process;
      return { duty, process: { pid, startTime }, figures };
    });
    const ended = proxies.ended();
    return { version: relayVersion, address, supported, ...(problem !== undefined && { problem }), kept, ended };
  }

  #tellAll(): void {
    const state = this.#state;
    for (const agent of this.#agents) agent.tell(state);
  }

  #lookLater(): void {
    this.#cancelLook = this.#deps.clock.schedule(this.#options.lookMs, () => {
      if (this.#agents.size > 0) this.#tellAll();
      this.#lookLater();
    });
  }
}

interface RelayedAgentDeps {
  readonly proxies: ProxyKeeper;
  readonly clock: Clock;
  readonly refusal: () => string | undefined;
  readonly onEnd: (reason: string | undefined) => void;
}

type Order = Exclude<RelayRequest, { call: 'cancel' }>;

/** One agent's connection, and what it has ordered. */
class RelayedAgent {
  readonly #deps: RelayedAgentDeps;
  readonly #channel: LineChannel;
  /** By the id of the request; aborted when the agent does not want it any more, or has gone. */
  readonly #orders = new Map<number, AbortController>();

  constructor(socket: Socket, deps: RelayedAgentDeps) {
    this.#deps = deps;
    this.#channel = new LineChannel(socket, {
      clock: deps.clock,
      onLine: (line) => this.#take(line),
      onEnd: (reason) => {
        for (const order of this.#orders.values()) order.abort(new Error('the agent has gone'));
        deps.onEnd(reason);
      },
    });
  }

  tell(message: RelayState | RelayAnswer): void {
    this.#channel.send(message);
  }

  end(reason: string): void {
    this.#channel.end(reason);
  }

  #take(line: string): void {
    const request = readRequest(line);
    if (!request) this.end('what it sent is no request');
    else if (request.call === 'cancel') this.#orders.get(request.id)?.abort(new Error('the agent has given it up'));
    else if (this.#orders.has(request.id) || this.#orders.size >= maxOrders) this.end('it sent too many requests');
    else this.#order(request);
  }

  #order(request: Order): void {
    const { id } = request;
    const order = new AbortController();
    this.#orders.set(id, order);
    void this.#work(request, order.signal).then((failure) => {
      this.#orders.delete(id);
      this.tell({ id, ...(failure && { failure }) });
    });
  }

  /** Undefined: it is done. Never rejects. */
  async #work(request: Order, signal: AbortSignal): Promise<RelayFailure | undefined> {
    const { proxies, refusal } = this.#deps;
    try {
      if (request.call === 'close') await proxies.close(request.side, request.uid);
      else {
        const refused = refusal();
        if (refused !== undefined) throw new MigrationProxyError('UNAVAILABLE', refused);
        await proxies.open(request.duty, request.tls, signal);
      }
      return undefined;
    } catch (error) {
      const code = error instanceof MigrationProxyError ? error.code : 'START_FAILED';
      return { code, message: errorMessage(error) };
    }
  }
}
