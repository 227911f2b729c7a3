import { chmod, chown, mkdir, stat, truncate } from 'node:fs/promises';
import { findCondition, isDecentralised, type VirtualMachineInstance } from '../../api/index.ts';
import { type Clock, errorMessage, type Logger, listOf, memberAt, sleep, systemClock } from '../../base/index.ts';
import { type DomainRef, isLibvirtError, LifecycleDetail, LifecycleEvent } from '../../libvirt/index.ts';
import { type ConverterOptions, isHotplugged, readLiveDomain } from '../domain/index.ts';
import { LauncherError } from '../errors.ts';
import { type DomainLock, hasRun, type MetadataCache, pausedOnPurpose } from '../lifecycle/index.ts';
import type { Hypervisor, HypervisorEvent } from '../ports.ts';
import { isIncomingJob } from './job.ts';
import {
  alreadyOver,
  anotherUnderWay,
  begunMigration,
  endedMigration,
  isOpen,
  isUp,
  migrationUidOf,
} from './record.ts';

export interface TargetOptions {
  readonly domainName: string;
  readonly proxyDir: string;
  /** QEMU's user, which binds its sockets there; absent: this process's own. */
  readonly owner: { readonly uid: number; readonly gid: number } | undefined;
}

export interface TargetDeps {
  readonly hypervisor: Pick<Hypervisor, 'lookup' | 'state' | 'jobStats'>;
  readonly lock: DomainLock;
  readonly metadata: MetadataCache;
  /** Makes disks, images, directories and network of the guest; gives the domain it would be here. */
  readonly prepare: (vmi: VirtualMachineInstance, options: ConverterOptions) => Promise<string>;
  /** Of plugged volumes, those that are here and can be used. */
  readonly findMedia: (vmi: VirtualMachineInstance, names: readonly string[]) => Promise<ReadonlyMap<string, unknown>>;
  readonly log: Logger;
  readonly clock?: Clock;
}

type Lifecycle = Extract<HypervisorEvent, { kind: 'lifecycle' }>;

const lookMs = 100;
/** Upstream gives up looking sooner, and counts it as arrived; what runs here is never lost by that. */
const arrivalLimitMs = 60_000;
const { MIGRATED: RESUMED_MIGRATED, POSTCOPY, POSTCOPY_FAILED } = LifecycleDetail.RESUMED;
const brokenPostCopy = 'post-copy broke: the guest waits for memory that is still on the source';

/** The guest comes to here: what it needs is made, and its arrival is noticed. */
export class MigrationTarget {
  readonly #options: TargetOptions;
  readonly #deps: TargetDeps;
  readonly #clock: Clock;
  readonly #stopping = new AbortController();
  /** QEMU waits here for a guest that is on its way. */
  #isIncoming = false;
  #watching = false;

  constructor(options: TargetOptions, deps: TargetDeps) {
    this.#options = options;
    this.#deps = deps;
    this.#clock = deps.clock ?? systemClock;
  }

  /** UID of the migration whose guest is on its way to here. */
  get underWay(): string | undefined {
    const { Migration } = this.#deps.metadata.metadata;
    return this.#isIncoming && isOpen(Migration) ? Migration.UID : undefined;
  }

  /** Makes ready for the guest without defining a domain: libvirt gets that from the source. Safe to repeat. */
  async prepare(vmi: VirtualMachineInstance, options: ConverterOptions): Promise<void> {
    const uid = migrationUidOf(vmi);
    await this.#deps.lock.run('SyncMigrationTarget', () => this.#prepare(vmi, uid, options));
  }

  handle(event: HypervisorEvent): void {
    if (event.kind === 'connected') this.#run(() => this.takeUp());
    if (event.kind !== 'lifecycle' || event.domain.name !== this.#options.domainName) return;
    if (this.#isForUs()) this.#follow(event);
  }

  /** Of a launcher that was started anew, or whose daemon was: a guest that came meanwhile is here. */
  async takeUp(): Promise<void> {
    if (!this.#isForUs()) return;
    const domain = await this.#deps.hypervisor.lookup(this.#options.domainName);
    if (!domain) {
      this.#isIncoming = false;
      return;
    }
    this.#isIncoming = await this.#isOnItsWay(domain);
    if (!this.#isIncoming && isUp(await this.#deps.hypervisor.state(domain))) this.#arrived();
  }

  stop(): void {
    this.#stopping.abort();
  }

  async #prepare(vmi: VirtualMachineInstance, uid: string, options: ConverterOptions): Promise<void> {
    const { metadata } = this.#deps;
    const { Migration: before } = metadata.metadata;
    if (before?.UID === uid && before.EndTimestamp) throw alreadyOver(before);
    if (this.underWay !== undefined && this.underWay !== uid) throw anotherUnderWay(this.underWay);
    await this.#refuseWhenHere();
    if (isDecentralised(vmi.status?.migrationState)) await this.#refuseWithoutPlugged(vmi);
    const xml = await this.#deps.prepare(vmi, options);
    await fitImages(vmi, xml);
    await this.#makeProxyDir();
    metadata.record(pausedOnPurpose(isUserPaused(vmi)));
    metadata.recordVmi(vmi);
    const isRepeated = before?.UID === uid && isOpen(before);
    const Migration = isRepeated ? before : begunMigration(uid, this.#clock.now());
    metadata.updateMetadata({ Migration });
  }

  async #refuseWhenHere(): Promise<void> {
    const { hypervisor } = this.#deps;
    const domain = await hypervisor.lookup(this.#options.domainName);
    if (!domain || this.#isIncoming || !isUp(await hypervisor.state(domain))) return;
    throw new LauncherError('MIGRATING', 'the guest runs here already: this pod cannot be the target of its migration');
  }

  /** They come by the pod of another controller, and the source does not know whether they are there. */
  async #refuseWithoutPlugged(vmi: VirtualMachineInstance): Promise<void> {
    const plugged = (vmi.spec.volumes ?? []).filter((volume) => isHotplugged(volume, undefined));
    const names = plugged.map(({ name }) => name);
    const found = await this.#deps.findMedia(vmi, names);
    const missing = names.filter((name) => !found.has(name));
    if (missing.length === 0) return;
    const text = `plugged volumes are not ready in this pod: ${missing.join(', ')}. Is the pod that brings them (hp-volume-…) running?`;
    throw new LauncherError('HOTPLUG_FAILED', text);
  }

  /** QEMU itself binds its sockets there. */
  async #makeProxyDir(): Promise<void> {
    const { proxyDir, owner } = this.#options;
    await mkdir(proxyDir, { recursive: true });
    await chmod(proxyDir, 0o755);
    if (owner) await chown(proxyDir, owner.uid, owner.gid);
  }

  /** A guest that has run here is never one that arrives. */
  #isForUs(): boolean {
    const { metadata } = this.#deps;
    return isOpen(metadata.metadata.Migration) && metadata.state.run.kind === 'not-run';
  }

  #follow({ event, detail, domain }: Lifecycle): void {
    switch (event) {
      case LifecycleEvent.STARTED:
        this.#isIncoming = detail === LifecycleDetail.STARTED.MIGRATED;
        return;
      case LifecycleEvent.RESUMED:
        if (detail === RESUMED_MIGRATED) this.#run(() => this.#awaitEnd(domain));
        else if (detail === POSTCOPY) this.#isInPostCopy('');
        // libvirt before 8.5 shows it as paused instead.
        else if (detail === POSTCOPY_FAILED) this.#isInPostCopy(brokenPostCopy);
        return;
      case LifecycleEvent.SUSPENDED:
        // So arrives a guest that its user had paused.
        if (detail === LifecycleDetail.SUSPENDED.PAUSED) this.#run(() => this.#awaitEnd(domain));
        return;
      case LifecycleEvent.STOPPED:
        this.#isIncoming = false;
        return;
    }
  }

  /** The source's last word may still be on its way when the guest runs. */
  async #awaitEnd(domain: DomainRef): Promise<void> {
    if (this.#watching) return;
    this.#watching = true;
    try {
      const untilMs = this.#clock.monotonicMs() + arrivalLimitMs;
      while (this.#clock.monotonicMs() < untilMs && (await this.#isOnItsWay(domain))) {
        await sleep(lookMs, this.#stopping.signal, this.#clock);
      }
      if (isUp(await this.#deps.hypervisor.state(domain))) this.#arrived();
    } finally {
      this.#watching = false;
    }
  }

  /** Older libvirt refuses the question on a target, with an error of its own. */
  async #isOnItsWay(domain: DomainRef): Promise<boolean> {
    try {
      return isIncomingJob(await this.#deps.hypervisor.jobStats(domain));
    } catch (error) {
      if (isLibvirtError(error, 'OPERATION_UNSUPPORTED')) return true;
      if (isLibvirtError(error, 'OPERATION_INVALID', 'NO_DOMAIN')) return false;
      throw error;
    }
  }

  #arrived(): void {
    const { metadata, log } = this.#deps;
    const before = metadata.metadata.Migration;
    this.#isIncoming = false;
    if (!this.#isForUs() || !isOpen(before)) return;
    log.info({ migration: before.UID }, 'guest has arrived');
    metadata.updateMetadata({ Migration: endedMigration(before, { kind: 'arrived' }, this.#clock.now()) });
    metadata.record(hasRun);
  }

  #isInPostCopy(FailureReason: string): void {
    const { metadata } = this.#deps;
    const { Migration } = metadata.metadata;
    if (Migration) metadata.updateMetadata({ Migration: { ...Migration, Mode: 'PostCopy', FailureReason } });
  }

  #run(work: () => Promise<void>): void {
    work().catch((error: unknown) => {
      if (this.#stopping.signal.aborted) return;
      this.#deps.log.warn({ err: errorMessage(error) }, 'arrival of the guest is not known');
    });
  }
}

/** Images that are made on each node anew are as large here as the source says, which copying and QEMU ask for. */
async function fitImages(vmi: VirtualMachineInstance, xml: string): Promise<void> {
  const sizes = new Map(
    listOf(vmi.status?.volumeStatus).map((each) => [memberAt(each, 'name'), memberAt(each, 'size')]),
  );
  for (const { name, source, isBlock, hasBacking } of readLiveDomain(xml).disks) {
    const sizeBytes = sizes.get(name);
    if (typeof sizeBytes !== 'number' || isBlock || hasBacking || !source.endsWith('.iso')) continue;
    if ((await stat(source)).size < sizeBytes) await truncate(source, sizeBytes);
  }
}

function isUserPaused(vmi: VirtualMachineInstance): boolean {
  return findCondition(vmi.status?.conditions, 'Paused')?.status === 'True';
}
