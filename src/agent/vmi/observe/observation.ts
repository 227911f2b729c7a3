import type { DomainView, GhostRecord, Key, LauncherState, VirtualMachineInstance } from '../../../api/index.ts';
import type { StatusConfig } from '../../../cluster-config/index.ts';
import type { ProxyPorts } from '../../migration-proxy/ports.ts';
import type { HostWorkFacts } from '../host/index.ts';
import type { GuestAgentAnswer, HostSeen, SyncOptions } from '../ports.ts';
import type { KeyMemory, Moved, Remember } from './memory.ts';
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
  /** The API server says that there is none; `moved`: nothing of it is here any more since it went to another node. */
  | { readonly kind: 'deleted'; readonly moved?: Moved }
  /** The API server could not be asked: neither here nor gone. */
  | { readonly kind: 'unclear'; readonly reason: string };

/** A domain or ghost record of an earlier VMI of the same name. */
export interface Predecessor {
  readonly uid: string;
  readonly domain: DomainView;
  readonly launcher: LauncherState;
}

/** What only the status is made of. */
export interface StatusFacts extends HostSeen {
  readonly config: StatusConfig;
  readonly hostModel?: string;
  readonly architecture?: string;
  readonly guestAgent?: GuestAgentAnswer;
  readonly isoSizes: Readonly<Record<string, number>>;
}

/** This VMI's streams between nodes. */
export interface ProxiesView {
  readonly supported: boolean;
  readonly unavailable: string | undefined;
  readonly address: string;
  readonly targetPorts?: ProxyPorts;
  readonly hasSource: boolean;
  /** Streams that broke in post-copy are opened anew for so long; absent: not at all. */
  readonly resumeMs?: number;
  /** Streams of memory stand when they have carried nothing for so long since the switch to post-copy; absent: nobody says. */
  readonly stallMs?: number;
  /** What the open sides were opened for, also by an earlier agent; absent: not open, or not known. */
  readonly sourceMigration?: string;
  readonly targetMigration?: string;
  /** The source's streams were ended here without an order; absent: they were not. */
  readonly sourceEnded?: { readonly migrationUid?: string; readonly reason: string };
  /** The source's streams of memory have carried nothing for so long; absent: they carry some. */
  readonly sourceStalledSeconds?: number;
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
  /** UID this reconcile is about: the VMI's, else the domain's or the ghost record's; empty when nothing is known. */
  readonly uid: string;
  readonly domain: DomainView;
  readonly launcher: LauncherState;
  readonly ghost?: GhostRecord;
  readonly predecessor?: Predecessor;
  readonly memory: KeyMemory;
  readonly migrationProxies: ProxiesView;
  /** To be published: how far this guest has come on its way to another node. */
  readonly migrationNote?: string;
  /** The launcher could not be remembered on disk. */
  readonly recordProblem?: string;
  readonly syncOptions: SyncOptions;
  /** Digest of all that a sync would carry; equal digests need no second sync. */
  readonly syncFingerprint: string;
  /** SELinux label for the status; empty: not known. */
  readonly selinuxContext: string;
  readonly statusFacts: StatusFacts;
  /** What hooks gave for this UID, by hook; survives the agent. */
  readonly hostFacts: HostWorkFacts;
  /** Found out by looking, to be remembered. */
  readonly learned?: Remember;
}
