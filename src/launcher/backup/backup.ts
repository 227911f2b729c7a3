import { rm, rmdir } from 'node:fs/promises';
import path from 'node:path';
import { backupRefusals } from '../../api/index.ts';
import {
  type Clock,
  errorCode,
  errorMessage,
  type Logger,
  listOf,
  memberAt,
  rfc3339,
  sleep,
} from '../../base/index.ts';
import {
  type DomainRef,
  DomainState,
  isLibvirtError,
  JobOperation,
  JobType,
  LibvirtError,
  LifecycleDetail,
  LifecycleEvent,
  PausedReason,
} from '../../libvirt/index.ts';
import { type LiveDisk, readLiveDomain } from '../domain/index.ts';
import { LauncherError } from '../errors.ts';
import { existingDomain, type Hypervisor, type HypervisorEvent } from '../ports.ts';
import {
  type BackupDisk,
  type BackupPlan,
  backupDisks,
  backupFile,
  backupXml,
  checkpointXml,
  redefinitionXml,
} from './backup-xml.ts';
import { hasOpenBelow, usableBitmaps } from './bitmaps.ts';
import { checkpointFailure, failureReason, forceFull, startFailure, tooSmall } from './failures.ts';
import { isFull, makeDirectories, missingFile } from './files.ts';
import {
  type BackupMode,
  type BackupOrder,
  backupDirectories,
  type Checkpoint,
  decodeCheckpoint,
  decodeOrder,
  type ExportTarget,
  isSameBackup,
  type NamedBackup,
  nameWithTime,
} from './orders.ts';

export interface VmBackupOptions {
  readonly domainName: string;
  readonly vmiName: string;
  /** Where the agent brings volumes. */
  readonly hotplugDir: string;
  /** Where QEMU answers who reads a backup in mode Pull. */
  readonly nbdSocket: string;
}

/** What the agent reads of the backup (upstream: api.BackupMetadata), and where it is. Times as RFC 3339. */
interface BackupMetadata {
  readonly Name: string;
  readonly Mode: BackupMode;
  readonly SkipQuiesce: boolean;
  readonly StartTimestamp: string | null;
  readonly EndTimestamp: string | null;
  readonly Completed: boolean;
  readonly Failed: boolean;
  readonly BackupMsg: string;
  readonly CheckpointName: string;
  /** JSON in a text. */
  readonly Volumes: string;
  readonly QuiesceStatus: string;
  /** Its directory, once it is made: before, what has its name is somebody's own. The agent does not read it. */
  readonly Directory: string;
  /** Of a pull to its exporter; the agent does not read it. */
  readonly Tunnel: 'none' | 'ordered' | 'connected';
}

export interface VmBackupDeps {
  readonly hypervisor: Pick<
    Hypervisor,
    | 'lookup'
    | 'state'
    | 'xml'
    | 'qmp'
    | 'beginBackup'
    | 'redefineCheckpoint'
    | 'checkpoints'
    | 'deleteCheckpoint'
    | 'jobStats'
    | 'abortJob'
    | 'resume'
  >;
  readonly freezer: {
    freeze(domain: DomainRef, unfreezeAfterSeconds: number): Promise<void>;
    unfreeze(domain: DomainRef): Promise<void>;
  };
  /** Where the agent finds how it went. */
  readonly metadata: {
    readonly metadata: { readonly Backup: Record<string, unknown> | null };
    updateMetadata(change: { readonly Backup: Record<string, unknown> | null }): void;
  };
  /** To the exporter of a pull. */
  readonly tunnel: {
    /** `connected` is called whenever the exporter has been reached. */
    open(target: ExportTarget, connected: () => void): void;
    close(): void;
  };
  readonly giveToQemu: (file: string) => Promise<void>;
  readonly log: Logger;
  readonly clock: Clock;
}

type Start = Extract<BackupOrder, { command: 'Start' }>;

const { RUNNING, PAUSED } = DomainState;
/** A guest whose thaw is lost thaws by itself. */
const freezeLimitSeconds = 60;
/** libvirt has it closed in the next moment, and makes who asks wait until then: half a minute is for a machine that stands still. */
const closingPauseMs = 100;
const closingLooks = 300;
/** libvirt lets a backup wait for other jobs for half a minute, and may itself wait for QEMU: who asks for the job waits with it. */
const beginPauseMs = 1000;
const beginRefusals = 40;
const beginLooks = 600;
const unclosed = 'QEMU has not closed the files: make another backup';
const heldByDisks =
  'the guest could not write, which a backup in mode Pull may be the reason of: look after the claims, and make another backup';
const stopped = 'the guest stopped before the backup was whole: make another one when it runs';
/** Why nobody could read a pull, by how far its launcher came to its exporter. */
const unread: Readonly<Record<BackupMetadata['Tunnel'], string>> = {
  none: 'nobody could read it, because its launcher was told of no exporter: see that the secret of its token is there and that exporter pods run, and make another backup',
  ordered:
    'nobody could read it, because its launcher never reached its exporter: see that exporter pods run and that launchers reach their Services, and make another backup',
  connected:
    'nobody could read it, because it was ended before its exporter was ready to serve it: look at the exporter pod, and make another backup',
};
const unknownFreeze = 'whether its file systems were frozen at the instant of the backup is not known';

/** Why a job of libvirt's is told to end. */
type Stop =
  | { readonly why: 'ordered'; readonly isUnread: boolean }
  | { readonly why: 'guest-stands-still'; readonly reason: string };

/**
 * Backs up the disks of a running guest as they are at one instant (upstream: `BackupVirtualMachine` of
 * pkg/virt-launcher/virtwrap/storage/backup.go). Push: QEMU copies them into files of a plugged volume. Pull: it serves them on a socket by
 * NBD until it is told to end; what the guest overwrites meanwhile is kept in files of that volume, which are deleted at the end. Answers come
 * by the metadata of the domain. What did not become whole is deleted, with its checkpoint.
 */
export class VmBackup {
  readonly #options: VmBackupOptions;
  readonly #deps: VmBackupDeps;
  #stop: Stop | undefined;
  #isEnding = false;
  /** Begins that are under way, or whose outcome is being found out: that libvirt has no job (yet) is no end then. */
  #beginnings = 0;
  #mayHaveMissedEnd = false;

  constructor(options: VmBackupOptions, deps: VmBackupDeps) {
    this.#options = options;
    this.#deps = deps;
  }

  get isUnderWay(): boolean {
    const { Backup } = this.#deps.metadata.metadata;
    return Boolean(Backup?.Name) && Backup?.EndTimestamp == null;
  }

  /** Throws MIGRATING's counterpart for whatever cannot happen beside a backup. */
  refuse(what: string): void {
    if (!this.isUnderWay) return;
    const name = String(this.#deps.metadata.metadata.Backup?.Name);
    throw new LauncherError('BUSY', `${what} is not possible until backup ${name} has ended`);
  }

  /** After a start of this process, and whenever events of libvirt may have been missed. */
  async resume(): Promise<void> {
    this.#mayHaveMissedEnd = this.#beginnings > 0;
    if (this.#mayHaveMissedEnd || !this.isUnderWay) return;
    if (!(await this.#hasJob())) {
      await this.#end(
        false,
        'the launcher was started again meanwhile and cannot tell how it ended: make another backup',
      );
      return;
    }
    const domain = await this.#running();
    if (domain && (await this.#isHeldByDisks(domain))) await this.#release(domain);
  }

  async #hasJob(): Promise<boolean> {
    const { hypervisor } = this.#deps;
    const domain = await hypervisor.lookup(this.#options.domainName);
    const job = domain && (await hypervisor.jobStats(domain));
    return job !== undefined && job.type !== JobType.NONE && job.params.get('operation') === JobOperation.BACKUP;
  }

  handle(event: HypervisorEvent): void {
    if (event.kind === 'connected') {
      this.#run(this.resume());
      return;
    }
    if (event.domain.name !== this.#options.domainName || !this.isUnderWay) return;
    if (event.kind === 'job-ended' && event.operation === JobOperation.BACKUP) {
      this.#run(this.#end(event.success, event.message));
    }
    if (event.kind !== 'lifecycle') return;
    if (event.event === LifecycleEvent.STOPPED) this.#run(this.#end(false, stopped));
    const isHeld = event.event === LifecycleEvent.SUSPENDED && event.detail === LifecycleDetail.SUSPENDED.IOERROR;
    if (isHeld) this.#run(this.#release(event.domain));
  }

  /**
   * Begins a backup and resolves when its point in time is taken, has it brought to an exporter, or asks the one that is under way to end. The
   * same order again changes nothing. Throws INVALID_REQUEST, DOMAIN_NOT_FOUND, BUSY, NOT_SUPPORTED, CHECKPOINT_INVALID.
   */
  async order(options: Uint8Array): Promise<void> {
    const order = decodeOrder(options);
    if (order.command === 'Abort') await this.#abort(order);
    else if (order.command === 'Export') this.#export(order);
    else await this.#begin(order);
  }

  /** Tells libvirt of a checkpoint again, after a restart of the guest. Throws CHECKPOINT_INVALID when it is of no use any more. */
  async redefine(json: Uint8Array): Promise<void> {
    const checkpoint = decodeCheckpoint(json);
    const domain = await existingDomain(this.#deps.hypervisor, this.#options.domainName);
    await this.#covered(domain, checkpoint, backupDisks(await this.#disks(domain)));
  }

  async #begin(order: Start): Promise<void> {
    const present = this.#deps.metadata.metadata.Backup;
    const directories = backupDirectories(order, this.#options.hotplugDir, this.#options.vmiName);
    if (present && isSameBackup(order, present)) {
      if (this.isUnderWay) return;
      throw new LauncherError('INVALID_REQUEST', `backup ${order.name} has ended already: make one with another name`);
    }
    this.refuse(`backup ${order.name}`);
    // From here on a second order finds this one.
    this.#stop = undefined;
    this.#tell(begun(order));
    await this.#asBeginning(async () => {
      try {
        await this.#copy(order, directories);
      } catch (error) {
        if (isUnanswered(error) && (await this.#mayHaveBegun(order, error))) return;
        await this.#clear();
        this.#deps.metadata.updateMetadata({ Backup: present });
        throw error instanceof LibvirtError ? startFailure(error, order.mode) : error;
      }
    });
  }

  /** What `resume` would have looked at meanwhile is looked at afterwards. */
  async #asBeginning(work: () => Promise<void>): Promise<void> {
    this.#beginnings++;
    try {
      await work();
    } finally {
      this.#beginnings--;
      if (this.#beginnings === 0 && this.#mayHaveMissedEnd) this.#run(this.resume());
    }
  }

  /**
   * libvirt goes on with an order whose answer came too late or not at all. True: it has begun. Throws BUSY while nobody can tell; then it is
   * found out, and told by the metadata.
   */
  async #mayHaveBegun({ name }: Start, cause: unknown): Promise<boolean> {
    if (this.#deps.metadata.metadata.Backup?.Directory === '') return false;
    const hasJob = await this.#hasJob().catch(() => undefined);
    if (hasJob === false && isLibvirtError(cause, 'CALL_TIMEOUT')) return false;
    if (hasJob !== true) {
      this.#run(this.#asBeginning(() => this.#settle()));
      throw new LauncherError('BUSY', `backup ${name}: ${backupRefusals.unknownStart}`, { cause });
    }
    this.#noteLateStart();
    return true;
  }

  async #settle(): Promise<void> {
    let refusals = 0;
    for (let looks = 0; looks < beginLooks && refusals < beginRefusals && this.isUnderWay; looks++) {
      const hasJob = await this.#hasJob().catch(() => undefined);
      if (hasJob === false) refusals++;
      if (hasJob === true) {
        this.#noteLateStart();
        return;
      }
      await sleep(beginPauseMs, undefined, this.#deps.clock);
    }
    await this.#end(false, 'libvirt has not begun it: make another backup');
  }

  /** The guest was thawed when the answer did not come. */
  #noteLateStart(): void {
    const { Name, QuiesceStatus } = this.#deps.metadata.metadata.Backup ?? {};
    this.#deps.log.warn({ backup: Name }, 'backup begins, and libvirt did not say so');
    if (QuiesceStatus === 'Succeeded') this.#update({ QuiesceStatus: 'Failed', BackupMsg: unknownFreeze });
  }

  async #copy(order: Start, directories: readonly [string, string, string]): Promise<void> {
    const { hypervisor, log } = this.#deps;
    const domain = await existingDomain(hypervisor, this.#options.domainName);
    const { state } = await hypervisor.state(domain);
    if (state !== RUNNING && state !== PAUSED) {
      throw new LauncherError('INVALID_REQUEST', 'only a guest that runs can be backed up: start the VM');
    }
    const all = await this.#disks(domain);
    const disks = backupDisks(all);
    if (disks.length === 0) {
      throw new LauncherError(
        'INVALID_REQUEST',
        'no disk of this guest has its changed blocks tracked: let the VM match changedBlockTrackingLabelSelectors, and restart it',
      );
    }
    const changes = order.since === undefined ? undefined : await this.#changes(domain, order.since, disks);
    await makeDirectories(directories);
    const checkpoint = nameWithTime(order);
    const socket = order.mode === 'Pull' ? this.#options.nbdSocket : undefined;
    const plan: BackupPlan = { all, checkpoint, directory: directories[2], backupName: order.name, changes, socket };
    this.#update({
      Directory: directories[2],
      CheckpointName: checkpoint,
      Volumes: JSON.stringify(disks.map(({ name, target }) => ({ volumeName: name, diskTarget: target }))),
    });
    await this.#quiesced(domain, order.skipQuiesce, state === PAUSED, () =>
      hypervisor.beginBackup(domain, { backup: backupXml(plan), checkpoint: checkpointXml(plan) }),
    );
    log.info(
      { backup: order.name, mode: order.mode, since: order.since, disks: disks.map(({ name }) => name) },
      'backup begins',
    );
  }

  async #changes(domain: DomainRef, since: string, disks: readonly BackupDisk[]) {
    const known = await this.#deps.hypervisor.checkpoints(domain);
    const covered = await this.#covered(domain, { name: since, createdAt: undefined }, disks, known);
    return { since, targets: new Set(covered.map(({ target }) => target)) };
  }

  /** The disks that have a checkpoint's bitmap; libvirt knows it afterwards. */
  async #covered(
    domain: DomainRef,
    { name, createdAt }: Checkpoint,
    disks: readonly BackupDisk[],
    known: readonly string[] = [],
  ): Promise<readonly BackupDisk[]> {
    const { hypervisor } = this.#deps;
    const bitmaps = await usableBitmaps(hypervisor, domain);
    const covered = disks.filter(({ record }) => bitmaps.get(record)?.has(name));
    if (covered.length === 0) {
      throw new LauncherError(
        'CHECKPOINT_INVALID',
        `no disk knows checkpoint ${name}, so what changed since is not known: ${forceFull}`,
      );
    }
    if (known.includes(name)) return covered;
    try {
      const targets = covered.map(({ target }) => target);
      await hypervisor.redefineCheckpoint(domain, redefinitionXml(name, createdAt, targets));
    } catch (error) {
      throw checkpointFailure(name, error);
    }
    return covered;
  }

  /** Frozen file systems make a backup one of a clean disk. A guest that cannot be frozen is backed up all the same, and that is told. */
  async #quiesced(domain: DomainRef, skip: boolean, isPaused: boolean, work: () => Promise<void>): Promise<void> {
    if (skip) {
      this.#update({ QuiesceStatus: 'Skipped' });
      await work();
      return;
    }
    const { freezer, log } = this.#deps;
    let problem = isPaused ? 'it is paused' : undefined;
    if (!isPaused) problem = await freezer.freeze(domain, freezeLimitSeconds).then(() => undefined, errorMessage);
    this.#update({
      QuiesceStatus: problem === undefined ? 'Succeeded' : 'Failed',
      BackupMsg: problem === undefined ? '' : `the guest's file systems were not frozen: ${problem}`,
    });
    try {
      await work();
    } finally {
      // Also when the freeze failed: it may have done half of it.
      if (!isPaused) {
        await freezer.unfreeze(domain).catch((error: unknown) => {
          if (problem === undefined) log.error({ err: errorMessage(error) }, 'the guest stays frozen');
        });
      }
    }
  }

  /** The exporter may come later than the order. */
  #export(order: Extract<BackupOrder, { command: 'Export' }>): void {
    const present = this.#deps.metadata.metadata.Backup;
    if (!present || !this.isUnderWay || !isSameBackup(order, present)) {
      throw new LauncherError('INVALID_REQUEST', `backup ${order.name} is not under way: there is nothing to be read`);
    }
    if (present.Mode !== 'Pull') {
      throw new LauncherError('INVALID_REQUEST', `backup ${order.name} is in mode ${present.Mode}, which nobody reads`);
    }
    if (present.Tunnel !== 'connected') this.#update({ Tunnel: 'ordered' });
    this.#deps.tunnel.open(order.to, () => this.#noteReader(order));
  }

  /** Kept over a start of this process: what was read until then is of the checkpoint. */
  #noteReader(order: NamedBackup): void {
    const present = this.#deps.metadata.metadata.Backup;
    const isMeant = present != null && this.isUnderWay && isSameBackup(order, present);
    if (isMeant && present.Tunnel !== 'connected') this.#update({ Tunnel: 'connected' });
  }

  async #abort(order: Extract<BackupOrder, { command: 'Abort' }>): Promise<void> {
    const present = this.#deps.metadata.metadata.Backup;
    if (!present || !this.isUnderWay || !isSameBackup(order, present)) {
      throw new LauncherError(
        'INVALID_REQUEST',
        `backup ${order.name} is not under way: ${backupRefusals.nothingToAbort}`,
      );
    }
    const domain = await existingDomain(this.#deps.hypervisor, this.#options.domainName);
    if (!(await this.#hasJob())) {
      throw new LauncherError('BUSY', `backup ${order.name} cannot be aborted at this moment: try again`);
    }
    this.#stop ??= { why: 'ordered', isUnread: order.isUnread };
    try {
      await this.#deps.hypervisor.abortJob(domain);
    } catch (error) {
      if (!isLibvirtError(error, 'OPERATION_INVALID')) throw error;
      throw new LauncherError(
        'INVALID_REQUEST',
        `backup ${order.name} has just ended: ${backupRefusals.nothingToAbort}`,
      );
    }
  }

  /**
   * In mode Pull QEMU keeps what the guest overwrites before it lets it, and a guest whose old blocks find no room stands still. It is worth
   * more than its backup, also when it is its own disk that fails: then it stops again.
   */
  async #release(domain: DomainRef): Promise<void> {
    const { hypervisor, metadata, log } = this.#deps;
    const { Mode, Directory } = metadata.metadata.Backup ?? {};
    if (Mode !== 'Pull' || this.#stop) return;
    const isRoomless = await isFull(String(Directory)).catch(() => false);
    const reason = isRoomless ? tooSmall('Pull') : heldByDisks;
    // An order may have come meanwhile.
    this.#stop ??= { why: 'guest-stands-still', reason };
    log.warn({ reason }, 'a backup that keeps its guest from writing is ended');
    await hypervisor.abortJob(domain);
  }

  async #isHeldByDisks(domain: DomainRef): Promise<boolean> {
    const { state, reason } = await this.#deps.hypervisor.state(domain);
    return state === PAUSED && reason === PausedReason.IOERROR;
  }

  /** Once for each backup: libvirt tells of its end, and of that of the guest. */
  async #end(isDone: boolean, message: string): Promise<void> {
    if (this.#isEnding) return;
    this.#isEnding = true;
    try {
      const { log, metadata } = this.#deps;
      const { Name, Mode, CheckpointName } = metadata.metadata.Backup ?? {};
      const isPull = Mode === 'Pull';
      this.#deps.tunnel.close();
      const flaw = await (isPull ? this.#pullFlaw(isDone, message) : this.#pushFlaw(isDone, message));
      const success = flaw === undefined;
      const running = await this.#running().catch(() => undefined);
      if (this.#stop?.why === 'guest-stands-still' && running) await this.#goOn(running);
      if (!success || isPull) await this.#clear();
      if (isPull) await rm(this.#options.nbdSocket, { force: true });
      if (!success && running) await this.#forget(running, String(CheckpointName));
      // It did not even begin, and that is told to who ordered it.
      if (!this.isUnderWay) return;
      log.info({ backup: Name, success, ...(!success && { reason: flaw, said: message }) }, 'backup has ended');
      this.#update({
        EndTimestamp: rfc3339(this.#deps.clock.now()),
        Completed: true,
        Failed: !success,
        ...(!success && { BackupMsg: flaw }),
      });
    } finally {
      this.#isEnding = false;
    }
  }

  /** Why a push has failed. */
  async #pushFlaw(isDone: boolean, message: string): Promise<string | undefined> {
    if (this.#stop) return 'it was aborted';
    if (isDone) {
      if (await this.#isClosed()) return await this.#lossOfFiles();
      return (await this.#running().catch(() => undefined)) ? unclosed : stopped;
    }
    return await this.#said(message, 'Push');
  }

  /** Why a pull has failed: it is whole at any time until it is told to end, if anybody could read it. */
  async #pullFlaw(isDone: boolean, message: string): Promise<string | undefined> {
    if (this.#stop?.why === 'guest-stands-still') return this.#stop.reason;
    if (this.#stop) {
      const tunnel = tunnelIn(this.#deps.metadata.metadata.Backup?.Tunnel);
      return this.#stop.isUnread || tunnel !== 'connected' ? unread[tunnel] : undefined;
    }
    if (isDone && (await this.#running().catch(() => undefined))) return undefined;
    return await this.#said(message, 'Pull');
  }

  /** libvirt gives no reason when the guest has stopped. */
  async #said(message: string, mode: BackupMode): Promise<string> {
    const isStopped = message === '' && !(await this.#running().catch(() => undefined));
    return isStopped ? stopped : failureReason(message, mode);
  }

  async #lossOfFiles(): Promise<string | undefined> {
    const { Name, Directory, Volumes } = this.#deps.metadata.metadata.Backup ?? {};
    const place = { directory: String(Directory), backupName: String(Name) };
    const files = volumesIn(Volumes).map((volume) => backupFile(place, volume));
    const lost = await missingFile(files);
    if (lost !== undefined) return `${lost} is not in the claim any more: keep others from it, and make another backup`;
    await this.#giveAway(files);
    return undefined;
  }

  /** libvirt leaves them to root where the launcher is that: exporters, and pods of others, read the claim as QEMU's user. */
  async #giveAway(files: readonly string[]): Promise<void> {
    const { giveToQemu, log } = this.#deps;
    for (const file of files) {
      await giveToQemu(file).catch((error: unknown) => {
        log.warn({ file, err: errorMessage(error) }, 'a file of a backup stays with root');
      });
    }
  }

  /** Out of the stop that the backup was the reason of. */
  async #goOn(domain: DomainRef): Promise<void> {
    const { hypervisor, log } = this.#deps;
    try {
      if (await this.#isHeldByDisks(domain)) await hypervisor.resume(domain);
    } catch (error) {
      log.error({ err: errorMessage(error) }, 'the guest stands still after its backup: unpause it');
    }
  }

  /** libvirt tells of the end before QEMU closes the files, and what QEMU knows of their insides is written only then. */
  async #isClosed(): Promise<boolean> {
    const { hypervisor, metadata, clock } = this.#deps;
    const directory = String(metadata.metadata.Backup?.Directory);
    for (let looks = 0; looks < closingLooks; looks++) {
      const domain = await this.#running().catch(() => undefined);
      // A QEMU that has ended meanwhile may not have come to it.
      if (!domain) return false;
      const isOpen = await hasOpenBelow(hypervisor, domain, directory).catch(() => true);
      if (!isOpen) return true;
      await sleep(closingPauseMs, undefined, clock);
    }
    return false;
  }

  async #running(): Promise<DomainRef | undefined> {
    const { hypervisor } = this.#deps;
    const domain = await hypervisor.lookup(this.#options.domainName);
    const state = domain && (await hypervisor.state(domain)).state;
    return state === RUNNING || state === PAUSED ? domain : undefined;
  }

  async #forget(domain: DomainRef, checkpoint: string): Promise<void> {
    const { hypervisor, log } = this.#deps;
    try {
      await hypervisor.deleteCheckpoint(domain, checkpoint);
    } catch (error) {
      log.warn({ checkpoint, err: errorMessage(error) }, 'the checkpoint of a failed backup stays');
    }
  }

  /** What is half a backup must not look like one. */
  async #clear(): Promise<void> {
    const directory = this.#deps.metadata.metadata.Backup?.Directory;
    if (typeof directory !== 'string' || directory === '') return;
    try {
      await rm(directory, { recursive: true, force: true });
      await rmdir(path.dirname(directory));
    } catch (error) {
      if (['ENOTEMPTY', 'ENOENT'].includes(String(errorCode(error)))) return;
      this.#deps.log.warn({ directory, err: errorMessage(error) }, 'the rest of a failed backup stays');
    }
  }

  async #disks(domain: DomainRef): Promise<readonly LiveDisk[]> {
    return readLiveDomain(await this.#deps.hypervisor.xml(domain)).disks;
  }

  #update(change: Partial<BackupMetadata>): void {
    this.#deps.metadata.updateMetadata({ Backup: { ...this.#deps.metadata.metadata.Backup, ...change } });
  }

  #tell(metadata: BackupMetadata): void {
    this.#deps.metadata.updateMetadata({ Backup: { ...metadata } });
  }

  #run(work: Promise<void>): void {
    work.catch((error: unknown) => this.#deps.log.error({ err: errorMessage(error) }, 'end of a backup not recorded'));
  }
}

/** It may have taken effect. */
const isUnanswered = (error: unknown) => isLibvirtError(error, 'CALL_TIMEOUT', 'CONNECTION_LOST');

function tunnelIn(text: unknown): BackupMetadata['Tunnel'] {
  return text === 'ordered' || text === 'connected' ? text : 'none';
}

function volumesIn(text: unknown): string[] {
  const list: unknown = JSON.parse(String(text));
  return listOf(list).map((each) => String(memberAt(each, 'volumeName')));
}

function begun({ name, mode, startTime, skipQuiesce }: Start): BackupMetadata {
  return {
    Name: name,
    Mode: mode,
    SkipQuiesce: skipQuiesce,
    StartTimestamp: startTime,
    EndTimestamp: null,
    Completed: false,
    Failed: false,
    BackupMsg: '',
    CheckpointName: '',
    Volumes: '',
    QuiesceStatus: '',
    Directory: '',
    Tunnel: 'none',
  };
}
