import { type Clock, errorMessage, type Logger, systemClock } from '../../base/index.ts';
import type { DomainRef } from '../../libvirt/index.ts';
import type { Hypervisor } from '../ports.ts';
import { runAgentCommand } from './command.ts';

type FreezeHypervisor = Pick<Hypervisor, 'agentCommand' | 'freeze' | 'thaw'>;

/** Freezes the guest's file systems, and thaws them when nobody else did in time (spec 70 §6). */
export class GuestFreezer {
  readonly #hypervisor: FreezeHypervisor;
  readonly #log: Logger;
  readonly #clock: Clock;
  #cancelThaw: (() => void) | undefined;

  constructor(deps: { readonly hypervisor: FreezeHypervisor; readonly log: Logger; readonly clock?: Clock }) {
    this.#hypervisor = deps.hypervisor;
    this.#log = deps.log;
    this.#clock = deps.clock ?? systemClock;
  }

  /** Frozen already: nothing but a new time limit. `thawAfterSeconds` 0: no limit. */
  async freeze(domain: DomainRef, thawAfterSeconds: number): Promise<void> {
    if ((await this.#status(domain)) !== 'frozen') await this.#hypervisor.freeze(domain);
    this.#cancelThaw?.();
    this.#cancelThaw = undefined;
    if (thawAfterSeconds <= 0) return;
    this.#cancelThaw = this.#clock.schedule(thawAfterSeconds * 1000, () => {
      this.#log.warn({ thawAfterSeconds }, 'nobody thawed the guest in time: thawing it');
      this.thaw(domain).catch((error: unknown) => this.#log.error({ err: errorMessage(error) }, 'guest stays frozen'));
    });
  }

  async thaw(domain: DomainRef): Promise<void> {
    this.#cancelThaw?.();
    this.#cancelThaw = undefined;
    if ((await this.#status(domain)) === 'thawed') return;
    await this.#hypervisor.thaw(domain);
  }

  stop(): void {
    this.#cancelThaw?.();
    this.#cancelThaw = undefined;
  }

  #status(domain: DomainRef): Promise<unknown> {
    return runAgentCommand(this.#hypervisor, domain, { execute: 'guest-fsfreeze-status' });
  }
}
