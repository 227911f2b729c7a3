/**
 * What virt-handler says about itself as JSON on its own Unix socket: read by `virt-node why`, by operators and by benchmarks.
 * Fields are added within a version; a reader refuses another version.
 */
export const explainApiVersion = 'why.virt-handler/v1';

/** File name of the socket in `--kubevirt-private-dir`. */
export const explainSocketName = 'virt-handler.sock';

interface ExplainDocument<Kind extends string> {
  readonly apiVersion: typeof explainApiVersion;
  readonly kind: Kind;
}

export interface ExplainMoved {
  readonly node: string;
  readonly at: string;
  readonly migration?: string;
}

/** What one reconcile saw. Ages are those of the latest one that came to the same decision. */
export interface ExplainSeen {
  readonly vmi: {
    readonly kind: string;
    readonly phase?: string;
    readonly deletionTimestamp?: string;
    readonly resourceVersion?: string;
    /** Fields of a wrong type. */
    readonly unusable?: readonly string[];
    readonly because?: string;
    /** `moved`: the node that it went to, when (RFC 3339), and the UID of its migration. */
    readonly moved?: ExplainMoved;
  };
  readonly domain: {
    readonly kind: string;
    readonly status?: string;
    readonly reason?: string;
    /** `gone`: what proves it. */
    readonly proof?: string;
    readonly because?: string;
    /** Since it was read from the launcher. */
    readonly ageMs?: number;
  };
  readonly launcher: { readonly kind: string; readonly connected?: boolean; readonly because?: string };
  /** UID of the ghost record of this name. */
  readonly ghost?: string;
  /** An earlier VMI of the same name. */
  readonly predecessor?: { readonly uid: string; readonly domain: string; readonly launcher: string };
  readonly relays?: { readonly target: boolean; readonly source: boolean };
  readonly recordProblem?: string;
  /** Commands that this VMI needs and the agent inside its guest does not know. */
  readonly guestAgentLacks?: readonly string[];
  /** What hooks of host work gave, by hook, as JSON. */
  readonly hostWork?: Readonly<Record<string, string>>;
  /** What the agent remembers of this VMI; points in time are given as milliseconds ago. */
  readonly memory: Readonly<Record<string, unknown>>;
}

export interface ExplainStep {
  readonly step: string;
  readonly outcome: 'done' | 'waits' | 'failed' | 'not-reached';
  readonly tookMs?: number;
  readonly because?: string;
  /** What came of it, in a few words. */
  readonly gave?: string;
  /** What the step was made of, each with its own outcome: the hooks of host work. */
  readonly parts?: readonly ExplainStep[];
}

/** The steps with their parts after them, named `prepareHost:device-ownership`. */
export function stepsAndParts(steps: readonly ExplainStep[]): ExplainStep[] {
  return steps.flatMap(({ parts = [], ...step }) => [
    step,
    ...parts.map((part) => ({ ...part, step: `${step.step}:${part.step}` })),
  ]);
}

export interface ExplainNext {
  /** Absent: not before something happens to the VMI. */
  readonly afterMs?: number;
  readonly because: string;
}

/** One decision; the same decision several times in a row is one with `times`. */
export interface ExplainDecision {
  readonly firstAt: string;
  readonly lastAt: string;
  readonly times: number;
  readonly uid: string;
  readonly route: string;
  readonly rule: string;
  /** One sentence for people. */
  readonly why: string;
  readonly seen: ExplainSeen;
  readonly steps: readonly ExplainStep[];
  /** Phase the rule wants written. */
  readonly newPhase?: string;
  /** Parts of the VMI that the rule changes. */
  readonly patch?: readonly string[];
  readonly events?: readonly string[];
  /** What became of writing the status. */
  readonly write: { readonly outcome: string; readonly because?: string };
  readonly problem?: string;
  /** Present: all is as the VMI asks for. */
  readonly healthy?: true;
  readonly next?: ExplainNext;
}

export interface ExplainQuarantine {
  readonly since: string;
  readonly failures: number;
  /** The step that fails, `write` or `pass`. */
  readonly where: string;
  readonly problem: string;
}

/** When the next reconcile comes. */
export interface ExplainTry {
  readonly state: 'running' | 'queued' | 'waiting' | 'idle';
  readonly inMs?: number;
  /** `running`: since it began. */
  readonly forMs?: number;
  readonly because: string;
  /** Of the same kind, those of a crash loop included. */
  readonly failuresInARow: number;
}

/** A guest on its way, as one of its nodes knows it. */
export interface ExplainMigration {
  readonly direction: 'out' | 'in';
  /** The other node. */
  readonly peer: string;
  /** UID */
  readonly migration: string;
  /** PreCopy, Paused or PostCopy. */
  readonly mode: string;
  /** TCP port on the target node → role: 0 libvirt, 49152 memory, 49153 disks. */
  readonly ports: Readonly<Record<string, number>>;
  readonly streams: number;
  /** What the streams through this node have carried, both ways. */
  readonly bytes: number;
  readonly bytesPerSecond: number;
  /** This and the next three of the source's launcher: what of the guest is sent, and is still to be sent. */
  readonly processedBytes?: number;
  readonly remainingBytes?: number;
  readonly totalBytes?: number;
  readonly leftSeconds?: number;
}

/** `GET /why/<namespace>/<name>` */
export interface ExplainReport extends ExplainDocument<'Why'> {
  readonly node: string;
  readonly at: string;
  readonly namespace: string;
  readonly name: string;
  /** Present when the VMI is no more on this node. */
  readonly goneAt?: string;
  /** What is wrong now, also while something else is awaited. */
  readonly problem?: string;
  readonly nextTry: ExplainTry;
  readonly quarantine?: ExplainQuarantine;
  /** Present while streams of a migration of it are open on this node. */
  readonly migration?: ExplainMigration;
  /** Oldest first. */
  readonly decisions: readonly ExplainDecision[];
}

export interface ExplainItem {
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
  readonly goneAt?: string;
  /** Present when the VMI is no more on this node because it is on another one. */
  readonly moved?: ExplainMoved;
  readonly phase: string;
  readonly domain: string;
  readonly rule: string;
  readonly why: string;
  readonly since: string;
  readonly problem?: string;
  readonly nextTry: ExplainTry;
  readonly quarantined: boolean;
}

/** `GET /why` */
export interface ExplainList extends ExplainDocument<'WhyList'> {
  readonly node: string;
  readonly at: string;
  readonly items: readonly ExplainItem[];
}

export interface ExplainLabel {
  readonly key: string;
  /** On the node; absent: it is not there. */
  readonly value?: string;
  /** It is there as it should be, or rightly not there; `pending`: the next write changes it; `kept`: no better value is known. */
  readonly state: 'right' | 'pending' | 'kept';
  /** One sentence without its end. */
  readonly because: string;
}

/** `GET /labels`: labels of the node that are this agent's. */
export interface ExplainLabels extends ExplainDocument<'WhyLabels'> {
  readonly node: string;
  readonly at: string;
  /** `skipped`: an annotation of the node forbids every change. */
  readonly state: 'present' | 'absent' | 'skipped';
  /** Why they could not be written the last time. */
  readonly problem?: string;
  readonly here: readonly ExplainLabel[];
  /** That could be there. */
  readonly notHere: readonly ExplainLabel[];
}

/** The console and lifecycle server, and the streams through it. */
export interface ExplainConsoles {
  /** `address:port`. Absent: it does not listen, see `problem`. */
  readonly listens?: string;
  readonly problem?: string;
  /** Why the files of the server's certificate cannot be used now; `tls` says what serves all the same. */
  readonly keyPairProblem?: string;
  readonly tls:
    | { readonly kind: 'waiting'; readonly missing: readonly string[] }
    | { readonly kind: 'unusable'; readonly reason: string }
    | {
        readonly kind: 'ready';
        readonly commonName: string;
        readonly expiresAt: string;
        readonly authorities: number;
        readonly minVersion: string;
      };
  readonly connections: number;
  /** Handshakes that came to nothing since the start. */
  readonly refused: number;
  readonly calls: number;
  readonly usbChannels: number;
  readonly freezing: number;
  /** Open streams, and the first hundred of them. */
  readonly openSessions: number;
  readonly sessions: readonly {
    readonly vmi: string;
    readonly kind: string;
    readonly role: string;
    readonly protocol: string;
    readonly ageMs: number;
    readonly sentBytes: number;
    readonly receivedBytes: number;
    readonly bufferedBytes: number;
  }[];
}

/** What one side of one VMI's migration carries. */
export interface ExplainRelay {
  readonly vmi: string;
  readonly side: 'target' | 'source';
  /** TCP port on the target node → role: 0 libvirt, 49152 memory, 49153 disks. */
  readonly ports: Readonly<Record<string, number>>;
  readonly streams: number;
  readonly bytes: number;
  readonly bytesPerSecond: number;
  readonly refused: number;
}

/** `GET /state` */
export interface AgentState extends ExplainDocument<'AgentState'> {
  readonly node: string;
  readonly at: string;
  readonly pid: number;
  readonly upSeconds: number;
  readonly phase: 'starting' | 'serving' | 'leaving';
  readonly heartbeat: {
    readonly lastSuccessSecondsAgo?: number;
    /** As last written to the node; absent: not yet. */
    readonly schedulable?: boolean;
    /** Beats in a row that the API server did not take. */
    readonly failures: number;
    /** What keeps VMIs away, or soon would. */
    readonly problems: readonly {
      readonly source: string;
      readonly reason: string;
      readonly message: string;
      readonly forSeconds: number;
    }[];
  };
  /** Where the configuration in use is from. `kept`: of `asOf`, as no newer object can be read and used. Absent: an older agent. */
  readonly configuration?: {
    readonly from: 'defaults' | 'object' | 'kept';
    readonly asOf?: string;
    readonly resourceVersion?: string;
  };
  /** Why the newest KubeVirt object does not count. */
  readonly configurationProblem?: string;
  readonly informers: readonly {
    readonly name: string;
    readonly synced: boolean;
    readonly connected: boolean;
    readonly objects: number;
    readonly lastSuccessSecondsAgo?: number;
    readonly failures: number;
    readonly lastError?: string;
  }[];
  readonly queue: { readonly running: number; readonly queued: number; readonly waiting: number };
  /** Reconciles that have taken more than a second, mostly because a launcher does not answer. */
  readonly slow: readonly { readonly vmi: string; readonly forSeconds: number }[];
  readonly backingOff: readonly { readonly vmi: string; readonly failures: number; readonly nextInMs?: number }[];
  readonly quarantined: readonly ({ readonly vmi: string } & ExplainQuarantine)[];
  /** Domains about which no launcher gives an answer. */
  readonly unknownDomains: readonly { readonly vmi: string; readonly because: string; readonly forSeconds: number }[];
  readonly relays: {
    readonly open: number;
    readonly unavailable?: string;
    /** Streams of live migrations, by VMI and side. */
    readonly sides?: readonly ExplainRelay[];
  };
  readonly consoles: ExplainConsoles;
  readonly decisions: {
    readonly vmis: number;
    readonly gone: number;
    readonly records: number;
    readonly bytes: number;
  };
  readonly remembered: number;
  /** Beyond the time a timer may be late anyway; since the process started. */
  readonly eventLoopDelayMs: {
    readonly p50: number;
    readonly p95: number;
    readonly p99: number;
    readonly max: number;
    readonly mean: number;
  };
  /** Part of the time since the process started in which the event loop was busy. */
  readonly eventLoopUtilization: number;
  readonly memory: {
    readonly rssBytes: number;
    readonly heapUsedBytes: number;
    readonly heapTotalBytes: number;
    readonly externalBytes: number;
  };
  readonly cpuSeconds: { readonly user: number; readonly system: number };
  /** Open things of the process, by Node.js' names; timers and sockets among them. */
  readonly resources: Readonly<Record<string, number>>;
  readonly openFiles: number;
}

export interface ExplainError extends ExplainDocument<'Error'> {
  readonly code: 'BAD_REQUEST' | 'NOT_FOUND' | 'METHOD_NOT_ALLOWED' | 'INTERNAL';
  readonly message: string;
}

/** What a controller saw of an object when it decided: short facts by name, for people. */
export type ExplainFacts = Readonly<Record<string, string>>;

/** Kinds of objects that virt-controller explains, as the command line and the addresses name them. */
export const controllerKinds = [
  ...(['vm', 'vmi', 'vmim', 'vmirs', 'vmpool', 'vmsnapshot', 'vmsnapshotcontent', 'vmrestore', 'vmclone'] as const),
  ...(['vmexport', 'vmbackup', 'vmbackuptracker', 'node', 'evacuation'] as const),
] as const;
export type ControllerKind = (typeof controllerKinds)[number];

/** Without a namespace: the heartbeats of a node's agent, and what is to leave a node. */
export const controllerNodeKinds: readonly ControllerKind[] = ['node', 'evacuation'];

export const controllerExplainApiVersion = 'explain.virt-controller/v1';

interface ControllerDocument<Kind extends string> {
  readonly apiVersion: typeof controllerExplainApiVersion;
  readonly kind: Kind;
}

/** One decision of virt-controller; the same decision several times in a row is one with `times`. */
export interface ControllerDecision extends Omit<ExplainDecision, 'seen'> {
  readonly seen: ExplainFacts;
}

/**
 * `GET /explain/vm/<namespace>/<name>` and the same for the other kinds, `GET /explain/node/<name>` for those without a namespace, on
 * virt-controller's socket (`--explain-socket`).
 */
export interface ControllerReport extends ControllerDocument<'Explanation'> {
  readonly at: string;
  readonly resource: ControllerKind;
  /** Empty: its kind has none. */
  readonly namespace: string;
  readonly name: string;
  readonly goneAt?: string;
  readonly problem?: string;
  readonly nextTry: ExplainTry;
  readonly crashLoopBackoff?: ExplainQuarantine;
  /** Oldest first. */
  readonly decisions: readonly ControllerDecision[];
}

export interface ControllerItem {
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
  readonly goneAt?: string;
  readonly rule: string;
  readonly why: string;
  readonly since: string;
  readonly problem?: string;
  readonly nextTry: ExplainTry;
}

/** `GET /explain/vm`, and so on for each kind. */
export interface ControllerList extends ControllerDocument<'ExplanationList'> {
  readonly at: string;
  readonly resource: ControllerKind;
  readonly items: readonly ControllerItem[];
}

export interface ControllerExplainError extends ControllerDocument<'Error'> {
  readonly code: ExplainError['code'];
  readonly message: string;
}

export interface WaitingStory {
  /** Name of the rule that matched. */
  readonly rule: string;
  /** What it waits for, or why it waits for nothing; a sentence. */
  readonly waitsFor: string;
  /** What a person does about it. */
  readonly todo: readonly string[];
}

/** What is known of a VM of the standalone node that no agent knows: answer of `virt-node explain NAME`, and of the page's `/api/waiting/…`. */
export interface WaitingReport extends WaitingStory {
  readonly kind: 'Waiting';
  readonly at: string;
  readonly namespace: string;
  readonly name: string;
  /** As they are in the API; absent: there is none. */
  readonly vmStatus?: string;
  readonly vmiPhase?: string;
  readonly pod?: { readonly name: string; readonly phase: string };
  /** What virt-controller decided last. */
  readonly decided?: readonly WaitingDecision[];
  /** Warnings, the newest last. */
  readonly warnings: readonly { readonly at: string; readonly reason: string; readonly message: string }[];
}

export interface WaitingDecision {
  readonly about: string;
  readonly rule: string;
  readonly why: string;
  readonly next: string;
  readonly problem?: string;
}

/** How a VM of the standalone node came to run: answer of `virt-node explain NAME --timeline`, and of the page's `/api/timeline/…`. */
export interface TimelineReport {
  readonly kind: 'Timeline';
  readonly at: string;
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
  readonly node?: string;
  /** As the API has it: to the second. */
  readonly created: string;
  /** The guest has asked for a login: no row is added. */
  readonly whole?: true;
  /** In the order in which they began, phases last. */
  readonly rows: readonly TimelineRow[];
}

/** RFC 3339, to the millisecond where the source has them. */
export interface TimelineRow {
  readonly part: 'controller' | 'scheduler' | 'pod' | 'launcher' | 'agent' | 'libvirt' | 'QEMU' | 'guest' | 'phase';
  readonly what: string;
  /** Absent: of that only its end is known. */
  readonly from?: string;
  readonly to: string;
}
