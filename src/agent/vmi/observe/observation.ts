import type { DomainView, GhostRecord, Key, LauncherState, VirtualMachineInstance } from '../../../api/index.ts';
import type { StatusConfig } from '../../../cluster-config/index.ts';
import type { ProxyPorts } from '../../migration-proxy/ports.ts';
import type { GuestAgentAnswer, SyncOptions } from '../ports.ts';
import type { VmiProblem } from './vmi-shape.ts';

/** The VMI as this node may see it: a label that moved away and a deletion look the same in a node's own list. */
export type VmiView =
  /**
   * `vmi`: safe to read, fields of a wrong type are dropped and named in `problems`. `stored`: the object as the API server
   * has it, the base of every write. Both may be the cache's own object: copy before changing.
   */
  | {
      readonly kind: 'present';
      readonly vmi: VirtualMachineInstance;
      readonly stored: VirtualMachineInstance;
      readonly problems: readonly VmiProblem[];
    }
  /** Found by name, labelled for another node. */
  | { readonly kind: 'elsewhere'; readonly vmi: VirtualMachineInstance }
  /** The API server says that there is none. */
  | { readonly kind: 'deleted' }
  /** The API server could not be asked: neither here nor gone. */
  | { readonly kind: 'unclear'; readonly reason: string };

/** A domain or ghost record of an earlier VMI of the same name. */
export interface Predecessor {
  readonly uid: string;
  readonly domain: DomainView;
  readonly launcher: LauncherState;
}

/** What this process did for one migration; another migration UID begins anew. */
export interface MigrationMemory {
  readonly migrationUid: string;
  /** SyncMigrationTarget went through. */
  readonly preparedMs?: number;
  /** CPUs of the pod that waits here, for a guest with CPUs of its own. */
  readonly cpuSet?: readonly number[];
  /** First try to start it from here, or to prepare for it; one that cannot be started is given up after a while. */
  readonly firstTryMs?: number;
  readonly lastTryMs?: number;
  /** MigrateVirtualMachine went through. */
  readonly sentMs?: number;
  /** MigrateVirtualMachine or SyncMigrationTarget was refused: the launcher's words. */
  readonly refusal?: string;
  /** Since when a migration that was begun is missing in what the launcher tells. */
  readonly unheardSinceMs?: number;
  readonly cancelledMs?: number;
  /** First sight of the source's own word that it is over. */
  readonly overSeenMs?: number;
  /** What finalizeMigration found out, for the patch that follows. */
  readonly finalized?: { readonly cpus?: string; readonly memory?: string };
  readonly signalled?: boolean;
  /** First sight of its end, on the target: a launcher that gives no answer holds nothing up beyond a while. */
  readonly endedSeenMs?: number;
}

/**
 * What this process remembers of one VMI UID; it dies with the key or with the UID. Times are monotonic. What belongs to one
 * stay on this node may be forgotten (undefined): a VMI can migrate away and come back.
 */
export interface KeyMemory {
  readonly uid: string;
  /** Last SyncVirtualMachine that succeeded, what it syncPayload, when it was sent and when it was answered. */
  readonly synced?: { readonly fingerprint: string; readonly atMs: number; readonly endedMs?: number } | undefined;
  /** Starts that were tried with this fingerprint and have not succeeded. */
  readonly startTries?: { readonly fingerprint: string; readonly count: number; readonly lastMs: number } | undefined;
  /** A graceful shutdown under way. The deadline only ever moves forward in time, never back. */
  readonly shutdown?:
    | { readonly firstMs: number; readonly deadlineMs: number; readonly lastSignalMs: number }
    | undefined;
  readonly killedMs?: number | undefined;
  /** The launcher was told to undefine the domain. */
  readonly deletedMs?: number | undefined;
  /** Local clean-up done: a final VMI costs nothing any more. */
  readonly cleaned?: boolean;
  /** Final phase that was decided and maybe not written yet: it survives the evidence (fault 1, spec 00). */
  readonly verdict?: { readonly phase: 'Succeeded' | 'Failed'; readonly because: string } | undefined;
  readonly migration?: MigrationMemory;
  /** Migrations the user was told about. */
  readonly toldMigrationUid?: string;
  /** The launcher was asked again about a domain that is shut off without a reason, or missing without a trace. */
  readonly askedAgainMs?: number | undefined;
  /** The API server said for the first time that there is no such VMI. */
  readonly missingSinceMs?: number | undefined;
  /** A predecessor is in the way: first and last time it was met. */
  readonly blocked?: { readonly sinceMs: number; readonly lastMs: number };
  /** Last problem an event told of. */
  readonly toldProblem?: string;
  /** Pause before the next sync of a domain paused by an I/O error. */
  readonly ioRetry?: { readonly lastMs: number; readonly waitMs: number } | undefined;
  /** First sight of the pause that the guest is in; a sync after it may have ended it. */
  readonly pausedSinceMs?: number | undefined;
  /** The API server gave no answer to a write of this VMI. */
  readonly writeFailedMs?: number;
  /** Read once inside the launcher. */
  readonly launcherFacts?: LauncherFacts | undefined;
  /** Parts of the status that the API server did not take; undefined: it takes all. */
  readonly refusal?: WriteRefusal | undefined;
}

/** What is read inside a launcher's container, once: it does not change while the guest runs. */
export interface LauncherFacts {
  readonly selinuxContext: string;
  /** Bytes of the images made for ISO volumes (cloud-init, config maps), by volume. */
  readonly isoSizes: Readonly<Record<string, number>>;
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

/** What only the status is made of. */
export interface StatusFacts {
  readonly config: StatusConfig;
  readonly hostModel?: string;
  readonly architecture?: string;
  readonly guestAgent?: GuestAgentAnswer;
  readonly isoSizes: Readonly<Record<string, number>>;
  /** Hot-plugged volumes mounted in the launcher; undefined: not known. */
  readonly mountedVolumes?: readonly string[];
}

/** This VMI's streams between nodes. */
export interface ProxiesView {
  readonly supported: boolean;
  readonly unavailable: string | undefined;
  readonly address: string;
  readonly targetPorts?: ProxyPorts;
  readonly hasSource: boolean;
}

/** Plain read-only data of one moment; all that `decide` and `project` know. */
export interface Observation {
  readonly key: Key;
  readonly nodeName: string;
  /** Wall clock, for what others read. */
  readonly now: Date;
  /** Monotonic clock, for every duration. */
  readonly nowMs: number;
  readonly vmi: VmiView;
  /** UID this pass is about: the VMI's, else the domain's or the ghost record's; empty when nothing is known. */
  readonly uid: string;
  readonly domain: DomainView;
  readonly launcher: LauncherState;
  readonly ghost?: GhostRecord;
  readonly predecessor?: Predecessor;
  readonly memory: KeyMemory;
  readonly migrationProxies: ProxiesView;
  /** The launcher could not be remembered on disk. */
  readonly recordProblem?: string;
  readonly syncOptions: SyncOptions;
  /** Digest of all that a sync would carry; equal digests need no second sync. */
  readonly syncFingerprint: string;
  /** SELinux label for the status; empty: not known. */
  readonly selinuxContext: string;
  readonly statusFacts: StatusFacts;
  /** Found out by looking, to be remembered. */
  readonly learned?: Partial<Omit<KeyMemory, 'uid'>>;
}
