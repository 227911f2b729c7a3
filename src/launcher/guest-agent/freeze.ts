import { type Clock, errorMessage, type Logger, systemClock } from '../../base/index.ts';
import type { DomainRef } from '../../libvirt/index.ts';
import type { Hypervisor } from '../ports.ts';
import { runAgentCommand } from './command.ts';

type FreezeHypervisor = Pick<Hypervisor, 'agentCommand' | 'freeze' | 'unfreeze'>;

/** Freezes the guest's file systems, and unfreezes them when no caller did in time, as upstream's `FreezeVMI`. */
export class GuestFreezer {
  readonly #hypervisor: FreezeHypervisor;
  readonly #log: Logger;
  readonly #clock: Clock;
  #cancelUnfreeze: (() => void) | undefined;

  constructor(deps: { readonly hypervisor: FreezeHypervisor; readonly log: Logger; readonly clock?: Clock }) {
    this.#hypervisor = deps.hypervisor;
    this.#log = deps.log;
    this.#clock = deps.clock ?? systemClock;
  }

  /** Frozen already: nothing but a new time limit. `unfreezeAfterSeconds` 0: no limit. */
  async freeze(domain: DomainRef, unfreezeAfterSeconds: number): Promise<void> {
    if ((await this.#status(domain)) !== 'frozen') await this.#hypervisor.freeze(domain);
    this.#cancelUnfreeze?.();
    this.#cancelUnfreeze = undefined;
    if (unfreezeAfterSeconds <= 0) return;
    this.#cancelUnfreeze = this.#clock.schedule(unfreezeAfterSeconds * 1000, () => {
      this.#log.warn({ unfreezeAfterSeconds }, 'guest was not unfrozen in time: unfreezing it');
      this.unfreeze(domain).catch((error: unknown) =>
        this.#log.error({ err: errorMessage(error) }, 'guest stays frozen'),
      );
    });
  }

  async unfreeze(domain: DomainRef): Promise<void> {
    this.#cancelUnfreeze?.();
    this.#cancelUnfreeze = undefined;
    if ((await this.#status(domain)) === 'thawed') return;
    await this.#hypervisor.unfreeze(domain);
  }

  stop(): void {
    this.#cancelUnfreeze?.();
    this.#cancelUnfreeze = undefined;
  }

  #status(domain: DomainRef): Promise<unknown> {
    return runAgentCommand(this.#hypervisor, domain, { execute: 'guest-fsfreeze-status' });
  }
}
