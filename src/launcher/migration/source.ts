import type { MigrationMetadata, VirtualMachineInstance } from '../../api/index.ts';
import { type Clock, errorMessage, type Logger, memberAt, sleep, systemClock } from '../../base/index.ts';
import type { DomainRef } from '../../libvirt/index.ts';
import { movedDomainXml, readLiveDomain } from '../domain/index.ts';
import { LauncherError } from '../errors.ts';
import type { DomainLock, MetadataCache } from '../lifecycle/index.ts';
import {
  type DomainStateNumbers,
  existingDomain,
  type Hypervisor,
  type HypervisorEvent,
  type LauncherEvent,
} from '../ports.ts';
import { type AttemptOptions, MigrationAttempt, type MigrationCalls } from './attempt.ts';
import { destinationOf, ownerOf } from './destination.ts';
import { type MigrationFacts, type MigrationPlan, migratedVolumes, noPlan, planMigration, planResume } from './plan.ts';
import {
  begunMigration,
  decideOrder,
  endedMigration,
  isDaemonLost,
  isOpen,
  isPausedByUser,
  isUp,
  type MigrationOutcome,
  migrationUidOf,
  resumedMigration,
  wordsOf,
} from './record.ts';
import { acceptableMs, forgottenSettings, type MigrationSettings, memoryBytes, migrationSettings } from './settings.ts';

export interface SourceOptions {
  readonly domainName: string;
  readonly proxyDir: string;
  /** libvirt here is a session daemon. */
  readonly isSession: boolean;
}

export interface SourceDeps {
  readonly hypervisor: MigrationCalls & Pick<Hypervisor, 'xml' | 'migratableXml' | 'version' | 'blockInfo'>;
  readonly lock: DomainLock;
  readonly metadata: MetadataCache;
  readonly notifier: { sendEvent(event: LauncherEvent): void };
  readonly log: Logger;
  readonly clock?: Clock;
}

interface Run {
  readonly uid: string;
  readonly attempt: MigrationAttempt;
  readonly over: Promise<void>;
}

const endWaitMs = 15_000;
const cancelled = 'Live migration has been aborted';
/** The guest leaves from here: orders, cancelling, and what the agent reads of it in the domain's metadata. */
export class MigrationSource {
  readonly #options: SourceOptions;
  readonly #deps: SourceDeps;
  readonly #clock: Clock;
  #run: Run | undefined;

  constructor(options: SourceOptions, deps: SourceDeps) {
    this.#options = options;
    this.#deps = deps;
    this.#clock = deps.clock ?? systemClock;
  }

  /** UID of the migration that is under way. */
  get underWay(): string | undefined {
    return this.#run?.uid;
  }

  /** Takes the order; the migration goes on by itself, and reports in the metadata. The same order again changes nothing. */
  async migrate(vmi: VirtualMachineInstance, options: Uint8Array): Promise<void> {
    const uid = migrationUidOf(vmi);
    const settings = migrationSettings(options);
    // Only what changes the domain would wait for the whole migration.
    await this.#deps.lock.run('MigrateVMI', async () => {
      await this.#order(vmi, uid, settings).catch((error: unknown) => this.#lostAtOnce(uid, error));
    });
  }

  /** Always a success; without effect when nothing is under way, as upstream's. */
  cancel(vmi: VirtualMachineInstance): void {
    const run = this.#run;
    const asked = memberAt(vmi, 'status', 'migrationState', 'migrationUid');
    if (!run || (typeof asked === 'string' && asked !== '' && asked !== run.uid)) {
      this.#deps.log.info({ migration: asked }, 'nothing to cancel: no such migration is under way');
      return;
    }
    this.#abort(run, cancelled);
  }

  /** Ends a migration for something that cannot wait for it. Throws MIGRATING when it cannot be ended any more. */
  async giveWay(what: string): Promise<void> {
    const run = this.#run;
    if (!run) return;
    if (!run.attempt.canAbort) {
      throw new LauncherError(
        'MIGRATING',
        `${what} waits: the guest runs on the target already, and its memory follows`,
      );
    }
    this.#abort(run, `${cancelled}: ${what}`);
    await this.#overInTime(run, what);
  }

  /** A guest that has left is shown as shut off some milliseconds before libvirt's call has its answer. */
  async awaitEnd(what: string): Promise<void> {
    const run = this.#run;
    const domain = run && (await this.#deps.hypervisor.lookup(this.#options.domainName));
    if (run && domain && !isUp(await this.#deps.hypervisor.state(domain))) await this.#overInTime(run, what);
  }

  handle(event: HypervisorEvent): void {
    if (event.kind === 'connected' || event.domain.name === this.#options.domainName) this.#run?.attempt.handle(event);
  }

  /** Of a launcher that was started anew: a migration that it still has open is followed, or has failed. */
  async takeUp(): Promise<void> {
    const { metadata, hypervisor } = this.#deps;
    const open = metadata.metadata.Migration;
    // A guest that has run here leaves; one that has not is still to arrive.
    if (this.#run || !isOpen(open) || metadata.state.run.kind !== 'has-run') return;
    const domain = await hypervisor.lookup(this.#options.domainName);
    if (this.#run || !domain) return;
    const begun = { domain, plan: noPlan, settings: forgottenSettings, acceptableMs: undefined, mode: open.Mode };
    this.#begin(open.UID, this.#attempt(begun), (attempt) => attempt.follow());
  }

  async #order(vmi: VirtualMachineInstance, uid: string, settings: MigrationSettings): Promise<void> {
    const { hypervisor, metadata } = this.#deps;
    const recorded = metadata.metadata.Migration;
    const domain = await existingDomain(hypervisor, this.#options.domainName);
    const state = await hypervisor.state(domain);
    const decision = decideOrder(uid, { recorded, runningUid: this.#run?.uid, state });
    if (decision === 'is-under-way') return;
    const facts = await this.#facts(vmi, domain, state);
    const plan =
      decision === 'resume' ? planResume(facts) : await this.#renamed(facts, domain, planMigration(facts, settings));
    const limitMs = acceptableMs(await this.#bytesToMove(vmi, domain, plan), settings);
    const attempt = { domain, plan, settings, acceptableMs: limitMs };
    this.#tell(plan);
    const now = this.#clock.now();
    const Migration = decision === 'resume' ? resumedMigration(recorded, uid, now) : begunMigration(uid, now);
    metadata.updateMetadata({ Migration });
    this.#begin(uid, this.#attempt(attempt), (begun) => begun.run());
  }

  /** The daemon went before the guest could leave: the order is taken, and has failed by a loss. A refusal would not be tried again. */
  #lostAtOnce(uid: string, error: unknown): void {
    const { metadata, log } = this.#deps;
    const recorded = metadata.metadata.Migration;
    // One that is under way, or waits to be resumed, may still end well.
    if (!isDaemonLost(error) || this.#run || recorded?.UID === uid || isOpen(recorded)) throw error;
    const [reason, now] = [wordsOf(error), this.#clock.now()];
    log.warn({ migration: uid, reason }, 'migration has failed before it could begin');
    metadata.updateMetadata({ Migration: endedMigration(begunMigration(uid, now), { kind: 'failed', reason }, now) });
  }

  async #facts(vmi: VirtualMachineInstance, domain: DomainRef, state: DomainStateNumbers): Promise<MigrationFacts> {
    const { hypervisor } = this.#deps;
    const { disks, hostDevices } = readLiveDomain(await hypervisor.xml(domain));
    return {
      vmi,
      disks,
      hostDevices,
      qemuMajor: Number.parseInt((await hypervisor.version()).slice('QEMU '.length), 10) || 0,
      isPausedByUser: isPausedByUser(state),
      proxyDir: this.#options.proxyDir,
      isSession: this.#options.isSession,
      destination: destinationOf(vmi),
    };
  }

  /** For another VMI object the domain has its files and sockets where that one has them. */
  async #renamed(
    { vmi, disks, destination }: MigrationFacts,
    domain: DomainRef,
    plan: MigrationPlan,
  ): Promise<MigrationPlan> {
    if (!destination) return plan;
    const { hypervisor } = this.#deps;
    const moving = new Set(migratedVolumes(vmi));
    const sizes = new Map<string, bigint>();
    for (const { name, target } of disks) {
      if (!moving.has(name) || !plan.target.disks?.includes(target)) continue;
      sizes.set(target, (await hypervisor.blockInfo(domain, target)).capacityBytes);
    }
    const xml = movedDomainXml(await hypervisor.migratableXml(domain), ownerOf(vmi), destination, sizes);
    return { ...plan, target: { ...plan.target, destinationXml: xml, persistentXml: xml } };
  }

  async #bytesToMove(vmi: VirtualMachineInstance, domain: DomainRef, { target }: MigrationPlan): Promise<number> {
    let bytes = memoryBytes(vmi);
    for (const disk of target.disks ?? []) {
      bytes += Number((await this.#deps.hypervisor.blockInfo(domain, disk)).capacityBytes);
    }
    return bytes;
  }

  #tell({ warnings, notes }: MigrationPlan): void {
    for (const message of warnings) this.#warn(message);
    for (const note of notes) this.#deps.log.info({ note }, 'migration is carried out otherwise than asked for');
  }

  #warn(message: string): void {
    this.#deps.notifier.sendEvent({ reason: 'MigrationAdjusted', type: 'Warning', message });
  }

  #attempt(options: AttemptOptions): MigrationAttempt {
    return new MigrationAttempt(options, {
      ...this.#deps,
      isPausedOnPurpose: () => this.#deps.metadata.state.run.paused,
      onMode: (Mode) => this.#update({ Mode }),
      onAbortStatus: (AbortStatus) => this.#update({ AbortStatus }),
      warn: (message) => this.#warn(message),
    });
  }

  #begin(
    uid: string,
    attempt: MigrationAttempt,
    carryOut: (attempt: MigrationAttempt) => Promise<MigrationOutcome>,
  ): void {
    this.#deps.log.info({ migration: uid }, 'migration begins');
    const over = carryOut(attempt).then((outcome) => this.#end(outcome));
    this.#run = { uid, attempt, over };
  }

  #end(outcome: MigrationOutcome): void {
    const { metadata, log } = this.#deps;
    log.info({ migration: this.#run?.uid, ...outcome }, 'migration is over');
    this.#run = undefined;
    const before = metadata.metadata.Migration;
    if (isOpen(before)) metadata.updateMetadata({ Migration: endedMigration(before, outcome, this.#clock.now()) });
  }

  /** The agent itself waits 20 s for an answer. */
  async #overInTime({ over, uid }: Run, what: string): Promise<void> {
    const ended = new AbortController();
    void over.then(() => ended.abort());
    await sleep(endWaitMs, ended.signal, this.#clock).catch(() => undefined);
    if (ended.signal.aborted) return;
    throw new LauncherError('MIGRATING', `${what}: the migration ${uid} is not over yet: try again in a moment`);
  }

  #update(change: Partial<MigrationMetadata>): void {
    const { metadata } = this.#deps;
    const before = metadata.metadata.Migration;
    if (before) metadata.updateMetadata({ Migration: { ...before, ...change } });
  }

  #abort({ attempt, uid }: Run, reason: string): void {
    if (!attempt.canAbort) {
      this.#deps.log.warn({ migration: uid }, 'not cancelled: the guest runs on the target already');
      this.#update({ AbortStatus: 'Failed' });
      return;
    }
    attempt.abort(reason).catch((error: unknown) => {
      this.#deps.log.warn({ err: errorMessage(error) }, 'migration cannot be cancelled');
    });
  }
}
