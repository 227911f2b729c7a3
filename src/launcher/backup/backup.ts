import { lstat, mkdir, rm, rmdir } from 'node:fs/promises';
import path from 'node:path';
import { type Clock, errorCode, errorMessage, type Logger, rfc3339, sleep } from '../../base/index.ts';
import {
  type DomainRef,
  DomainState,
  formatLibvirtError,
  isLibvirtError,
  JobOperation,
  JobType,
  LibvirtError,
  LifecycleEvent,
} from '../../libvirt/index.ts';
import { type LiveDisk, readLiveDomain } from '../domain/index.ts';
import { LauncherError } from '../errors.ts';
import { existingDomain, type Hypervisor, type HypervisorEvent } from '../ports.ts';
import {
  type BackupDisk,
  type BackupPlan,
  backupDisks,
  backupXml,
  checkpointXml,
  redefinitionXml,
} from './backup-xml.ts';
import { hasOpenBelow, usableBitmaps } from './bitmaps.ts';
import {
  type BackupOrder,
  backupDirectories,
  type Checkpoint,
  decodeCheckpoint,
  decodeOrder,
  isSameBackup,
  nameWithTime,
} from './orders.ts';

export interface VmBackupOptions {
  readonly domainName: string;
  readonly vmiName: string;
  /** Where the agent brings volumes. */
  readonly hotplugDir: string;
}

/** What the agent reads of the backup (upstream: api.BackupMetadata), and where it is. Times as RFC 3339. */
interface BackupMetadata {
  readonly Name: string;
  readonly Mode: string;
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
const unclosed = 'QEMU has not closed the files: make another backup';
const stopped = 'the guest stopped before the backup was whole: make another one when it runs';
const forceFull = 'ask for a full backup (spec.forceFullBackup: true)';

/**
 * Copies the disks of a running guest as they are at one instant into files of a plugged volume (upstream: `BackupVirtualMachine` of
 * pkg/virt-launcher/virtwrap/storage/backup.go). Answers come by the metadata of the domain. What did not become whole is deleted, with its
 * checkpoint.
 */
export class VmBackup {
  readonly #options: VmBackupOptions;
  readonly #deps: VmBackupDeps;
  #isAborting = false;
  #isEnding = false;

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
    if (!this.isUnderWay) return;
    const { hypervisor } = this.#deps;
    const domain = await hypervisor.lookup(this.#options.domainName);
    const job = domain && (await hypervisor.jobStats(domain));
    if (job && job.type !== JobType.NONE && job.params.get('operation') === JobOperation.BACKUP) return;
    await this.#end(
      false,
      'the launcher was started again meanwhile and cannot tell how it ended: make another backup',
    );
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
    if (event.kind === 'lifecycle' && event.event === LifecycleEvent.STOPPED) {
      this.#run(this.#end(false, stopped));
    }
  }

  /**
   * Begins a backup and resolves when its point in time is taken, or asks the one that is under way to end. The same order again changes
   * nothing. Throws INVALID_REQUEST, DOMAIN_NOT_FOUND, BUSY, NOT_SUPPORTED, CHECKPOINT_INVALID.
   */
  async order(options: Uint8Array): Promise<void> {
    const order = decodeOrder(options);
    if (order.command === 'Abort') await this.#abort(order);
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
    this.#isAborting = false;
    this.#tell(begun(order));
    try {
      await this.#copy(order, directories);
    } catch (error) {
      await this.#clear();
      this.#deps.metadata.updateMetadata({ Backup: present });
      throw error instanceof LibvirtError ? startFailure(error) : error;
    }
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
    const plan: BackupPlan = { all, checkpoint, directory: directories[2], backupName: order.name, changes };
    this.#update({
      Directory: directories[2],
      CheckpointName: checkpoint,
      Volumes: JSON.stringify(disks.map(({ name, target }) => ({ volumeName: name, diskTarget: target }))),
    });
    await this.#quiesced(domain, order.skipQuiesce, state === PAUSED, () =>
      hypervisor.beginBackup(domain, { backup: backupXml(plan), checkpoint: checkpointXml(plan) }),
    );
    log.info({ backup: order.name, since: order.since, disks: disks.map(({ name }) => name) }, 'backup begins');
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

  async #abort(order: BackupOrder): Promise<void> {
    const present = this.#deps.metadata.metadata.Backup;
    if (!present || !this.isUnderWay || !isSameBackup(order, present)) {
      throw new LauncherError('INVALID_REQUEST', `backup ${order.name} is not under way: there is nothing to abort`);
    }
    const { hypervisor } = this.#deps;
    const domain = await existingDomain(hypervisor, this.#options.domainName);
    const { type, params } = await hypervisor.jobStats(domain);
    if (type === JobType.NONE || params.get('operation') !== JobOperation.BACKUP) {
      throw new LauncherError('BUSY', `backup ${order.name} cannot be aborted at this moment: try again`);
    }
    this.#isAborting = true;
    try {
      await hypervisor.abortJob(domain);
    } catch (error) {
      if (!isLibvirtError(error, 'OPERATION_INVALID')) throw error;
      throw new LauncherError('INVALID_REQUEST', `backup ${order.name} has just ended: there is nothing to abort`);
    }
  }

  /** Once for each backup: libvirt tells of its end, and of that of the guest. */
  async #end(isDone: boolean, message: string): Promise<void> {
    if (this.#isEnding) return;
    this.#isEnding = true;
    try {
      const { log, metadata } = this.#deps;
      const success = isDone && (await this.#isWhole());
      const { Name, CheckpointName } = metadata.metadata.Backup ?? {};
      let reason = this.#isAborting ? 'it was aborted' : failureReason(message);
      if (!success) {
        const running = await this.#running().catch(() => undefined);
        // libvirt gives no reason then.
        if (message === '') reason = running ? unclosed : stopped;
        await this.#clear();
        if (running) await this.#forget(running, String(CheckpointName));
      }
      // It did not even begin, and that is told to who ordered it.
      if (!this.isUnderWay) return;
      log.info({ backup: Name, success, ...(!success && { reason, said: message }) }, 'backup has ended');
      this.#update({
        EndTimestamp: rfc3339(this.#deps.clock.now()),
        Completed: true,
        Failed: !success,
        ...(!success && { BackupMsg: reason }),
      });
    } finally {
      this.#isEnding = false;
    }
  }

  /** libvirt tells of the end before QEMU closes the files, and what QEMU knows of their insides is written only then. */
  async #isWhole(): Promise<boolean> {
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

function begun({ name, startTime, skipQuiesce }: Start): BackupMetadata {
  return {
    Name: name,
    Mode: 'Push',
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
  };
}

/** The last one is new, and none is a link, which a user of the claim may have put there. */
async function makeDirectories([volume, vmi, backup]: readonly [string, string, string]): Promise<void> {
  const name = path.basename(volume);
  const there = await lstat(volume).catch(() => undefined);
  if (!there?.isDirectory()) {
    const why = there ? 'is no file system: the claim of a backup needs volumeMode Filesystem' : 'is not there yet';
    throw new LauncherError('INVALID_REQUEST', `volume ${name} ${why}`);
  }
  try {
    await mkdir(vmi, { mode: 0o755 }).catch(async (error: unknown) => {
      if (errorCode(error) !== 'EEXIST' || !(await lstat(vmi)).isDirectory()) throw error;
    });
    await mkdir(backup, { mode: 0o755 });
  } catch (cause) {
    const advice =
      errorCode(cause) === 'EEXIST' ? 'remove it, or give the backup another name' : failureReason(errorMessage(cause));
    throw new LauncherError('SETUP_FAILED', `${path.basename(backup)} cannot be made in volume ${name}: ${advice}`, {
      cause,
    });
  }
}

function checkpointFailure(name: string, error: unknown): unknown {
  const isUseless = isLibvirtError(
    error,
    'INVALID_DOMAIN_CHECKPOINT',
    'NO_DOMAIN_CHECKPOINT',
    'CHECKPOINT_INCONSISTENT',
  );
  if (!isUseless) return error;
  const text = `checkpoint ${name} is broken (${formatLibvirtError(error)}): ${forceFull}`;
  return new LauncherError('CHECKPOINT_INVALID', text, { cause: error });
}

/** What libvirt says when it does not even begin. */
function startFailure(error: LibvirtError): LauncherError {
  const text = `the backup does not begin: ${failureReason(formatLibvirtError(error))}`;
  const isCheckpoint = isLibvirtError(error, 'NO_DOMAIN_CHECKPOINT', 'CHECKPOINT_INCONSISTENT');
  const code = isCheckpoint ? 'CHECKPOINT_INVALID' : 'INVALID_REQUEST';
  return new LauncherError(code, isCheckpoint ? `${text}: ${forceFull}` : text, { cause: error });
}

/** Why, with what to do. */
function failureReason(text: string): string {
  if (/No space left on device|ENOSPC/i.test(text)) {
    return 'the claim is too small: a full backup needs room for whole disks; make it larger, or use another one';
  }
  if (/Permission denied|Read-only file system|EACCES|EROFS/i.test(text))
    return `QEMU may not write to the claim: ${text}`;
  return text === '' ? 'libvirt gives no reason: look into the log of the launcher' : text;
}
