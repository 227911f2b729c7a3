import { keepsTpm, type VirtualMachineInstance } from '../../api/index.ts';
import { type Clock, systemClock } from '../../base/index.ts';
import { type DomainRef, DomainState, isLibvirtError } from '../../libvirt/index.ts';
import type { VmiIdentity } from '../domain/index.ts';
import { LauncherError } from '../errors.ts';
import { existingDomain, type Hypervisor, type LauncherEvent } from '../ports.ts';
import { runAgentCommand } from './command.ts';
import { type ExecRequest, type ExecResult, execInGuest } from './exec.ts';
import type { GuestFreezer } from './freeze.ts';
import { syncTpm } from './tpm-state.ts';

export interface GuestAccessDeps {
  readonly hypervisor: Pick<Hypervisor, 'lookup' | 'state' | 'agentCommand'>;
  readonly freezer: GuestFreezer;
  readonly notifier: { sendEvent(event: LauncherEvent): void };
  readonly clock?: Clock;
}

/**
 * Reasons of PAUSED in which a silent agent is no failure (`GuestPing` of upstream's `manager.go`): User to ShuttingDown and
 * more.
 */
const excusedPauses: readonly number[] = [1, 2, 3, 4, 7, 8, 9, 11, 12];

/** What callers may do to the guest by way of its agent. */
export class GuestAccess {
  readonly #identity: VmiIdentity;
  readonly #domainName: string;
  readonly #swtpmDir: string;
  readonly #deps: GuestAccessDeps;
  #probesPaused = false;

  constructor(
    options: { readonly identity: VmiIdentity; readonly domainName: string; readonly swtpmDir: string },
    deps: GuestAccessDeps,
  ) {
    this.#identity = options.identity;
    this.#domainName = options.domainName;
    this.#swtpmDir = options.swtpmDir;
    this.#deps = deps;
  }

  /** Annotation `kubevirt.io/pause-guest-agent-probes` of the last synced VMI. */
  noteVmi(vmi: VirtualMachineInstance): void {
    this.#probesPaused = vmi.metadata.annotations?.['kubevirt.io/pause-guest-agent-probes'] === 'true';
  }

  async freeze(vmi: VirtualMachineInstance, unfreezeAfterSeconds: number): Promise<void> {
    const migration = vmi.status?.migrationState;
    if (migration && !migration.completed && !migration.failed) {
      throw new LauncherError('BUSY', 'the guest cannot be frozen while it is migrated');
    }
    const domain = await this.#existing();
    // No freezing of file systems reaches it.
    if (keepsTpm(vmi.spec.domain)) await syncTpm(this.#swtpmDir);
    await this.#deps.freezer.freeze(domain, unfreezeAfterSeconds);
  }

  async unfreeze(): Promise<void> {
    await this.#deps.freezer.unfreeze(await this.#existing());
  }

  async exec(request: ExecRequest & { readonly domainName: string }): Promise<ExecResult> {
    this.#checkName(request.domainName);
    return execInGuest(this.#deps.hypervisor, await this.#existing(), request, this.#deps.clock ?? systemClock);
  }

  /** A failure is also reported as an event, unless the guest has a good reason to be silent. */
  async ping(domainName: string, timeoutSeconds: number): Promise<void> {
    this.#checkName(domainName);
    if (this.#probesPaused) return;
    try {
      const domain = await this.#existing();
      await runAgentCommand(this.#deps.hypervisor, domain, { execute: 'guest-ping' }, Math.max(1, timeoutSeconds));
    } catch (error) {
      if (await this.#isExcused(error)) return;
      const message = `GuestAgentPing probe failed for VMI ${this.#identity.name}`;
      this.#deps.notifier.sendEvent({ reason: 'GuestAgentPingFailed', type: 'Warning', message });
      throw error;
    }
  }

  async answer(command: string): Promise<string> {
    const result = await runAgentCommand(this.#deps.hypervisor, await this.#existing(), { execute: command });
    return JSON.stringify(result);
  }

  async #isExcused(error: unknown): Promise<boolean> {
    if (error instanceof LauncherError && error.code === 'DOMAIN_NOT_FOUND') return true;
    if (!isLibvirtError(error, 'AGENT_UNRESPONSIVE', 'NO_DOMAIN')) return false;
    const domain = await this.#deps.hypervisor.lookup(this.#domainName);
    if (!domain) return true;
    const { state, reason } = await this.#deps.hypervisor.state(domain);
    if (state === DomainState.PAUSED) return excusedPauses.includes(reason);
    return state === DomainState.NOSTATE || state === DomainState.SHUTDOWN || state >= DomainState.SHUTOFF;
  }

  #checkName(domainName: string): void {
    if (domainName === this.#domainName) return;
    throw new LauncherError('WRONG_VMI', `this launcher has the domain ${this.#domainName}, not ${domainName}`);
  }

  #existing(): Promise<DomainRef> {
    return existingDomain(this.#deps.hypervisor, this.#domainName);
  }
}
