import { CodedError, errorCode, errorMessage } from '../../../../base/index.ts';
import type { RecordFiles } from '../../../../host/index.ts';
import { type Checkpoint, decodeCheckpoint, maxCheckpointBytes } from './checkpoint.ts';
import { HostWorkError } from './errors.ts';

export type FoundCheckpoint =
  | { readonly kind: 'none' }
  | { readonly kind: 'found'; readonly checkpoint: Checkpoint }
  /** Torn, foreign, too large or newer: set aside, so that the hooks run as if nothing was known. */
  | { readonly kind: 'unusable'; readonly problem: HostWorkError };

const uidPattern = /^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/;
const asideSuffix = '.unusable';
const readTries = 3;

/**
 * The checkpoints of this node, one file per VMI UID. What is on disk counts: of two agents that overlap for a moment neither
 * works from what it remembers.
 */
export class CheckpointFiles {
  readonly #files: RecordFiles;

  constructor(files: RecordFiles) {
    this.#files = files;
  }

  /** UIDs with a checkpoint. Rejects with CHECKPOINT_UNREADABLE. */
  async uids(): Promise<string[]> {
    try {
      const names = await this.#files.list();
      return names.filter((name) => uidPattern.test(name) && !name.endsWith(asideSuffix));
    } catch (cause) {
      throw unreadable('the checkpoints of host work', cause);
    }
  }

  /** Rejects with CHECKPOINT_UNREADABLE: the disk did not give it, and what is in it is not known. */
  async read(uid: string): Promise<FoundCheckpoint> {
    if (!isFileName(uid)) return { kind: 'unusable', problem: nameless(uid) };
    try {
      return { kind: 'found', checkpoint: decodeCheckpoint(await this.#text(uid, readTries), uid) };
    } catch (error) {
      if (errorCode(error) === 'ENOENT') return { kind: 'none' };
      if (!(error instanceof CodedError)) throw unreadable(`the checkpoint of VMI ${uid}`, error);
      await this.#files.rename(uid, `${uid}${asideSuffix}`).catch(() => undefined);
      const isLarge = error.code === 'TOO_LARGE';
      const code =
        error instanceof HostWorkError ? error.code : isLarge ? 'CHECKPOINT_TOO_LARGE' : 'CHECKPOINT_INVALID';
      const text = `the checkpoint of VMI ${uid} cannot be used and was set aside (${error.message}): its hooks begin anew`;
      return { kind: 'unusable', problem: new HostWorkError(code, text, { cause: error }) };
    }
  }

  /** Whole or not at all. Rejects with CHECKPOINT_NOT_SAVED. */
  async write(uid: string, text: string): Promise<void> {
    if (!isFileName(uid)) throw nameless(uid);
    try {
      await this.#files.replace(uid, text);
    } catch (cause) {
      const isFull = ['ENOSPC', 'EDQUOT'].includes(errorCode(cause) ?? '');
      const advice = isFull ? 'free some space in the private directory' : 'check the private directory';
      const problem = `the checkpoint of VMI ${uid} was not saved (${errorMessage(cause)}): ${advice} of this agent`;
      throw new HostWorkError('CHECKPOINT_NOT_SAVED', problem, { cause });
    }
  }

  /** Safe when there is none. Rejects with CHECKPOINT_NOT_REMOVED. */
  async remove(uid: string): Promise<void> {
    if (!isFileName(uid)) return;
    try {
      await this.#files.remove(uid);
      await this.#files.remove(`${uid}${asideSuffix}`);
    } catch (cause) {
      const problem = `the checkpoint of VMI ${uid} was not removed (${errorMessage(cause)}): it is tried again`;
      throw new HostWorkError('CHECKPOINT_NOT_REMOVED', problem, { cause });
    }
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

function unreadable(what: string, cause: unknown): HostWorkError {
  const problem = `${what} cannot be read (${errorMessage(cause)}): check the private directory of this agent`;
  return new HostWorkError('CHECKPOINT_UNREADABLE', problem, { cause });
}
