import type {
  DomainView,
  GhostRecord,
  HostFacts,
  Key,
  LauncherState,
  LauncherTarget,
  NumaCell,
  VirtualMachineInstance,
  VmiEvent,
} from '../../api/index.ts';
import type { Clock } from '../../base/index.ts';
import type { ClusterConfig, ClusterFlags, SmBios } from '../../cluster-config/index.ts';
import type { MigrationOptions, MigrationProxies } from '../migration-proxy/ports.ts';
import type { HostWorkFacts, HostWorkPort } from './host/index.ts';

export type { VmiEvent } from '../../api/index.ts';
export type * from './host/work/contract.ts';

/**
 * What the VMI loop needs from the outside. Owned by the consumer: the real things (src/kube, src/domain-cache,
 * src/launcher-client) are fitted to these by src/agent/vmi/adapters and src/bin, the tests use in-memory fakes.
 */

/** VMIs labelled for this node: source label or migration target label. Objects are shared: copy before changing. */
export interface VmiStore {
  /** False until the first complete list. Nothing is decided before. */
  readonly synced: boolean;
  get(key: Key): VirtualMachineInstance | undefined;
  keys(): Iterable<Key>;
  /** Called on add, update and delete; the returned function ends it. */
  onChange(listener: (key: Key) => void): () => void;
}

/** LIST by name: stock rights have no `get` in upstream's ClusterRole. Tells "deleted" from "moved to another node". */
export interface VmiLookup {
  /** The object wherever it runs, undefined when there is none; rejects when the API server did not answer. */
  find(key: Key, signal: AbortSignal): Promise<VirtualMachineInstance | undefined>;
}

export type WriteResult =
  | { readonly kind: 'written'; readonly vmi: VirtualMachineInstance }
  /** 409: another writer was first. */
  | { readonly kind: 'conflict' }
  /** 404: the object is no more. */
  | { readonly kind: 'gone' }
  /** The content is not taken: too large, invalid, or refused by admission. The same again would be refused again. */
  | { readonly kind: 'refused'; readonly code: 'TOO_LARGE' | 'NOT_ALLOWED'; readonly message: string };

export interface VmiWriter {
  /** PUT of the whole object with its resourceVersion. Rejects when the API server does not answer or cannot work. */
  put(vmi: VirtualMachineInstance, signal: AbortSignal): Promise<WriteResult>;
}

/** What remembers the latest checkpoint of a VM for its next incremental backup. */
export interface BackupTrackers {
  /**
   * Marks those of a VM that has started: its launcher knows no checkpoint until it is told of it again. Resolves with the reason when that
   * is not allowed; rejects when the API server does not answer or cannot work.
   */
  guestStarted(
    vm: { readonly namespace?: string; readonly name: string },
    signal: AbortSignal,
  ): Promise<string | undefined>;
}

/** Fire and forget; merging and limits are the recorder's. */
export interface VmiEventRecorder {
  record(vmi: VirtualMachineInstance, event: VmiEvent): void;
  /** Waits for what is under way, with a limit of its own. */
  flush(): Promise<void>;
}

export interface DomainViews {
  /** With `uid`: that VMI's domain only, so that a predecessor of the same name never shows through. */
  view(key: Key, uid?: string): DomainView;
  /** UIDs other than `uid` still known under this key: leftovers of earlier VMIs of the name. */
  otherUids(key: Key, uid: string): string[];
  keys(): Iterable<Key>;
  onChange(listener: (key: Key) => void): () => void;
  /** Asks the launcher (GetDomain) and stores the answer. Never rejects: a failure becomes `unknown`. */
  refresh(key: Key, uid: string, signal: AbortSignal): Promise<DomainView>;
  /** What the user should know about this VMI's records: the disk is full, say. */
  problemOf(uid: string): { readonly message: string } | undefined;
  /** Last step of a clean-up. */
  forget(key: Key, uid: string): void;
}

export interface GhostRecordLookup {
  /** Of several the one added last. */
  get(key: Key): GhostRecord | undefined;
  byUid(uid: string): GhostRecord | undefined;
  keys(): Iterable<Key>;
}

/** Proto `VirtualMachineOptions` in our words; the adapter maps the names. */
export interface SyncOptions {
  readonly smbios?: SmBios;
  readonly memBalloonStatsPeriodSeconds: number;
  readonly preallocatedVolumes: readonly string[];
  readonly topology?: readonly NumaCell[];
  readonly clusterFlags: ClusterFlags;
  /** Interface → how it is attached. */
  readonly interfaceDomainAttachment: Readonly<Record<string, string>>;
  /** Interface → what its network binding wants done after a migration; sent with FinalizeVirtualMachineMigration only. */
  readonly interfaceMigration: Readonly<Record<string, string>>;
  /** Aliases of devices that are NVIDIA Grace GPUs, sorted; with gate GraceIOVirtualization. */
  readonly graceHostDeviceAliases: readonly string[];
}

/**
 * Calls to one launcher. They reject with an error whose `code` is
 * `DISCONNECTED` (the launcher went away: success for shutdown, kill and delete), `UNRESPONSIVE` (deadline, unavailable)
 * or `REFUSED` (`success=false`; the message is the launcher's), or another code: failure, retried.
 */
export interface LauncherCalls {
  syncVirtualMachine(vmi: VirtualMachineInstance, options: SyncOptions, signal: AbortSignal): Promise<void>;
  shutdownVirtualMachine(vmi: VirtualMachineInstance, signal: AbortSignal): Promise<void>;
  killVirtualMachine(vmi: VirtualMachineInstance, signal: AbortSignal): Promise<void>;
  deleteVirtualMachine(vmi: VirtualMachineInstance, signal: AbortSignal): Promise<void>;
  /** Target of a migration: prepares for an incoming domain. Repeatable. */
  syncMigrationTarget(vmi: VirtualMachineInstance, options: SyncOptions, signal: AbortSignal): Promise<void>;
  /** Source: begins; its progress is reported in the domain's metadata. */
  migrateVirtualMachine(vmi: VirtualMachineInstance, options: MigrationOptions, signal: AbortSignal): Promise<void>;
  cancelVirtualMachineMigration(vmi: VirtualMachineInstance, signal: AbortSignal): Promise<void>;
  /** Target after a success. `interfaceMigration`: interface → method, of network bindings that have one. */
  finalizeVirtualMachineMigration(
    vmi: VirtualMachineInstance,
    interfaceMigration: Readonly<Record<string, string>>,
    signal: AbortSignal,
  ): Promise<void>;
  /** Target after a failure: the launcher exits if it is the one of `migrationState.targetPod`. */
  signalTargetPodCleanup(vmi: VirtualMachineInstance, signal: AbortSignal): Promise<void>;
  syncVirtualMachineCpus(vmi: VirtualMachineInstance, options: SyncOptions, signal: AbortSignal): Promise<void>;
  syncVirtualMachineMemory(vmi: VirtualMachineInstance, options: SyncOptions, signal: AbortSignal): Promise<void>;
  /** Gives the guest the SR-IOV devices of its pod that it lacks. The launcher does so after its answer. */
  hotplugHostDevices(vmi: VirtualMachineInstance, signal: AbortSignal): Promise<void>;
  /** `path`: of a file in the launcher. A repeated order for the same file changes nothing. */
  dumpMemory(vmi: VirtualMachineInstance, path: string, signal: AbortSignal): Promise<void>;
  /** What the guest's agent can do. Slow or hanging guests are usual: never on the way of a pass. */
  getGuestInfo(signal: AbortSignal): Promise<GuestAgentAnswer>;
}

/** Bounded by the code that reads it off the wire: it is the guest's word. */
export interface GuestAgentAnswer {
  /** Empty: the launcher has not heard from the agent yet. */
  readonly version: string;
  /** Enabled commands among those anybody asks for; undefined: the launcher lists none (old ones). */
  readonly commands?: readonly string[];
}

/** What is known of the agents inside the guests. */
export interface GuestAgents {
  /** Never waits: what is not known yet is asked for in the background. `connected` false forgets what was known. */
  view(target: LauncherTarget, connected: boolean): GuestAgentAnswer | undefined;
  /** Something became known. */
  onChange(listener: (key: Key) => void): () => void;
}

export interface LauncherConnections {
  state(target: LauncherTarget): Promise<LauncherState>;
  /** Single flight per UID: socket, ghost record, dial, versions, notify pipe, first GetDomain into the domain cache. */
  connect(target: LauncherTarget, signal: AbortSignal): Promise<LauncherCalls>;
  /** Process that listens on the launcher's socket, for work inside its root. Rejects when it cannot be determined. */
  launcherPid(target: LauncherTarget, signal: AbortSignal): Promise<number>;
  /** Closes the connection and the pipe and deletes the ghost record. Safe when there is none. */
  close(key: Key, uid: string): Promise<void>;
  /** A launcher of this key became ready or died. */
  onChange(listener: (key: Key) => void): () => void;
}

export interface ClusterConfigSource {
  current(): ClusterConfig;
}

/** How far guests that leave this node have come, as text for their annotation. */
export interface MigrationNotes {
  /** Undefined: there is nothing new to publish. */
  noteOf(key: Key, uid: string): string | undefined;
  onChange(listener: (key: Key) => void): () => void;
}

/** Hooks that do work on the node for a VMI. */
export type VmiHostWork = HostWorkPort<HostWorkFacts>;

export interface AgentPorts {
  readonly vmis: VmiStore;
  readonly lookup: VmiLookup;
  readonly writer: VmiWriter;
  readonly backupTrackers: BackupTrackers;
  readonly events: VmiEventRecorder;
  readonly domains: DomainViews;
  readonly ghosts: GhostRecordLookup;
  readonly launchers: LauncherConnections;
  readonly config: ClusterConfigSource;
  readonly host: HostFacts;
  readonly hostWork: VmiHostWork;
  readonly migrationProxies: MigrationProxies;
  /** Absent: no progress is published. */
  readonly migrationNotes?: MigrationNotes;
  readonly clock: Clock;
}
