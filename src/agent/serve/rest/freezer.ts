import type { VirtualMachineInstance } from '../../../api/index.ts';
import { type Clock, errorCode, errorMessage, type Logger } from '../../../base/index.ts';
import { connectLauncher, failingAs, type LauncherCallDeps } from './call.ts';

export interface FreezerOptions {
  /** How long a guest stays frozen after all who asked for it have left: time for a retry to find it so. */
  readonly unfreezeAfterMs: number;
  /** An unfreeze that fails is tried again after `unfreezeAfterMs`, so often. */
  readonly unfreezeTries: number;
}

export interface FreezerDeps extends LauncherCallDeps {
  readonly clock: Clock;
  readonly log: Logger;
}

interface Guest {
  readonly vmi: VirtualMachineInstance;
  /** By their limit in seconds. */
  readonly flights: Map<number, Flight>;
  /** It was frozen, or may have been, and no client waits for it. */
  isAbandoned: boolean;
  cancelUnfreeze: (() => void) | undefined;
  /** Never rejects. A freeze waits for it: else it would find the guest frozen that is being unfrozen. */
  unfreezing: Promise<void> | undefined;
}

interface Flight {
  readonly done: Promise<void>;
  waiting: number;
}

/**
 * Freezing may take a minute and virt-api waits for ten seconds, then reports a failure to its user and asks again.
 * Upstream leaves such a guest frozen, perhaps for ever. Here a call goes on when its client leaves; who asks again joins it, so
 * that a slow guest is frozen by the second or third try; and a guest whose client has left is unfrozen again soon.
 */
export class Freezer {
  readonly #options: FreezerOptions;
  readonly #deps: FreezerDeps;
  readonly #guests = new Map<string, Guest>();

  constructor(options: FreezerOptions, deps: FreezerDeps) {
    this.#options = options;
    this.#deps = deps;
  }

  /** Guests that are being frozen, or that wait to be unfrozen. */
  get size(): number {
    return this.#guests.size;
  }

  /** Rejects with RestError BAD_REQUEST, or LAUNCHER_FAILED when the launcher cannot be reached. */
  async freeze(vmi: VirtualMachineInstance, unfreezeAfterSeconds: number, client: AbortSignal): Promise<void> {
    const uid = vmi.metadata.uid ?? '';
    const guest = this.#guests.get(uid) ?? newGuest(vmi);
    this.#guests.set(uid, guest);
    forgetUnfreeze(guest);
    const joined = guest.flights.get(unfreezeAfterSeconds);
    const flight = joined ?? this.#begin(guest, unfreezeAfterSeconds);
    flight.waiting++;
    const left = aborted(client);
    void left.promise.then(() => flight.waiting--);
    try {
      // Who began it keeps its slot among the VMI's calls until it has ended.
      await (joined ? Promise.race([flight.done, left.promise]) : flight.done);
    } finally {
      left.forget();
    }
  }

  /** Rejects as `freeze`. */
  async unfreeze(vmi: VirtualMachineInstance, client: AbortSignal): Promise<void> {
    const guest = this.#guests.get(vmi.metadata.uid ?? '');
    await this.#sendUnfreeze(vmi, client);
    if (!guest) return;
    forgetUnfreeze(guest);
    guest.isAbandoned = false;
    this.#settle(guest);
  }

  /** The agent leaves: guests that no later call will unfreeze are unfrozen now. Ends with the deadline of the call at the latest. */
  async stop(signal: AbortSignal): Promise<void> {
    const isAbandonedNow = ({ isAbandoned, flights }: Guest) =>
      isAbandoned || [...flights.values()].some(({ waiting }) => waiting === 0);
    const frozen = [...this.#guests.values()].filter(isAbandonedNow);
    for (const guest of frozen) forgetUnfreeze(guest);
    this.#guests.clear();
    await Promise.allSettled(frozen.map(({ vmi }) => this.#sendUnfreeze(vmi, signal)));
  }

  #begin(guest: Guest, unfreezeAfterSeconds: number): Flight {
    const done = this.#send(guest, unfreezeAfterSeconds);
    const flight: Flight = { done, waiting: 0 };
    guest.flights.set(unfreezeAfterSeconds, flight);
    done
      .then(
        () => {
          guest.isAbandoned = flight.waiting === 0;
        },
        (error: unknown) => {
          // No answer within a minute: it may become frozen yet, for a client that got a failure.
          if (errorCode(causeOf(error)) === 'TIMEOUT') guest.isAbandoned = true;
          const { vmi } = guest;
          this.#deps.events.record(vmi, { type: 'Warning', reason: 'FreezeError', message: errorMessage(error) });
        },
      )
      .finally(() => {
        guest.flights.delete(unfreezeAfterSeconds);
        this.#settle(guest);
      });
    return flight;
  }

  async #send({ vmi, unfreezing }: Guest, unfreezeAfterSeconds: number): Promise<void> {
    const { leaving } = this.#deps;
    await unfreezing;
    const launcher = await connectLauncher(vmi, this.#deps, leaving);
    await failingAs('BAD_REQUEST', () => launcher.freeze(unfreezeAfterSeconds, leaving));
  }

  async #sendUnfreeze(vmi: VirtualMachineInstance, signal: AbortSignal): Promise<void> {
    const launcher = await connectLauncher(vmi, this.#deps, signal);
    await failingAs('BAD_REQUEST', () => launcher.unfreeze(signal));
  }

  /** Called when something about the guest has ended. */
  #settle(guest: Guest, attempt = 1): void {
    if (guest.flights.size > 0 || guest.unfreezing || guest.cancelUnfreeze) return;
    if (guest.isAbandoned && !this.#deps.leaving.aborted) this.#unfreezeLater(guest, attempt);
    else this.#guests.delete(guest.vmi.metadata.uid ?? '');
  }

  #unfreezeLater(guest: Guest, attempt: number): void {
    guest.cancelUnfreeze = this.#deps.clock.schedule(this.#options.unfreezeAfterMs, () => {
      guest.cancelUnfreeze = undefined;
      guest.unfreezing = this.#unfreezeAbandoned(guest, attempt).finally(() => {
        guest.unfreezing = undefined;
        this.#settle(guest, attempt + 1);
      });
    });
  }

  /** Never rejects. */
  async #unfreezeAbandoned(guest: Guest, attempt: number): Promise<void> {
    const { log, events, leaving } = this.#deps;
    const { namespace, name, uid } = guest.vmi.metadata;
    const fields = { vmi: `${namespace}/${name}`, uid, attempt };
    try {
      await this.#sendUnfreeze(guest.vmi, leaving);
      guest.isAbandoned = false;
      const message = 'the guest was frozen when nobody waited for it any more, and was thawed again';
      log.warn(fields, message);
      events.record(guest.vmi, { type: 'Warning', reason: 'FreezeError', message });
    } catch (error) {
      guest.isAbandoned = attempt < this.#options.unfreezeTries;
      log.warn({ ...fields, reason: errorMessage(error) }, 'a guest that was frozen for nobody stays frozen');
    }
  }
}

function newGuest(vmi: VirtualMachineInstance): Guest {
  return { vmi, flights: new Map(), isAbandoned: false, cancelUnfreeze: undefined, unfreezing: undefined };
}

function forgetUnfreeze(guest: Guest): void {
  guest.cancelUnfreeze?.();
  guest.cancelUnfreeze = undefined;
}

function causeOf(error: unknown): unknown {
  return error instanceof Error ? error.cause : undefined;
}

/** Resolves when the signal fires; `forget` takes the listener away. */
function aborted(signal: AbortSignal): { readonly promise: Promise<void>; forget(): void } {
  let forget: () => void = () => undefined;
  const promise = new Promise<void>((resolve) => {
    const onAbort = () => resolve();
    if (signal.aborted) onAbort();
    signal.addEventListener('abort', onAbort, { once: true });
    forget = () => signal.removeEventListener('abort', onAbort);
  });
  return { promise, forget };
}
