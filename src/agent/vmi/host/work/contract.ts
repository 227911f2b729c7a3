import type { Domain, Key, VirtualMachineInstance, VmiEvent } from '../../../../api/index.ts';
import type { ClusterConfig } from '../../../../cluster-config/index.ts';
/**
 * The contract between the VMI loop and the hooks that do work on the node for one VMI: devices, disks, network, mounts.
 *
 * Hooks are called in their order, released in reverse. Each has a deadline and a line in "explain" of its own. What a hook saves
 * is on disk before `save` resolves, so it survives the agent: save what the undo needs before the work, never after it.
 * A saved state is what was intended, not what is: the process may have ended between the two, in either direction, and the
 * same UID may come back in another launcher. A hook looks before it believes, and bears to find nothing.
 */

/** What a checkpoint can hold. */
export type Json = null | boolean | number | string | readonly Json[] | { readonly [name: string]: Json };

/** It may have begun its work, or it has done it. */
export type HookStage = 'begun' | 'done';

/** What of a hook was kept for this UID, by an earlier try or an earlier process. */
export interface HookState<State> {
  readonly stage: HookStage | undefined;
  /** Undefined: nothing was saved, or nothing that this build can read. */
  readonly current: State | undefined;
  /** Rejects with HostWorkError: do not begin what could not be undone. */
  save(state: State): Promise<void>;
}

/**
 * A guest that starts in this launcher, one that comes to it from another node, one that runs in it and is about to be given a
 * changed VMI, one that was given it and has let go what it had beyond.
 */
export type HookPurpose = 'start' | 'incoming' | 'running' | 'settling';

export interface HookContext<State = Json, Facts = Json> {
  readonly uid: string;
  /** With filesystem claims as host disks, and with the claims of the destination when it comes from another node. */
  readonly vmi: VirtualMachineInstance;
  readonly launcherPid: number;
  /** The launcher as it was when it was connected; absent before. */
  readonly process?: { readonly pid: number; readonly startTime: string };
  /** As its launcher reported it last; absent before there is one. */
  readonly domain?: Domain;
  readonly purpose: HookPurpose;
  readonly config: ClusterConfig;
  readonly state: HookState<State>;
  /** What this hook gave last; absent: nothing yet, or nothing that this build can read. */
  readonly given?: Facts;
  readonly signal: AbortSignal;
}

export type HookResult<Facts> =
  /** `summary`: what it gave, in a few words for "explain". */
  | {
      readonly kind: 'done';
      readonly facts: Facts;
      readonly events?: readonly VmiEvent[];
      readonly summary?: string;
    }
  /** Not possible yet and no error: it is called again after this time, with the hooks before it. */
  | {
      readonly kind: 'wait';
      readonly afterMs: number;
      readonly because: string;
      readonly events?: readonly VmiEvent[];
    };

/** What hooks see for the status. */
export interface HostSeen {
  /** Hot-plugged volumes mounted in the launcher. Absent: no hook of this build mounts any, or it could not look. */
  readonly mountedVolumes?: readonly string[];
  /** Interface → addresses of its link in the pod, under which others reach the guest; the first one is the main one. */
  readonly podIps?: Readonly<Record<string, readonly string[]>>;
  /** Once they are known. */
  readonly imageChecksums?: ImageChecksums;
}

/** CRC-32 sums of images that side containers bring. */
export interface ImageChecksums {
  readonly volumes: Readonly<Record<string, number>>;
  readonly kernel?: number;
  readonly initrd?: number;
}

/** What facts of a hook change in the calls to the launcher. */
export interface HookSyncOptions {
  readonly preallocatedVolumes?: readonly string[];
  /** Interface → how it is attached; before what the VMI alone says. */
  readonly interfaceDomainAttachment?: Readonly<Record<string, string>>;
}

export interface HostHook<Name extends string = string, Facts extends Json = Json, State extends Json = Json> {
  readonly name: Name;
  /** Of one call; half a minute unless given. */
  readonly deadlineMs?: number;
  /** What another process of the agent kept; undefined for what this build cannot use. */
  readFacts?(kept: unknown): Facts | undefined;
  readState?(kept: unknown): State | undefined;
  /**
   * Before a start, and before a guest comes from another node. Repeated on every try, so idempotent. Throws HostError: most
   * codes are tried again, CRITICAL_NETWORK ends a VMI that has not started.
   */
  prepare(context: HookContext<State>): Promise<HookResult<Facts>>;
  /** Before a sync of a running domain; facts replace those of `prepare`. */
  adjust?(context: HookContext<State>): Promise<HookResult<Facts>>;
  /**
   * After such a sync, when the domain has let go what it does not need any more: takes that away. Facts as those of `adjust`. All
   * hooks are called, even if one fails. What it does not look at goes on as it was `given`.
   */
  settle?(context: HookContext<State, Facts>): Promise<HookResult<Facts>>;
  /** What is there now, for the status. Called in every reconcile of a running domain: cheap. What it throws is no failure. */
  observe?(context: HookView<Facts>): Promise<HostSeen>;
  /** With `observe`: whether there may be anything to see. Without it always. Most VMs have nothing that is looked for. Pure. */
  mayObserve?(view: Pick<HookView<Facts>, 'vmi' | 'facts'>): boolean;
  /** Safe without `prepare`, twice, and without VMI and launcher. A hook without it leaves nothing behind. */
  release?(context: HookRelease<State>): Promise<void>;
  /**
   * UIDs of which it has something on disk that no checkpoint tells of. Nothing but its own `release` is called for those that
   * no VMI, domain or record names any more.
   */
  leftUids?(): Promise<readonly string[]>;
  /**
   * With `release`: whether it may leave what only its checkpoint tells of. Without it always; a start for which no hook does costs
   * no file of its own, unless one saves something. `release` is called in any case.
   */
  leaves?(vmi: VirtualMachineInstance): boolean;
  /** What the facts change in calls to the launcher. Pure. */
  syncOptions?(facts: Facts): HookSyncOptions;
}

export interface HookView<Facts> {
  readonly uid: string;
  readonly vmi: VirtualMachineInstance;
  readonly launcherPid: number;
  readonly facts: Facts | undefined;
  readonly signal: AbortSignal;
}

export interface HookRelease<State> {
  readonly uid: string;
  readonly stage: HookStage | undefined;
  readonly state: State | undefined;
  readonly signal: AbortSignal;
}

type FactsOf<Hook> = Hook extends { prepare(context: never): Promise<HookResult<infer Facts>> } ? Facts : never;

/** Facts by hook. Absent: it was not prepared yet, or by a build whose facts this one cannot read. */
export type HostFactsOf<Hooks extends readonly { readonly name: string }[]> = {
  readonly [Hook in Hooks[number] as FactsOf<Hook> extends null ? never : Hook['name']]?: FactsOf<Hook>;
};

export interface HostRequest {
  readonly key: Key;
  readonly uid: string;
  readonly vmi: VirtualMachineInstance;
  readonly launcherPid: number;
  readonly domain?: Domain;
  /** The launcher's process: while it runs, only the VMI's own clean-up releases anything. */
  readonly process?: { readonly pid: number; readonly startTime: string };
  readonly purpose: HookPurpose;
  readonly config: ClusterConfig;
  readonly signal: AbortSignal;
}

/** What came of one hook, or of the checkpoint. */
export interface HostPart {
  readonly name: string;
  readonly outcome: 'done' | 'waits' | 'failed';
  readonly tookMs: number;
  readonly because?: string;
  readonly gave?: string;
}

/** What hooks are asked to look at. */
export type HostView = Pick<HostRequest, 'uid' | 'vmi' | 'launcherPid' | 'signal'>;

interface HostReport {
  readonly parts: readonly HostPart[];
  readonly events: readonly VmiEvent[];
}

export type HostOutcome = HostReport &
  (
    | { readonly kind: 'done' }
    | { readonly kind: 'wait'; readonly afterMs: number; readonly because: string }
    | { readonly kind: 'failed'; readonly error: unknown }
  );

/** All hooks of this build, as the VMI loop sees them. */
export interface HostWorkPort<Facts> {
  /** Longest time that all hooks together may take. */
  readonly budgetMs: number;
  /** Without hooks the launcher's process need not be looked up. */
  readonly isEmpty: boolean;
  /** For purpose `running` hooks adjust, else they prepare. Never rejects. */
  run(request: HostRequest): Promise<HostOutcome>;
  /** All hooks in reverse order, even if one fails; then the checkpoint goes. Never rejects. */
  release(uid: string, signal: AbortSignal): Promise<HostOutcome>;
  /** Some hook may see something for the status. */
  mayObserve(view: Pick<HostView, 'uid' | 'vmi'>): boolean;
  /** Never rejects; a hook that takes longer than a second sees nothing. */
  observe(view: HostView): Promise<HostSeen>;
  /** From memory: what was given last, also by a process before this one. */
  facts(uid: string): Facts;
  syncOptions(uid: string): readonly HookSyncOptions[];
}
