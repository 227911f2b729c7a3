import { type Clock, sleep, systemClock } from '../../base/index.ts';
import { isLibvirtError } from '../../libvirt/index.ts';
import type { Hypervisor } from '../ports.ts';

const tries = 60;
const pauseMs = 1000;

/**
 * Sets the guest's clock after a pause, once per process (`setGuestTime` of upstream's `manager.go`). Needs the guest agent;
 * without it nothing happens.
 */
export class GuestTimeSync {
  readonly #hypervisor: Pick<Hypervisor, 'lookup' | 'setGuestTime'>;
  readonly #domainName: string;
  readonly #clock: Clock;
  readonly #stopping = new AbortController();
  #started = false;

  constructor(
    options: { readonly domainName: string },
    deps: { readonly hypervisor: Pick<Hypervisor, 'lookup' | 'setGuestTime'>; readonly clock?: Clock },
  ) {
    this.#domainName = options.domainName;
    this.#hypervisor = deps.hypervisor;
    this.#clock = deps.clock ?? systemClock;
  }

  start(): void {
    if (this.#started) return;
    this.#started = true;
    this.#run().catch(() => undefined);
  }

  stop(): void {
    this.#stopping.abort(new Error('launcher stops'));
  }

  async #run(): Promise<void> {
    for (let tried = 0; tried < tries; tried++) {
      const domain = await this.#hypervisor.lookup(this.#domainName);
      if (!domain) return;
      try {
        await this.#hypervisor.setGuestTime(domain, this.#clock.now());
        return;
      } catch (error) {
        if (isLibvirtError(error, 'OPERATION_UNSUPPORTED', 'ARGUMENT_UNSUPPORTED')) return;
      }
      await sleep(pauseMs, this.#stopping.signal, this.#clock);
    }
  }
}
