import type { MigrationMetadata } from '../../api/index.ts';
import { type Clock, sleep, systemClock } from '../../base/index.ts';
import { type DomainRef, isLibvirtError } from '../../libvirt/index.ts';
import type { Hypervisor } from '../ports.ts';
import { outgoingJob } from './job.ts';

export interface AbortDeps {
  readonly hypervisor: Pick<Hypervisor, 'jobStats' | 'abortJob'>;
  readonly onAbortStatus: (status: MigrationMetadata['AbortStatus']) => void;
  readonly clock?: Clock;
}

type State =
  | { readonly kind: 'none' }
  | { readonly kind: 'asked'; readonly settled: Promise<void> }
  | { readonly kind: 'taken'; readonly reason: string };

const limitMs = 30_000;
const pauseMs = 100;

/** The order to abort one migration. What it did is known from here, never from the words of libvirt's error. */
export class MigrationAbort {
  readonly #domain: DomainRef;
  readonly #over: AbortSignal;
  readonly #deps: AbortDeps;
  readonly #early = new AbortController();
  #state: State = { kind: 'none' };
  #hasBegun = false;

  /** `over`: the migration has ended. */
  constructor(options: { readonly domain: DomainRef; readonly over: AbortSignal }, deps: AbortDeps) {
    this.#domain = options.domain;
    this.#over = options.over;
    this.#deps = deps;
  }

  /** An order has come before libvirt had anything to abort. */
  get early(): AbortSignal {
    return this.#early.signal;
  }

  /** libvirt is called from now on; false: an order came before. */
  begin(): boolean {
    this.#hasBegun = this.#state.kind === 'none';
    return this.#hasBegun;
  }

  get isOrdered(): boolean {
    return this.#state.kind !== 'none';
  }

  /** Resolves when libvirt has taken the order, or could not; a second order changes nothing. */
  async order(reason: string): Promise<void> {
    if (this.#state.kind === 'taken') return;
    if (!this.#hasBegun) {
      this.#endEarly(reason);
      return;
    }
    if (this.#state.kind === 'none') this.#state = { kind: 'asked', settled: this.#ask(reason) };
    await this.#state.settled;
  }

  /** Why libvirt was made to abort it; undefined: it was not. */
  async reasonInTheEnd(): Promise<string | undefined> {
    if (this.#state.kind === 'asked') await this.#state.settled;
    return this.#state.kind === 'taken' ? this.#state.reason : undefined;
  }

  #endEarly(reason: string): void {
    this.#state = { kind: 'taken', reason };
    for (const status of ['Aborting', 'Succeeded'] as const) this.#deps.onAbortStatus(status);
    this.#early.abort();
  }

  async #ask(reason: string): Promise<void> {
    this.#deps.onAbortStatus('Aborting');
    const isTaken = await this.#abortJob();
    this.#state = isTaken ? { kind: 'taken', reason } : { kind: 'none' };
    this.#deps.onAbortStatus(isTaken ? 'Succeeded' : 'Failed');
  }

  /** A migration that was only just begun has no job yet, so the order waits for it. */
  async #abortJob(): Promise<boolean> {
    const { hypervisor, clock = systemClock } = this.#deps;
    const untilMs = clock.monotonicMs() + limitMs;
    while (!this.#over.aborted && clock.monotonicMs() < untilMs) {
      try {
        if (outgoingJob(await hypervisor.jobStats(this.#domain))) {
          await hypervisor.abortJob(this.#domain);
          return true;
        }
      } catch (error) {
        // Between two stages there is no job to abort; it may be over, or about to begin.
        if (!isLibvirtError(error, 'OPERATION_INVALID', 'CONNECTION_LOST')) return false;
      }
      await sleep(pauseMs, this.#over, clock).catch(() => undefined);
    }
    return false;
  }
}
