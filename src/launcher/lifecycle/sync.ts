import { isFinal, type VirtualMachineInstance } from '../../api/index.ts';
import { errorMessage, type Logger } from '../../base/index.ts';
import { type DomainRef, DomainState } from '../../libvirt/index.ts';
import type { ConverterOptions } from '../domain/index.ts';
import type { Hypervisor } from '../ports.ts';
import type { DomainLock } from './domain-lock.ts';
import type { MetadataCache } from './metadata.ts';
import { hasRun, pausedOnPurpose } from './run-record.ts';
import { inOurWords, isAboutMachines } from './start-failure.ts';

export interface SyncDeps {
  readonly hypervisor: Pick<
    Hypervisor,
    'lookup' | 'define' | 'undefine' | 'start' | 'state' | 'resume' | 'machineTypes'
  >;
  readonly lock: DomainLock;
  readonly metadata: MetadataCache;
  /** Prepares everything the domain needs on disk and gives its XML. */
  readonly prepare: (vmi: VirtualMachineInstance, options: ConverterOptions) => Promise<string>;
  /** Makes the disks of a domain that runs those of its VMI. */
  readonly syncDisks: (domain: DomainRef, vmi: VirtualMachineInstance, options: ConverterOptions) => Promise<void>;
  /** Makes the network devices of a domain that runs those of its VMI. */
  readonly syncNetwork: (domain: DomainRef, vmi: VirtualMachineInstance, options: ConverterOptions) => Promise<void>;
  /** The guest has just been started. */
  readonly onStarted?: (vmi: VirtualMachineInstance) => void;
  readonly log: Logger;
}

const { NOSTATE, PAUSED, SHUTDOWN, SHUTOFF, CRASHED } = DomainState;
const downStates: readonly number[] = [NOSTATE, SHUTDOWN, SHUTOFF, CRASHED];

/** SyncVirtualMachine (upstream's `manager.go`): makes the domain be there and run. Repeating it changes nothing. */
export class VmiSync {
  readonly #domainName: string;
  readonly #deps: SyncDeps;

  constructor(options: { readonly domainName: string }, deps: SyncDeps) {
    this.#domainName = options.domainName;
    this.#deps = deps;
  }

  sync(vmi: VirtualMachineInstance, options: ConverterOptions): Promise<void> {
    return this.#deps.lock.run('SyncVMI', () => this.#sync(vmi, options));
  }

  async #sync(vmi: VirtualMachineInstance, options: ConverterOptions): Promise<void> {
    const { hypervisor } = this.#deps;
    const existing = await hypervisor.lookup(this.#domainName);
    if (!existing && !this.#mayStart(vmi)) return;
    const domain = existing ?? (await this.#define(vmi, options));
    this.#deps.metadata.recordVmi(vmi);
    const { state } = await hypervisor.state(domain);
    const isUp = !downStates.includes(state);
    if (isUp) this.#deps.metadata.record(hasRun);
    else await this.#startOnce(vmi, domain);
    await this.#resumeUnlessPausedOnPurpose(domain);
    if (!isUp) return;
    // A domain that was just started has its devices from its definition.
    await this.#syncDevices(domain, vmi, options);
  }

  /** A disk that a guest does not release, maybe for ever, keeps its network from nothing. */
  async #syncDevices(...args: Parameters<SyncDeps['syncDisks']>): Promise<void> {
    const { syncDisks, syncNetwork, log } = this.#deps;
    const [disks, network] = [await settled(syncDisks(...args)), await settled(syncNetwork(...args))];
    if (disks.status === 'rejected') {
      if (network.status === 'rejected') log.warn({ err: errorMessage(network.reason) }, 'network devices not synced');
      throw disks.reason;
    }
    if (network.status === 'rejected') throw network.reason;
  }

  async #define(vmi: VirtualMachineInstance, options: ConverterOptions): Promise<DomainRef> {
    const xml = await this.#deps.prepare(vmi, options);
    const domain = await this.#deps.hypervisor.define(xml).catch((error: unknown) => this.#failed(error, vmi));
    this.#deps.log.info({ uuid: domain.uuid }, 'domain defined');
    return domain;
  }

  /**
   * A domain that has ended is not started again. The phase of the request alone does not show that: a domain may end
   * before the agent has seen it run.
   */
  #mayStart(vmi: VirtualMachineInstance): boolean {
    return this.#deps.metadata.state.run.kind === 'not-run' && vmi.status?.phase !== 'Running' && !isFinal(vmi);
  }

  async #startOnce(vmi: VirtualMachineInstance, domain: DomainRef): Promise<void> {
    if (!this.#mayStart(vmi)) return;
    const { hypervisor, metadata, log } = this.#deps;
    const userPaused = vmi.spec.startStrategy === 'Paused';
    const { dedicatedCpuPlacement, isolateEmulatorThread } = vmi.spec.domain.cpu ?? {};
    const paused = userPaused || Boolean(dedicatedCpuPlacement && isolateEmulatorThread);
    metadata.record(pausedOnPurpose(userPaused));
    try {
      await hypervisor.start(domain, { paused });
    } catch (error) {
      await this.#forget(domain);
      return this.#failed(error, vmi);
    }
    metadata.record(hasRun);
    log.info({ paused }, 'domain started');
    this.#deps.onStarted?.(vmi);
  }

  /** libvirt's own words are for the log: they name no field, and no cure. */
  async #failed(error: unknown, vmi: VirtualMachineInstance): Promise<never> {
    const machineTypes = isAboutMachines(error) ? await this.#machineTypes() : [];
    const told = inOurWords(error, vmi, { machineTypes });
    if (told !== error) this.#deps.log.warn({ err: errorMessage(error) }, 'guest cannot be started');
    throw told;
  }

  /** The words are of use without them. */
  async #machineTypes(): Promise<readonly string[]> {
    return this.#deps.hypervisor.machineTypes().catch((error: unknown) => {
      this.#deps.log.warn({ err: errorMessage(error) }, 'machine types are not known');
      return [];
    });
  }

  /**
   * A domain that could not start goes away, so that the next sync begins with a fresh definition. Only if it is surely
   * down: after a lost answer it may be running, and undefining would make it transient.
   */
  async #forget(domain: DomainRef): Promise<void> {
    const { hypervisor, log } = this.#deps;
    try {
      const { state } = await hypervisor.state(domain);
      if (downStates.includes(state)) await hypervisor.undefine(domain);
    } catch (error) {
      log.warn({ err: errorMessage(error) }, 'domain that did not start cannot be undefined');
    }
  }

  async #resumeUnlessPausedOnPurpose(domain: DomainRef): Promise<void> {
    const { hypervisor, metadata, log } = this.#deps;
    // While its memory is written the guest stands still, and goes on by itself.
    if (metadata.state.run.paused || metadata.isDumping) return;
    const { state } = await hypervisor.state(domain);
    if (state !== PAUSED) return;
    await hypervisor.resume(domain);
    log.info('domain resumed by a sync');
  }
}

async function settled(work: Promise<void>): Promise<PromiseSettledResult<void>> {
  const [result] = await Promise.allSettled([work]);
  return result;
}
