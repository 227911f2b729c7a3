import type { Clock } from '../base/index.ts';
import type { Peer } from '../host/index.ts';

/** A socket as it was found, pinned, and the process that listened on it. Whoever has one closes `socket`. */
export interface Sighting {
  readonly socketFile: string;
  readonly peer: Peer;
  readonly socket: PinnedSocket;
}

/** Names one socket, whatever is put in its place later. */
export interface PinnedSocket {
  /** What connect() takes. */
  readonly socketAddress: string;
  stat?(): { readonly birthtimeMs: number };
  close(): void;
}

/** A connect that follows from a look comes within the same pass. */
const keptMs = 100;

/** What a look found, for the connect that follows from it as a rule: it need not look again. Closed soon if none does. */
export class Sightings {
  readonly #clock: Clock;
  readonly #kept = new Map<string, { readonly sighting: Sighting; readonly cancel: () => void }>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  keep(uid: string, sighting: Sighting): void {
    this.drop(uid);
    this.#kept.set(uid, { sighting, cancel: this.#clock.schedule(keptMs, () => this.drop(uid)) });
  }

  /** It is the caller's from now on. */
  take(uid: string): Sighting | undefined {
    const kept = this.#kept.get(uid);
    kept?.cancel();
    this.#kept.delete(uid);
    return kept?.sighting;
  }

  /** Safe when there is none. */
  drop(uid: string): void {
    this.take(uid)?.socket.close();
  }

  clear(): void {
    for (const uid of [...this.#kept.keys()]) this.drop(uid);
  }
}
