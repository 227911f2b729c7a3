import type { Clock } from '../base/index.ts';

/** So many pings in a row may stay without any sign of life. */
const maxMissed = 2;

/** One connection as its keep-alive sees it. Counters only grow. */
export interface KeepAlivePeer {
  /** Counts what came from the peer. */
  heard(): number;
  /** Counts what the peer took; undefined where that cannot be told from what only left this machine. */
  moved(): number | undefined;
  /** Nothing can be heard because this side does not read: silence says nothing. */
  isDeaf(): boolean;
  ping(): void;
  giveUp(): void;
}

/** Pings after each interval of silence and gives up when two pings in a row found no sign of life. */
export class KeepAlive {
  readonly #intervalMs: number;
  readonly #clock: Clock;
  readonly #peer: KeepAlivePeer;
  #cancel: () => void;
  #heard: number;
  #moved: number | undefined;
  #missed = 0;

  constructor(intervalMs: number, clock: Clock, peer: KeepAlivePeer) {
    this.#intervalMs = intervalMs;
    this.#clock = clock;
    this.#peer = peer;
    this.#heard = peer.heard();
    this.#cancel = clock.schedule(intervalMs, () => this.#tick());
  }

  stop(): void {
    this.#cancel();
  }

  #tick(): void {
    const heard = this.#peer.heard();
    const moved = this.#peer.moved();
    const hasMoved = moved !== undefined && this.#moved !== undefined && moved !== this.#moved;
    this.#moved = moved;
    if (heard !== this.#heard || hasMoved) this.#missed = 0;
    else if (this.#peer.isDeaf()) this.#peer.ping();
    else if (this.#missed === maxMissed) {
      this.#peer.giveUp();
      return;
    } else {
      this.#missed++;
      this.#peer.ping();
    }
    this.#heard = heard;
    this.#cancel = this.#clock.schedule(this.#intervalMs, () => this.#tick());
  }
}
