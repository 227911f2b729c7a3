/**
 * What this process remembers of one VMI UID between two reconciles; it dies with the key or with the UID. Times are monotonic.
 * States are unions and are replaced as a whole; facts that are independent of one another stand in small groups, and each is
 * replaced by itself. A VMI can migrate away and come back: `target-begun` forgets what belongs to one stay on this node.
 */
export interface KeyMemory {
  readonly uid: string;
  readonly sync: SyncMemory;
  readonly migration: MigrationMemory;
  readonly ending: EndingMemory;
  readonly doubts: DoubtMemory;
  readonly pause: PauseMemory;
  readonly placement: PlacementMemory;
  readonly hostDevices: HostDeviceMemory;
  readonly reports: ReportMemory;
  readonly writes: WriteMemory;
  /** Read once inside the launcher. */
  readonly launcherFacts: LauncherFacts | undefined;
  /** Seen at another node, while something of it was here. */
  readonly moved: Moved | undefined;
}

/** Where a VMI went that was here. */
export interface Moved {
  readonly node: string;
  /** RFC 3339: the end of its migration; where that is not known, when it was first seen there. */
  readonly at: string;
  /** UID; absent: not known. */
  readonly migration?: string;
}

type Groups = Pick<KeyMemory, 'ending' | 'doubts' | 'pause' | 'placement' | 'hostDevices' | 'reports' | 'writes'>;

/** What a rule or a step adds to the memory. */
export type Remember = {
  readonly [Group in keyof Groups]?: Partial<Groups[Group]>;
} & Partial<Pick<KeyMemory, 'sync' | 'migration' | 'launcherFacts' | 'moved'>>;

/** A SyncVirtualMachine that succeeded: what it carried, when it was sent and when it was answered. */
export interface SyncSent {
  readonly fingerprint: string;
  readonly atMs: number;
  readonly endedMs: number;
}

/** What was tried with this fingerprint and has not succeeded. */
export interface Tries {
  readonly fingerprint: string;
  readonly count: number;
  readonly lastMs: number;
}

/** How far the VMI has been brought into its domain. */
export type SyncMemory =
  | { readonly kind: 'none' }
  | { readonly kind: 'starting'; readonly startTries: Tries }
  | { readonly kind: 'synced'; readonly synced: SyncSent }
  /** It was synced, left no trace of a domain, and is started again. */
  | { readonly kind: 'starting-again'; readonly synced: SyncSent; readonly startTries: Tries };

export function syncedOf({ sync }: KeyMemory): SyncSent | undefined {
  return 'synced' in sync ? sync.synced : undefined;
}

export function startTriesOf({ sync }: KeyMemory): Tries | undefined {
  return 'startTries' in sync ? sync.startTries : undefined;
}

export function withStartTries(memory: KeyMemory, startTries: Tries): SyncMemory {
  const synced = syncedOf(memory);
  return synced ? { kind: 'starting-again', synced, startTries } : { kind: 'starting', startTries };
}

/** What was done to end the domain. Each of it may be done without the others. */
export interface EndingMemory {
  /** A graceful shutdown under way. The deadline only ever moves forward in time, never back. */
  readonly shutdown:
    | { readonly firstMs: number; readonly deadlineMs: number; readonly lastSignalMs: number }
    | undefined;
  readonly killedMs: number | undefined;
  /** The launcher was ordered to undefine the domain. */
  readonly deletedMs: number | undefined;
  /** Local clean-up done: a final VMI costs nothing any more. */
  readonly cleaned: boolean;
  /** Final phase that was decided and maybe not written yet: it must survive the evidence, which a clean-up takes away. */
  readonly finalPhase: { readonly phase: 'Succeeded' | 'Failed'; readonly because: string } | undefined;
}

/** What was looked at twice before it is believed. */
export interface DoubtMemory {
  /** The launcher was asked again about a domain that is shut off without a reason, or missing without a trace. */
  readonly askedAgainMs: number | undefined;
  /** The API server said for the first time that there is no such VMI. */
  readonly missingSinceMs: number | undefined;
  /** A predecessor is in the way: first and last time it was met. */
  readonly blocked: { readonly sinceMs: number; readonly lastMs: number } | undefined;
}

export interface PauseMemory {
  /** Pause before the next sync of a domain paused by an I/O error. */
  readonly ioRetry: { readonly lastMs: number; readonly waitMs: number } | undefined;
  /** First sight of the pause that the guest is in; a sync after it may have ended it. */
  readonly pausedSinceMs: number | undefined;
}

/** Threads of the guest that could not be put where the VMI wants them. */
export interface PlacementMemory {
  /** Since the last one that succeeded. */
  readonly placementTries: Tries | undefined;
  /** In words; undefined: it was not tried to its end. */
  readonly unplaced: string | undefined;
}

/** Network devices of the machine that were taken from the guest for a migration, and are to come back. */
export interface HostDeviceMemory {
  /** How often the launcher was told to; undefined: none was missing. */
  readonly plugTries: { readonly count: number; readonly firstMs: number; readonly lastMs: number } | undefined;
  /** What it said, if it refused. */
  readonly plugRefusal: string | undefined;
}

/** What was reported already. */
export interface ReportMemory {
  /** Last problem of which there was an event; empty: all was well since. */
  readonly reportedProblem: string;
}

export interface WriteMemory {
  /** The API server gave no answer to a write of this VMI. */
  readonly writeFailedMs: number | undefined;
  /** Parts of the status that the API server did not take; undefined: it takes all. */
  readonly refusal: WriteRefusal | undefined;
}

export interface WriteRefusal {
  /** Left as they were in what is written. */
  readonly parts: readonly string[];
  /** Even those that are stored are taken out, for the essential to fit. */
  readonly makeRoom: boolean;
  /** The API server's words and ours, for the user. */
  readonly message: string;
  /** From then on the whole is tried again. */
  readonly retryAtMs: number;
  readonly waitMs: number;
}

/** What is read inside a launcher's container, once: it does not change while the guest runs. */
export interface LauncherFacts {
  readonly selinuxContext: string;
  /** Bytes of the images made for ISO volumes (cloud-init, config maps), by volume. */
  readonly isoSizes: Readonly<Record<string, number>>;
}

/** What this process did for one migration, as its source or as its target; another migration UID begins anew. */
export type MigrationMemory = { readonly role: 'none' } | TargetMemory | SourceMemory;

export interface TargetMemory {
  readonly role: 'target';
  readonly migrationUid: string;
  readonly stage: TargetStage;
}

export type TargetStage =
  /** What was remembered of an earlier stay is forgotten. */
  | { readonly kind: 'begun' }
  | ({ readonly kind: 'trying' } & PrepareTries)
  /** SyncMigrationTarget was refused: the launcher's words. */
  | ({ readonly kind: 'refused'; readonly refusal: string } & PrepareTries)
  /** SyncMigrationTarget went through. `cpuSet`: CPUs of the pod that waits here, for a guest with CPUs of its own. */
  | ({ readonly kind: 'prepared'; readonly preparedMs: number; readonly cpuSet?: readonly number[] } & PrepareTries)
  /** What finalizeMigration found out, for the patch that follows. */
  | { readonly kind: 'finalized'; readonly finalized: { readonly cpus?: string; readonly memory?: string } }
  /** First sight of its end: a launcher that gives no answer holds nothing up beyond a while. */
  | { readonly kind: 'over'; readonly endedSeenMs: number; readonly signalled: boolean };

/** First and last try to prepare; a target that cannot be prepared is given up after a while. */
export interface PrepareTries {
  readonly firstTryMs: number;
  readonly lastTryMs: number;
}

export interface SourceMemory {
  readonly role: 'source';
  readonly migrationUid: string;
  readonly order: SourceOrder;
  /** Since when a migration that was begun is missing in what the launcher reports. */
  readonly unheardSinceMs?: number | undefined;
  readonly cancelledMs?: number | undefined;
  /** Its streams broke in post-copy, and are opened anew. */
  readonly broken?: { readonly sinceMs: number; readonly lastTryMs: number } | undefined;
  /** First sight of libvirt's word that QEMU is in post-copy, since it began or was resumed. */
  readonly postCopySinceMs?: number | undefined;
  /** What was used up of the time for resuming it: how long its streams stood and how long they were broken. */
  readonly spentMs?: number | undefined;
  /** When it was last resumed. */
  readonly resumedMs?: number | undefined;
  /** First sight of the source's own word that it is over. */
  readonly overSeenMs?: number | undefined;
}

/** MigrateVirtualMachine. */
export type SourceOrder =
  /** Not by this process; an earlier one may have sent it. */
  | { readonly kind: 'none' }
  /** First try; one that cannot be started is given up after a while. */
  | { readonly kind: 'tried'; readonly firstTryMs: number }
  /** The launcher's words. */
  | { readonly kind: 'refused'; readonly firstTryMs: number; readonly refusal: string }
  | { readonly kind: 'sent'; readonly firstTryMs: number; readonly sentMs: number };

/** This process did something for exactly this migration. */
export function isOfMigration({ migration }: KeyMemory, migrationUid: string): boolean {
  return migration.role !== 'none' && migration.migrationUid === migrationUid;
}

/** What this process did for the migration as its source; another one begins anew. */
export function sourceMemory({ migration }: KeyMemory, migrationUid: string): SourceMemory {
  const isOfIt = migration.role === 'source' && migration.migrationUid === migrationUid;
  return isOfIt ? migration : { role: 'source', migrationUid, order: { kind: 'none' } };
}

/** First and last try to prepare as the target of this migration, this one included. */
export function prepareTries({ migration }: KeyMemory, nowMs: number): PrepareTries {
  const isKnown = migration.role === 'target' && 'firstTryMs' in migration.stage;
  return { firstTryMs: isKnown ? migration.stage.firstTryMs : nowMs, lastTryMs: nowMs };
}

const nothing: Omit<KeyMemory, 'uid'> = {
  sync: { kind: 'none' },
  migration: { role: 'none' },
  ending: { shutdown: undefined, killedMs: undefined, deletedMs: undefined, cleaned: false, finalPhase: undefined },
  doubts: { askedAgainMs: undefined, missingSinceMs: undefined, blocked: undefined },
  pause: { ioRetry: undefined, pausedSinceMs: undefined },
  placement: { placementTries: undefined, unplaced: undefined },
  hostDevices: { plugTries: undefined, plugRefusal: undefined },
  reports: { reportedProblem: '' },
  writes: { writeFailedMs: undefined, refusal: undefined },
  launcherFacts: undefined,
  moved: undefined,
};

/** Of a UID that is met for the first time. */
export function newMemory(uid: string): KeyMemory {
  return { uid, ...nothing };
}

/** The memory with `more` added. */
export function withMore(memory: KeyMemory, more: Remember): KeyMemory {
  const { ending, doubts, pause, placement, hostDevices, reports, writes, ...states } = more;
  return {
    ...memory,
    ...states,
    ...(ending && { ending: { ...memory.ending, ...ending } }),
    ...(doubts && { doubts: { ...memory.doubts, ...doubts } }),
    ...(pause && { pause: { ...memory.pause, ...pause } }),
    ...(placement && { placement: { ...memory.placement, ...placement } }),
    ...(hostDevices && { hostDevices: { ...memory.hostDevices, ...hostDevices } }),
    ...(reports && { reports: { ...memory.reports, ...reports } }),
    ...(writes && { writes: { ...memory.writes, ...writes } }),
  };
}

/** What belongs to one stay of the guest on this node, as it was before. */
export function forgetStay(): Remember {
  const { sync, ending, placement, hostDevices, launcherFacts } = nothing;
  const reports = { reportedProblem: '' };
  const [doubts, pause] = [{ askedAgainMs: undefined }, { ioRetry: undefined }];
  return { sync, ending, placement, hostDevices, launcherFacts, doubts, pause, reports };
}

/** All of it by flat names, as people know them from "explain"; what is not so is left out. */
export function memoryFields({ uid: _uid, sync, migration, launcherFacts, moved, ...groups }: KeyMemory) {
  const { kind: _kind, ...synced } = sync;
  const { ending, doubts, pause, placement, hostDevices, reports, writes } = groups;
  const fields = {
    ...synced,
    ...ending,
    ...doubts,
    ...pause,
    ...placement,
    ...hostDevices,
    ...reports,
    ...writes,
    launcherFacts,
    moved,
  };
  return migration.role === 'none' ? fields : { ...fields, migration: migrationFields(migration) };
}

function migrationFields(migration: TargetMemory | SourceMemory): object {
  const { kind: _kind, ...fields } = migration.role === 'target' ? migration.stage : migration.order;
  if (migration.role === 'target') return { migrationUid: migration.migrationUid, ...fields };
  const { role: _role, order: _order, ...source } = migration;
  return { ...source, ...fields };
}
