import type { Key } from '../../api/index.ts';

/** What a stream between two nodes carries; the numbers are those of `status.migrationState` (upstream: pkg/virt-handler/migration-proxy). */
export const proxyRoles = { libvirt: 0, direct: 49_152, block: 49_153 } as const;
export type ProxyRole = (typeof proxyRoles)[keyof typeof proxyRoles];

/** TCP port on the target node → role, as published in `migrationState.targetDirectMigrationNodePorts`. */
export type ProxyPorts = Readonly<Record<string, ProxyRole>>;

export interface TargetProxy {
  readonly key: Key;
  /** VMI UID: part of the socket names in both pods. */
  readonly uid: string;
  /** UID in the names of QEMU's sockets, where that is another VMI's: the guest comes from that one. */
  readonly streamUid?: string;
  readonly migrationUid: string;
  readonly launcherPid: number;
  readonly roles: readonly ProxyRole[];
}

export interface SourceProxy {
  readonly key: Key;
  readonly uid: string;
  readonly migrationUid: string;
  readonly launcherPid: number;
  /** `migrationState.targetNodeAddress`. */
  readonly address: string;
  readonly ports: ProxyPorts;
}

/** What one side of one VMI's streams carries, for people and metrics. */
export interface ProxyFigures {
  readonly key: Key;
  readonly side: 'target' | 'source';
  /** Of this node's listeners, or of the other node's. */
  readonly ports: ProxyPorts;
  /** Open now. */
  readonly streams: number;
  /** Both ways, since the side was opened. */
  readonly bytes: number;
  readonly bytesPerSecond: number;
  /** Connections that showed no certificate that is accepted. */
  readonly refused: number;
  /** How long the streams of memory have carried nothing, once that is longer than `--migration-stall-seconds`; else 0. */
  readonly stalledSeconds: number;
}

/** One side's streams that were ended without an order, before the launcher knew of it. */
export interface EndedStreams {
  readonly side: 'target' | 'source';
  readonly uid: string;
  readonly migrationUid?: string;
  /** For people. */
  readonly reason: string;
}

/**
 * The streams of a live migration between two nodes (upstream: pkg/virt-handler/migration-proxy): on the target node TCP listeners that lead to sockets of the
 * launcher, on the source node sockets in the launcher's pod that lead to them. All of it belongs to one VMI UID.
 */
export interface MigrationProxies {
  /** False: switched off (`--live-migration=false`), so no VMI of this node can migrate (condition LiveMigratable). */
  readonly supported: boolean;
  /** Why no migration can be served now, in words for the user: switched off, HAProxy or certificates are missing, or this agent is leaving. */
  readonly unavailable: string | undefined;
  /** Streams go on when this agent's container has ended: a leaving agent need not wait for them. */
  readonly outliveAgent: boolean;
  /** A post-copy whose streams broke is resumed through new ones for so long, before its guest is given up. */
  readonly resumeMs: number;
  /** `--migration-stall-seconds`, and how old a figure of a proxy may be: what is silent for so long has carried nothing for those seconds. */
  readonly stallMs: number;
  /** Address under which other nodes reach this one's listeners. */
  readonly address: string;
  /** Ports that are open for this VMI as a target; undefined when none are. */
  targetPorts(uid: string): ProxyPorts | undefined;
  /** This VMI has its sockets as a source. */
  hasSource(uid: string): boolean;
  /** The migration that an open side was opened for, by whatever agent; undefined: the side is not open, or it is not known. */
  migrationOf(side: 'target' | 'source', uid: string): string | undefined;
  /** Why a source's streams were ended here before anybody asked for it, in words and for which migration; undefined: they were not. */
  sourceEnded(uid: string): EndedStreams | undefined;
  /** `ProxyFigures.stalledSeconds` of a source; 0 when it is not open. */
  sourceStalledSeconds(uid: string): number;
  /** The same again is no change; other roles or another launcher replace what is there. Rejects: nothing is left open. */
  openTarget(proxy: TargetProxy, signal: AbortSignal): Promise<void>;
  openSource(proxy: SourceProxy, signal: AbortSignal): Promise<void>;
  /** Ends both sides with their streams. Safe when there is nothing. */
  closeTarget(uid: string): Promise<void>;
  closeSource(uid: string): Promise<void>;
  /** VMIs with an open side: what a leaving agent waits for. */
  readonly open: number;
  /** From memory, some seconds old. */
  figures(): readonly ProxyFigures[];
  /** From now on `unavailable`; what is open goes on. */
  refuse(reason: string): void;
  /** Something about this key's migration proxies changed. */
  onChange(listener: (key: Key) => void): () => void;
}

/** JSON of `MigrationRequest.options`, names and all fields as upstream sends them. */
export interface MigrationOptions {
  /** Quantity; `"0"` is no limit. */
  readonly Bandwidth: string;
  /** Seconds. */
  readonly ProgressTimeout: number;
  /** Seconds. */
  readonly CompletionTimeoutPerGiB: number;
  readonly MaxDowntimeMs: number;
  readonly UnsafeMigration: boolean;
  readonly AllowAutoConverge: boolean;
  readonly AllowPostCopy: boolean;
  readonly ParallelMigrationThreads: number | null;
  readonly AllowWorkloadDisruption: boolean;
  readonly StallDetectorOptions: StallDetectorOptions | null;
  readonly Compression: string | null;
}

/** Numbers, as the launcher reads them; in the cluster's objects the fractions are decimal strings. */
export interface StallDetectorOptions {
  /** A part of 1. */
  readonly StallMargin: number;
  /** Seconds. */
  readonly StallProgressTimeout: number;
  /** Seconds. */
  readonly SwitchoverTimeout: number;
  readonly EwmaAlpha: number;
  readonly PrecopyPossibleFactor: number;
  readonly PatienceWindowDecayFactor: number;
  readonly SearchLocalMinima: boolean;
  readonly CompletionTimeoutFactor: number;
}
