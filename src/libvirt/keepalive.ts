import type { Clock } from '../base/index.ts';
import { type Packet, PacketStatus, PacketType } from './frame.ts';
import { Program } from './procedures.ts';

export const KeepaliveProcedure = { PING: 1, PONG: 2 } as const;

export interface KeepaliveOptions {
  /** Silence after which a ping is sent. */
  readonly intervalMs: number;
  /** Unanswered pings after which the daemon counts as hung. */
  readonly count: number;
}

/** PING or PONG: 28 bytes without payload, serial 0 (docs/kbase/internals/rpc.rst of libvirt). */
export function keepalivePacket(procedure: number): Packet {
  const { MESSAGE: type } = PacketType;
  const payload = Buffer.alloc(0);
  return { program: Program.KEEPALIVE, version: 1, procedure, type, serial: 0, status: PacketStatus.OK, payload };
}

export interface KeepaliveDeps {
  readonly clock: Clock;
  readonly sendPing: () => void;
  readonly onDead: () => void;
}

/** Pings after silence; any packet from the daemon counts as life. */
export class KeepaliveTimer {
  readonly #options: KeepaliveOptions;
  readonly #deps: KeepaliveDeps;
  #lastHeardMs = 0;
  #unanswered = 0;
  #cancel: (() => void) | undefined;

  constructor(options: KeepaliveOptions, deps: KeepaliveDeps) {
    this.#options = options;
    this.#deps = deps;
  }

  start(): void {
    this.heard();
    this.#schedule(this.#options.intervalMs);
  }

  stop(): void {
    this.#cancel?.();
    this.#cancel = undefined;
  }

  heard(): void {
    this.#lastHeardMs = this.#deps.clock.monotonicMs();
    this.#unanswered = 0;
  }

  #schedule(ms: number): void {
    this.#cancel = this.#deps.clock.schedule(ms, () => this.#tick());
  }

  #tick(): void {
    const { intervalMs, count } = this.#options;
    const silentMs = this.#deps.clock.monotonicMs() - this.#lastHeardMs;
    if (this.#unanswered === 0 && silentMs < intervalMs) {
      this.#schedule(intervalMs - silentMs);
      return;
    }
    if (this.#unanswered >= count) {
      this.stop();
      this.#deps.onDead();
      return;
    }
    this.#unanswered++;
    this.#schedule(intervalMs);
    this.#deps.sendPing();
  }
}
