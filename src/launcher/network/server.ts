import type { Socket } from 'node:dgram';
import { backoffDelayMs, type Clock, errorMessage, type Logger, TokenBucket } from '../../base/index.ts';
import type { DeviceSocketOptions } from '../../host/index.ts';
import type { Answer, Peer } from './answer.ts';
import { NetworkError } from './errors.ts';

export type OpenSocket = (options: DeviceSocketOptions) => Promise<Socket>;

export interface ServerOptions {
  readonly listen: DeviceSocketOptions;
  /** Must not throw, whatever the bytes are. */
  readonly answer: (bytes: Buffer, from: Peer) => Answer;
}

export interface ServerDeps {
  readonly open: OpenSocket;
  readonly log: Logger;
  readonly clock: Clock;
}

type State =
  | { readonly kind: 'stopped' }
  | { readonly kind: 'opening' }
  | { readonly kind: 'listening'; readonly socket: Socket }
  /** The bridge went away under it; it may come back. */
  | { readonly kind: 'waiting'; readonly cancel: () => void };

/** A guest asks a few times in its life. More is not looked at, so that the launcher has time for the rest. */
const packetRate = { perSecond: 50, burst: 200 };
const logRate = { perSecond: 1 / 60, burst: 3 };
const reopen = { baseMs: 500, maxMs: 30_000 };

/** Answers on one bridge until it is stopped. A failure later than the start is repaired here; upstream's ends the whole VM. */
export class DhcpServer {
  readonly #options: ServerOptions;
  readonly #deps: ServerDeps;
  readonly #packets: TokenBucket;
  readonly #logs: TokenBucket;
  #state: State = { kind: 'stopped' };
  #failures = 0;

  constructor(options: ServerOptions, deps: ServerDeps) {
    this.#options = options;
    this.#deps = deps;
    this.#packets = new TokenBucket(packetRate, deps.clock);
    this.#logs = new TokenBucket(logRate, deps.clock);
  }

  /** Rejects with `NetworkError` DHCP_FAILED. */
  async start(): Promise<void> {
    const { family, device } = this.#options.listen;
    this.#state = { kind: 'opening' };
    try {
      await this.#open();
    } catch (cause) {
      this.#state = { kind: 'stopped' };
      const what = family === 'udp4' ? 'DHCP' : 'DHCPv6';
      throw new NetworkError(
        'DHCP_FAILED',
        `the ${what} server for the guest cannot listen on ${device}: ${errorMessage(cause)}. The launcher needs the capability NET_BIND_SERVICE`,
        { cause },
      );
    }
  }

  stop(): void {
    const state = this.#state;
    this.#state = { kind: 'stopped' };
    if (state.kind === 'listening') state.socket.close();
    if (state.kind === 'waiting') state.cancel();
  }

  async #open(): Promise<void> {
    const socket = await this.#deps.open(this.#options.listen);
    if (this.#state.kind !== 'opening') {
      socket.close();
      return;
    }
    this.#state = { kind: 'listening', socket };
    socket.on('message', (bytes, from) => this.#received(socket, bytes, from));
    socket.on('error', (error) => this.#broken(socket, error));
  }

  #received(socket: Socket, bytes: Buffer, from: Peer): void {
    if (!this.#packets.tryTake()) {
      this.#logSeldom({}, 'the guest sends more DHCP messages than are looked at');
      return;
    }
    this.#failures = 0;
    const answer = this.#options.answer(bytes, { address: from.address, port: from.port });
    switch (answer.kind) {
      case 'reply':
        this.#send(socket, answer.bytes, answer.to);
        return;
      case 'malformed':
        this.#logSeldom({ problem: answer.problem }, 'malformed DHCP message of the guest');
        return;
      case 'ignored':
        this.#deps.log.debug({ ...this.#fields(), reason: answer.reason }, 'DHCP message not answered');
        return;
    }
  }

  #send(socket: Socket, bytes: Buffer, to: Peer): void {
    socket.send(bytes, to.port, to.address, (error) => {
      if (error) this.#logSeldom({ err: error.message, to: to.address }, 'DHCP answer not sent');
    });
  }

  #broken(socket: Socket, error: Error): void {
    socket.close();
    if (this.#state.kind !== 'listening' || this.#state.socket !== socket) return;
    this.#deps.log.warn({ ...this.#fields(), err: error.message }, 'DHCP server lost its socket');
    this.#waitAndReopen();
  }

  #waitAndReopen(): void {
    const waitMs = backoffDelayMs(++this.#failures, reopen);
    const cancel = this.#deps.clock.schedule(waitMs, () => {
      this.#state = { kind: 'opening' };
      this.#open().catch((error: unknown) => {
        this.#deps.log.debug({ ...this.#fields(), err: errorMessage(error) }, 'DHCP server cannot listen again yet');
        if (this.#state.kind === 'opening') this.#waitAndReopen();
      });
    });
    this.#state = { kind: 'waiting', cancel };
  }

  #logSeldom(fields: object, message: string): void {
    if (this.#logs.tryTake()) this.#deps.log.warn({ ...this.#fields(), ...fields }, message);
  }

  #fields(): object {
    const { device, port } = this.#options.listen;
    return { device, port };
  }
}
