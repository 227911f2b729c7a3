import { errorMessage } from '../../../../base/index.ts';
import { encodeCheckpoint, type HookRecord } from './checkpoint.ts';
import type { CheckpointFiles, FoundCheckpoint } from './checkpoint-files.ts';
import type { HookStage, HookState, HostRequest, Json } from './contract.ts';
import { HostWorkError } from './errors.ts';

/** The key is not known where only the UID is left. */
type Owner = Pick<HostRequest, 'uid' | 'process'> & Partial<Pick<HostRequest, 'key'>>;

type OnDisk = Extract<FoundCheckpoint, { readonly kind: 'found' }>;

/** One UID's checkpoint while hooks run: what was found, what is added, and what is on disk by now. */
export class WorkSession {
  readonly #files: CheckpointFiles;
  readonly #owner: Owner;
  readonly #found: ReadonlyMap<string, HookRecord>;
  readonly #hooks: Map<string, HookRecord>;
  /** There is a file of it: it was found, or a hook has saved something since. */
  isStored: boolean;
  /** What needs no write. */
  #saved: string;
  /** The text on disk, as this process knows it. */
  #onDisk: string | undefined;
  /** Writes go one after the other: a hook that was given up may still be at one. */
  #writing: Promise<void> = Promise.resolve();

  private constructor(files: CheckpointFiles, owner: Owner, found?: OnDisk) {
    this.#files = files;
    const known = found?.checkpoint;
    const { key, process } = { ...known, ...owner };
    this.#owner = { uid: owner.uid, ...(key !== undefined && { key }), ...(process && { process }) };
    this.#found = known?.hooks ?? new Map();
    this.#hooks = new Map(this.#found);
    this.isStored = known !== undefined;
    this.#saved = known ? encodeCheckpoint(known) : this.#encoded();
    this.#onDisk = found?.text;
  }

  /** `problem`: what was found cannot be used. Rejects with CHECKPOINT_UNREADABLE and CHECKPOINT_NEWER. */
  static async open(files: CheckpointFiles, owner: Owner): Promise<{ session: WorkSession; problem?: HostWorkError }> {
    const found = await files.take(owner.uid);
    if (found.kind === 'found') return { session: new WorkSession(files, owner, found) };
    const session = new WorkSession(files, owner);
    return found.kind === 'unusable' ? { session, problem: found.problem } : { session };
  }

  /** What is on disk, as this process knows it; undefined: nothing. */
  get text(): string | undefined {
    return this.#onDisk;
  }

  get names(): string[] {
    return [...this.#hooks.keys()];
  }

  record(name: string): HookRecord | undefined {
    return this.#hooks.get(name);
  }

  /** How far an earlier try came, or an earlier process. */
  foundStage(name: string): HookStage | undefined {
    return this.#found.get(name)?.stage;
  }

  /** In memory; `flush` brings it to disk. What was done before may be half done again. */
  begin(name: string): void {
    this.#hooks.set(name, { ...this.#hooks.get(name), stage: 'begun' });
  }

  end(name: string, facts: Json): void {
    const before = this.#hooks.get(name);
    this.#hooks.set(name, { ...before, stage: 'done', facts });
  }

  drop(name: string): void {
    this.#hooks.delete(name);
  }

  /** On disk when it resolves. Rejects with HostWorkError; what was saved before then still counts. */
  async save(name: string, state: Json): Promise<void> {
    const before = this.#hooks.get(name);
    this.#hooks.set(name, { stage: 'begun', ...before, state });
    try {
      await this.flush();
    } catch (error) {
      if (before) this.#hooks.set(name, before);
      else this.#hooks.delete(name);
      throw error;
    }
  }

  /** Writes what differs from the disk. Rejects with HostWorkError. */
  flush(): Promise<void> {
    const write = async () => {
      const text = this.#encoded();
      if (text === this.#saved) return;
      await this.#files.write(this.#owner.uid, text, this.#onDisk);
      this.#onDisk = text;
      this.isStored = true;
      this.#saved = text;
    };
    this.#writing = this.#writing.catch(() => undefined).then(write);
    return this.#writing;
  }

  #encoded(): string {
    try {
      return encodeCheckpoint({ key: '', ...this.#owner, hooks: this.#hooks });
    } catch (error) {
      if (error instanceof HostWorkError) throw error;
      // A hook's state with a loop in it, or a BigInt.
      throw new HostWorkError('CHECKPOINT_NOT_SAVED', `a hook keeps what is no JSON: ${errorMessage(error)}`);
    }
  }
}

/** The state of one hook for the time of one call. */
export class GivenState implements HookState<Json> {
  readonly #name: string;
  readonly #session: WorkSession;
  readonly stage: HookStage | undefined;
  readonly current: Json | undefined;
  isOver = false;

  constructor(name: string, session: WorkSession, current: Json | undefined) {
    this.#name = name;
    this.#session = session;
    this.stage = session.foundStage(name);
    this.current = current;
  }

  async save(state: Json): Promise<void> {
    const name = this.#name;
    if (this.isOver) throw new HostWorkError('CHECKPOINT_NOT_SAVED', `${name} was given up: it saves nothing any more`);
    await this.#session.save(name, state);
  }
}
