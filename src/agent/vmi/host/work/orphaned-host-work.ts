import { type Key, labels, type VirtualMachineInstance } from '../../../../api/index.ts';
import { type Clock, type Component, errorCode, errorMessage, type Logger } from '../../../../base/index.ts';
import type { Checkpoint } from './checkpoint.ts';
import type { HostOutcome } from './contract.ts';

interface Process {
  readonly pid: number;
  readonly startTime: string;
}

export interface OrphanedHostWorkOptions {
  readonly nodeName: string;
  readonly everyMs?: number;
}

export interface OrphanedHostWorkDeps {
  readonly work: {
    /** Without hooks there is nothing to look for. */
    readonly isEmpty: boolean;
    removeLeftovers(): Promise<void>;
    recorded(): Promise<readonly Checkpoint[]>;
    release(uid: string, signal: AbortSignal, unless: () => boolean): Promise<HostOutcome>;
    leftUids(): Promise<readonly string[]>;
    releaseLeft(uid: string, signal: AbortSignal, unless: () => boolean): Promise<HostOutcome>;
  };
  readonly vmis: { keys(): Iterable<Key>; get(key: Key): VirtualMachineInstance | undefined };
  readonly ghosts: { byUid(uid: string): object | undefined };
  readonly domains: {
    keys(): Iterable<Key>;
    otherUids(key: Key, uid: string): readonly string[];
    view(key: Key, uid: string): { readonly kind: string };
  };
  readonly lookup: { find(key: Key, signal: AbortSignal): Promise<VirtualMachineInstance | undefined> };
  readonly isProcessAlive: (process: Process) => boolean;
  readonly clock: Clock;
  readonly log: Logger;
}

const defaultEveryMs = 300_000;
/** What is left is released by later looks. */
const maxLeft = 256;

/**
 * Host work whose VMI is gone and that is not cleaned up by a reconcile any more: its ghost record was torn, say, or the checkpoint could not
 * be removed with the rest. It is released only when all agree: neither this node's list, nor a ghost record, nor the domain
 * cache knows the UID, the launcher's process has ended, and the API server has no such VMI for this node. Looked for at
 * the start and every five minutes.
 *
 * Files by UID that no checkpoint tells of have no name of a VMI to ask the API server for. They go when in two looks, five minutes
 * apart, no VMI of this node, domain or ghost record has their UID: an agent of upstream keeps the same ones for the same VMIs.
 */
export class OrphanedHostWork implements Component {
  readonly name = 'orphaned host work';
  readonly #options: OrphanedHostWorkOptions;
  readonly #deps: OrphanedHostWorkDeps;
  readonly #stopping = new AbortController();
  #looking: Promise<void> = Promise.resolve();
  /** UIDs without anyone who knows them at the last look. */
  #unknown: ReadonlySet<string> = new Set();
  #cancel = () => {};

  constructor(options: OrphanedHostWorkOptions, deps: OrphanedHostWorkDeps) {
    this.#options = options;
    this.#deps = deps;
  }

  /** The VMIs must have been listed. The look goes on in the background. */
  async start(): Promise<void> {
    if (!this.#deps.work.isEmpty) this.#looking = this.#look();
  }

  async stop(): Promise<void> {
    this.#cancel();
    this.#stopping.abort(new Error('the agent leaves'));
    await this.#looking;
  }

  async #look(): Promise<void> {
    try {
      await this.#lookOnce();
    } catch (error) {
      // As of a disk that fails: what is left is found by the next look.
      this.#deps.log.warn({ reason: errorMessage(error) }, 'what VMIs that are no more have left is not known');
    }
    if (this.#stopping.signal.aborted) return;
    this.#cancel = this.#deps.clock.schedule(this.#options.everyMs ?? defaultEveryMs, () => {
      this.#looking = this.#look();
    });
  }

  async #lookOnce(): Promise<void> {
    await this.#deps.work.removeLeftovers();
    for (const checkpoint of await this.#deps.work.recorded()) {
      if (this.#stopping.signal.aborted) return;
      await this.#consider(checkpoint);
    }
    await this.#releaseLeft();
  }

  async #releaseLeft(): Promise<void> {
    const { work } = this.#deps;
    const known = this.#knownUids();
    const recorded = new Set((await work.recorded()).map(({ uid }) => uid));
    const isNeeded = (uid: string) => known.has(uid) || recorded.has(uid) || this.#deps.ghosts.byUid(uid) !== undefined;
    const unknown = new Set((await work.leftUids()).filter((uid) => !isNeeded(uid)));
    const still = [...unknown].filter((uid) => this.#unknown.has(uid)).slice(0, maxLeft);
    this.#unknown = unknown;
    for (const uid of still) await this.#releaseOne(uid);
  }

  async #releaseOne(uid: string): Promise<void> {
    const { work, ghosts, log } = this.#deps;
    const { signal } = this.#stopping;
    if (signal.aborted) return;
    const end = await work.releaseLeft(
      uid,
      signal,
      () => this.#knownUids().has(uid) || ghosts.byUid(uid) !== undefined,
    );
    if (end.kind === 'failed')
      log.warn({ uid, reason: errorMessage(end.error) }, 'files of a VMI that is no more stay');
    else if (end.parts.length > 0) log.warn({ uid }, 'files of a VMI that is no more were removed');
  }

  /** Of VMIs of this node, and of domains. */
  #knownUids(): Set<string> {
    const { vmis, domains } = this.#deps;
    const listed = [...vmis.keys()].flatMap((key) => vmis.get(key)?.metadata.uid ?? []);
    return new Set([...listed, ...[...domains.keys()].flatMap((key) => domains.otherUids(key, ''))]);
  }

  async #consider(checkpoint: Checkpoint): Promise<void> {
    const { work, lookup, log } = this.#deps;
    const { signal } = this.#stopping;
    const { uid, key } = checkpoint;
    try {
      if (this.#isNeeded(checkpoint)) return;
      if (this.#isHere(await lookup.find(key, signal), uid)) return;
      const end = await work.release(uid, signal, () => this.#isNeeded(checkpoint));
      if (end.kind === 'failed') throw end.error;
      log.warn({ vmi: key, uid }, 'host work of a VMI that is no more was released');
    } catch (error) {
      if (signal.aborted) return;
      log.warn({ vmi: key, uid, code: errorCode(error), reason: errorMessage(error) }, 'host work is left as it is');
    }
  }

  /** A part of this agent knows it, or its launcher may still run. */
  #isNeeded({ key, uid, process }: Checkpoint): boolean {
    const { vmis, ghosts, domains, isProcessAlive } = this.#deps;
    if (vmis.get(key)?.metadata.uid === uid || ghosts.byUid(uid)) return true;
    return domains.view(key, uid).kind !== 'absent' || process === undefined || isProcessAlive(process);
  }

  #isHere(vmi: VirtualMachineInstance | undefined, uid: string): boolean {
    if (vmi?.metadata.uid !== uid) return false;
    const given = vmi.metadata.labels;
    const { nodeName } = this.#options;
    return given?.[labels.nodeName] === nodeName || given?.[labels.migrationTargetNodeName] === nodeName;
  }
}
