import { findCondition, type VirtualMachineInstance } from '../../api/index.ts';
import { type Clock, rfc3339, systemClock } from '../../base/index.ts';
import { type DomainRef, DomainState, isLibvirtError } from '../../libvirt/index.ts';
import { LauncherError } from '../errors.ts';
import { existingDomain, type Hypervisor } from '../ports.ts';
import type { DomainLock } from './domain-lock.ts';
import type { MetadataCache } from './metadata.ts';
import { pausedOnPurpose } from './run-record.ts';

export interface PowerDeps {
  readonly hypervisor: Pick<
    Hypervisor,
    'lookup' | 'state' | 'suspend' | 'resume' | 'reset' | 'reboot' | 'shutdown' | 'destroy' | 'undefine'
  >;
  readonly lock: DomainLock;
  readonly metadata: MetadataCache;
  /** SIGKILL to QEMU, if it lives. */
  readonly killQemu: () => void;
  readonly clock?: Clock;
}

const forceAfterMs = 10_000;
const { RUNNING, PAUSED, SHUTDOWN } = DomainState;

/** Pause, shutdown, kill and the like (upstream's `manager.go`). Which of them take the modify lock is upstream's choice. */
export class PowerControl {
  readonly #domainName: string;
  readonly #deps: PowerDeps;
  readonly #clock: Clock;

  constructor(options: { readonly domainName: string }, deps: PowerDeps) {
    this.#domainName = options.domainName;
    this.#deps = deps;
    this.#clock = deps.clock ?? systemClock;
  }

  pause(): Promise<void> {
    const { hypervisor, lock, metadata } = this.#deps;
    return lock.run('PauseVMI', async () => {
      const domain = await this.#existing();
      if ((await hypervisor.state(domain)).state !== RUNNING) return;
      await hypervisor.suspend(domain);
      metadata.record(pausedOnPurpose(true));
    });
  }

  /** True when the domain was really paused. */
  unpause(): Promise<boolean> {
    const { hypervisor, lock, metadata } = this.#deps;
    return lock.run('UnpauseVMI', async () => {
      const domain = await this.#existing();
      if ((await hypervisor.state(domain)).state !== PAUSED) return false;
      await hypervisor.resume(domain);
      metadata.record(pausedOnPurpose(false));
      return true;
    });
  }

  async reset(): Promise<void> {
    await this.#deps.hypervisor.reset(await this.#existing());
  }

  /** By the guest agent if it is connected, else by the power button. An agent that does not answer is no error. */
  async softReboot(vmi: VirtualMachineInstance): Promise<void> {
    const domain = await this.#existing();
    const agent = findCondition(vmi.status?.conditions, 'AgentConnected');
    try {
      if (agent?.status === 'True') {
        await this.#deps.hypervisor.reboot(domain, 'guest-agent');
        return;
      }
      if (vmi.spec.domain.features?.acpi?.enabled === false) {
        throw new LauncherError(
          'NOT_SUPPORTED',
          'soft reboot needs a connected guest agent or ACPI; this VMI has neither',
        );
      }
      await this.#deps.hypervisor.reboot(domain, 'acpi');
    } catch (error) {
      if (!isLibvirtError(error, 'AGENT_UNRESPONSIVE')) throw error;
    }
  }

  /** Asks the guest; the first time is recorded for the agent's own grace clock. */
  shutdown(): Promise<void> {
    const { hypervisor, lock, metadata } = this.#deps;
    return lock.run('SignalShutdownVMI', async () => {
      const domain = await hypervisor.lookup(this.#domainName);
      if (!domain) return;
      const { state } = await hypervisor.state(domain);
      if (state !== RUNNING && state !== PAUSED) return;
      await hypervisor.shutdown(domain);
      if (metadata.metadata.GracePeriod?.DeletionTimestamp) return;
      metadata.updateGracePeriod({ DeletionTimestamp: rfc3339(this.#clock.now()) });
    });
  }

  /** Ends QEMU now. Without the lock: it must get through when something hangs. */
  async kill(): Promise<void> {
    const { hypervisor } = this.#deps;
    const domain = await hypervisor.lookup(this.#domainName);
    if (!domain) return;
    const { state } = await hypervisor.state(domain);
    if (state !== RUNNING && state !== PAUSED && state !== SHUTDOWN) return;
    try {
      await this.#destroy(domain);
    } catch (error) {
      // It ended by itself between the question and the order.
      if (!isLibvirtError(error, 'OPERATION_INVALID', 'NO_DOMAIN')) throw error;
    }
  }

  /**
   * A QEMU that does not react to SIGTERM is killed, where upstream gives up. By its pid, because libvirt holds the domain's
   * lock while it waits, and soon enough for the agent, which waits 20 s for the answer.
   */
  async #destroy(domain: DomainRef): Promise<void> {
    const { hypervisor, killQemu } = this.#deps;
    const cancel = this.#clock.schedule(forceAfterMs, killQemu);
    try {
      await hypervisor.destroy(domain, { graceful: true });
    } catch (error) {
      if (!isLibvirtError(error, 'OPERATION_FAILED', 'SYSTEM_ERROR', 'INTERNAL_ERROR')) throw error;
      await hypervisor.destroy(domain, { graceful: false });
    } finally {
      cancel();
    }
  }

  async delete(): Promise<void> {
    const { hypervisor } = this.#deps;
    const domain = await hypervisor.lookup(this.#domainName);
    if (!domain) return;
    try {
      await hypervisor.undefine(domain);
    } catch (error) {
      if (!isLibvirtError(error, 'NO_DOMAIN')) throw error;
    }
  }

  #existing(): Promise<DomainRef> {
    return existingDomain(this.#deps.hypervisor, this.#domainName);
  }
}
