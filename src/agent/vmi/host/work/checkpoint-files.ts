import { type Clock, CodedError, errorCode, errorMessage } from '../../../../base/index.ts';
import type { SharedRecordFiles } from '../../../../host/index.ts';
import { type Checkpoint, decodeCheckpoint, maxCheckpointBytes } from './checkpoint.ts';
import { HostWorkError } from './errors.ts';

export type FoundCheckpoint =
  | { readonly kind: 'none' }
  /** `text`: for the write that follows it. */
  | { readonly kind: 'found'; readonly checkpoint: Checkpoint; readonly text: string }
  /** Written by a newer agent, which may run beside this one: it stays as it is. */
  | { readonly kind: 'newer'; readonly problem: HostWorkError }
  /** Torn, foreign or too large: set aside, so that the hooks run as if nothing was known. */
  | { readonly kind: 'unusable'; readonly problem: HostWorkError };

type Unusable = Extract<FoundCheckpoint, { readonly kind: 'unusable' }>;

const uidPattern = /^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/;
const asideSuffix = '.unusable';
const readTries = 3;
/** They are for people. Those of VMIs that come back to this node go with their release, others stay. */
const maxAside = 32;
/** Of two agents that overlap in an update the older one has left long before. Else it is the only one: a downgrade. */
const newerPatienceMs = 600_000;

/**
 * The checkpoints of this node, one file per VMI UID. What is on disk counts: of two agents that overlap for a moment neither
 * works from what it remembers.
 */
export class CheckpointFiles {
  readonly #files: SharedRecordFiles;
  readonly #clock: Clock;
  /** UID → since when this process has met a newer checkpoint of it. */
  readonly #newerSinceMs = new Map<string, number>();

  constructor(files: SharedRecordFiles, clock: Clock) {
    this.#files = files;
    this.#clock = clock;
  }

  /** UIDs with a checkpoint. Rejects with CHECKPOINT_UNREADABLE. */
  async uids(): Promise<string[]> {
    try {
      const names = await this.#files.list();
      const uids = names.filter((name) => uidPattern.test(name) && !name.endsWith(asideSuffix));
      for (const uid of this.#newerSinceMs.keys()) if (!uids.includes(uid)) this.#newerSinceMs.delete(uid);
      return uids;
    } catch (cause) {
      throw unreadable('the checkpoints of host work', cause);
    }
  }

  /** To look at it. Rejects with CHECKPOINT_UNREADABLE: the disk did not give it, and what is in it is not known. */
  async read(uid: string): Promise<FoundCheckpoint> {
    if (!isFileName(uid)) return { kind: 'unusable', problem: nameless(uid) };
    try {
      const text = await this.#text(uid, readTries);
      const checkpoint = decodeCheckpoint(text, uid);
      this.#newerSinceMs.delete(uid);
      return { kind: 'found', checkpoint, text };
    } catch (error) {
      if (errorCode(error) === 'ENOENT') return { kind: 'none' };
      if (!(error instanceof CodedError)) throw unreadable(`the checkpoint of VMI ${uid}`, error);
      return error.code === 'CHECKPOINT_NEWER' ? this.#newer(uid, error) : this.#setAside(uid, error);
    }
  }

  /**
   * To work with it: a newer one is waited for, and after ten minutes set aside. Rejects with CHECKPOINT_UNREADABLE and
   * CHECKPOINT_NEWER.
   */
  async take(uid: string): Promise<Exclude<FoundCheckpoint, { readonly kind: 'newer' }>> {
    const found = await this.read(uid);
    if (found.kind !== 'newer') return found;
    const sinceMs = this.#newerSinceMs.get(uid) ?? this.#clock.monotonicMs();
    if (this.#clock.monotonicMs() - sinceMs < newerPatienceMs) throw found.problem;
    return this.#setAside(uid, found.problem);
  }

  #newer(uid: string, { message }: Error): FoundCheckpoint {
    if (!this.#newerSinceMs.has(uid)) this.#newerSinceMs.set(uid, this.#clock.monotonicMs());
    const problem = `the checkpoint of VMI ${uid} is of a newer agent (${message}): it is left as it is, for that agent`;
    return { kind: 'newer', problem: new HostWorkError('CHECKPOINT_NEWER', problem) };
  }

  async #setAside(uid: string, cause: CodedError<string>): Promise<Unusable> {
    this.#newerSinceMs.delete(uid);
    const { became, isGone } = await this.#moveAside(uid);
    const isLarge = cause.code === 'TOO_LARGE';
    const code = cause instanceof HostWorkError ? cause.code : isLarge ? 'CHECKPOINT_TOO_LARGE' : 'CHECKPOINT_INVALID';
    const problem = `the checkpoint of VMI ${uid} cannot be used and ${became} (${cause.message})`;
    const text = isGone ? `${problem}: its hooks begin anew` : `${problem}: none can be saved in its place`;
    return { kind: 'unusable', problem: new HostWorkError(code, text, { cause }) };
  }

  async #moveAside(uid: string): Promise<{ readonly became: string; readonly isGone: boolean }> {
    const aside = `${uid}${asideSuffix}`;
    try {
      const others = (await this.#files.list()).filter((name) => name.endsWith(asideSuffix) && name !== aside);
      await this.#files.remove(others.length < maxAside ? aside : uid);
      if (others.length >= maxAside) {
        return { became: `was removed, since ${others.length} others are kept already`, isGone: true };
      }
      await this.#files.rename(uid, aside);
      return { became: 'was set aside', isGone: true };
    } catch (error) {
      // Another process of the agent was faster.
      if (errorCode(error) === 'ENOENT') return { became: 'was set aside', isGone: true };
      const advice = `see that the private directory of this agent can be written, and remove ${uid} from its checkpoints`;
      return { became: `could not be set aside: ${errorMessage(error)}: ${advice}`, isGone: false };
    }
  }

  /**
   * Whole or not at all, in place of `before`; undefined: there was none. Rejects with CHECKPOINT_NOT_SAVED, and with
   * CHECKPOINT_CHANGED when something else is there: what an agent that overlaps with this one keeps there would be lost.
   */
  async write(uid: string, text: string, before: string | undefined): Promise<void> {
    if (!isFileName(uid)) throw nameless(uid);
    try {
      await this.#exchange(uid, before, text);
    } catch (cause) {
      if (cause instanceof HostWorkError) throw cause;
      const isFull = ['ENOSPC', 'EDQUOT'].includes(errorCode(cause) ?? '');
      const advice = isFull ? 'free some space in the private directory' : 'check the private directory';
      const problem = `the checkpoint of VMI ${uid} was not saved (${errorMessage(cause)}): ${advice} of this agent`;
      throw new HostWorkError('CHECKPOINT_NOT_SAVED', problem, { cause });
    }
  }

  /**
   * Safe when there is none. `before`: all that was released. Rejects with CHECKPOINT_NOT_REMOVED, and with CHECKPOINT_CHANGED when something
   * else is there: an agent that overlaps with this one has made more, and nothing else tells of it.
   */
  async remove(uid: string, before: string | undefined): Promise<void> {
    if (!isFileName(uid)) return;
    this.#newerSinceMs.delete(uid);
    try {
      await this.#exchange(uid, before, undefined);
      await this.#files.remove(`${uid}${asideSuffix}`);
    } catch (cause) {
      if (cause instanceof HostWorkError) throw cause;
      const problem = `the checkpoint of VMI ${uid} was not removed (${errorMessage(cause)}): it is tried again`;
      throw new HostWorkError('CHECKPOINT_NOT_REMOVED', problem, { cause });
    }
  }

  /** Rejects with CHECKPOINT_CHANGED, and with what is wrong with a checkpoint that can neither be used nor be moved away. */
  async #exchange(uid: string, before: string | undefined, after: string | undefined): Promise<void> {
    const isDone = (given: string | undefined) =>
      this.#files.exchange(uid, { before: given, after, maxBytes: maxCheckpointBytes });
    if (await isDone(before)) return;
    // What cannot be used is no agent's work; it may not have been possible to set it aside before.
    const found = await this.read(uid);
    if (found.kind !== 'unusable') throw changed(uid);
    if (!(await isDone(undefined))) throw found.problem;
  }

  /** A disk that fails once may do the next time. */
  async #text(uid: string, tries: number): Promise<string> {
    try {
      return await this.#files.read(uid, maxCheckpointBytes);
    } catch (error) {
      if (tries <= 1 || error instanceof CodedError || errorCode(error) === 'ENOENT') throw error;
      return this.#text(uid, tries - 1);
    }
  }
}

/** UIDs come from the API server; one that could name another file has none. */
function isFileName(uid: string): boolean {
  return uidPattern.test(uid) && !uid.endsWith(asideSuffix);
}

function nameless(uid: string): HostWorkError {
  return new HostWorkError('CHECKPOINT_INVALID', `${JSON.stringify(uid.slice(0, 64))} is no UID that a file can have`);
}

function changed(uid: string): HostWorkError {
  const problem = `the checkpoint of VMI ${uid} was changed meanwhile, as by another agent of this node: it is read again`;
  return new HostWorkError('CHECKPOINT_CHANGED', problem);
}

function unreadable(what: string, cause: unknown): HostWorkError {
  const problem = `${what} cannot be read (${errorMessage(cause)}): check the private directory of this agent`;
  return new HostWorkError('CHECKPOINT_UNREADABLE', problem, { cause });
}
