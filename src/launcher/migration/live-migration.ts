import type { VirtualMachineInstance } from '../../api/index.ts';
import { type Clock, errorMessage, sleep } from '../../base/index.ts';
import { type ConverterOptions, relinkedInterfaces } from '../domain/index.ts';
import { LauncherError } from '../errors.ts';
import { existingDomain, type Hypervisor, type HypervisorEvent } from '../ports.ts';
import { MigrationSource, type SourceDeps, type SourceOptions } from './source.ts';
import { MigrationTarget, type TargetDeps, type TargetOptions } from './target.ts';

export interface LiveMigrationDeps extends SourceDeps, TargetDeps {
  readonly hypervisor: SourceDeps['hypervisor'] & Pick<Hypervisor, 'updateDevice'>;
  /** Sets the guest's clock, which stood still for a moment. */
  readonly syncTime: () => void;
  readonly clock: Clock;
}

/** How long a link is down so that the guest asks for its addresses again. */
const linkDownMs = 100;
/** These are the migration's own; they say themselves what they refuse. */
const ownCalls: readonly string[] = ['MigrateVMI', 'SyncMigrationTarget'];

/** Both sides of a live migration, as the command server and the domain's other parts meet them. */
export class LiveMigration {
  readonly #options: SourceOptions;
  readonly #deps: LiveMigrationDeps;
  readonly #source: MigrationSource;
  readonly #target: MigrationTarget;

  constructor(options: SourceOptions & TargetOptions, deps: LiveMigrationDeps) {
    this.#options = options;
    this.#deps = deps;
    this.#source = new MigrationSource(options, deps);
    this.#target = new MigrationTarget(options, deps);
  }

  migrate(vmi: VirtualMachineInstance, options: Uint8Array): Promise<void> {
    return this.#source.migrate(vmi, options);
  }

  cancel(vmi: VirtualMachineInstance): void {
    this.#source.cancel(vmi);
  }

  prepareTarget(vmi: VirtualMachineInstance, options: ConverterOptions): Promise<void> {
    return this.#target.prepare(vmi, options);
  }

  /** On the target, when the guest runs there. `interfaces`: name → method, of network bindings that have one. */
  async finalize(interfaces: Readonly<Record<string, string>>): Promise<void> {
    const { hypervisor, clock } = this.#deps;
    const names = Object.keys(interfaces).filter((name) => interfaces[name] === 'link-refresh');
    const domain = await existingDomain(hypervisor, this.#options.domainName);
    if (names.length > 0) {
      const links = relinkedInterfaces(await hypervisor.xml(domain), names);
      for (const { down } of links) await hypervisor.updateDevice(domain, down, { persistent: true });
      await sleep(linkDownMs, undefined, clock);
      for (const { up } of links) await hypervisor.updateDevice(domain, up, { persistent: true });
    }
    this.#deps.syncTime();
  }

  /** Something that cannot wait for a migration ends it first. Throws MIGRATING when that is not possible any more. */
  async giveWay(what: string): Promise<void> {
    if (this.#target.underWay !== undefined) this.refuse(what);
    await this.#source.giveWay(what);
  }

  /** For what is done about a guest that has left. */
  async awaitEnd(what: string): Promise<void> {
    await this.#source.awaitEnd(what);
  }

  /**
   * Throws MIGRATING while the guest moves: libvirt would let a change wait for the whole migration, and the change would be lost
   * with the domain that leaves.
   */
  refuse(what: string): void {
    if (ownCalls.includes(what)) return;
    const uid = this.#source.underWay ?? this.#target.underWay;
    if (uid === undefined) return;
    throw new LauncherError(
      'MIGRATING',
      `${what}: not while the guest is being migrated (migration ${uid}): try again when that has ended, or cancel it`,
    );
  }

  handle(event: HypervisorEvent): void {
    this.#source.handle(event);
    this.#target.handle(event);
  }

  start(): void {
    for (const side of [this.#source, this.#target]) {
      side.takeUp().catch((error: unknown) => {
        this.#deps.log.warn({ err: errorMessage(error) }, 'a migration of before is not taken up');
      });
    }
  }

  stop(): void {
    this.#target.stop();
  }
}
