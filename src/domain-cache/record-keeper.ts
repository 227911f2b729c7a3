import { type GhostRecord, type Key, type LauncherAddress, makeKey, parseKey } from '../api/index.ts';
import type { Logger } from '../base/index.ts';
import { DomainCacheError } from './errors.ts';
import type { GhostRecords } from './ghost-records.ts';

export interface RecordKeeperDeps {
  /** A record that could not be saved; undefined when it is over. */
  readonly onProblem: (key: Key, uid: string, problem: DomainCacheError | undefined) => void;
  readonly logger: Logger;
}

/** Writes ghost records so that a full disk is a problem to show, and no reason to lose a VM. */
export class RecordKeeper {
  readonly #records: GhostRecords;
  readonly #deps: RecordKeeperDeps;
  readonly #problems = new Map<string, DomainCacheError>();

  constructor(records: GhostRecords, deps: RecordKeeperDeps) {
    this.#records = records;
    this.#deps = deps;
  }

  problemOf(uid: string): DomainCacheError | undefined {
    return this.#problems.get(uid);
  }

  byUid(uid: string): GhostRecord | undefined {
    return this.#records.byUid(uid);
  }

  /** Remembers a launcher before it is dialled; what is known of its process already stays. Rejects with RECORD_INVALID only. */
  addBeforeDial(address: LauncherAddress): Promise<void> {
    const known = this.#records.byUid(address.uid);
    return this.add(known?.socketFile === address.socketFile ? known : recordOf(address));
  }

  /** Rejects with RECORD_INVALID only. */
  add(record: GhostRecord): Promise<void> {
    return this.#saving(makeKey(record.namespace, record.name), record.uid, this.#records.add(record));
  }

  /** Never rejects. */
  async remove(key: Key, uid: string): Promise<void> {
    await this.#saving(key, uid, this.#records.remove(uid));
    this.#set(key, uid, undefined);
  }

  /** One more try for what could not be written or removed. Never rejects. */
  async saveUnsaved(): Promise<void> {
    for (const uid of this.#records.unsaved()) {
      const record = this.#records.byUid(uid);
      if (record) await this.add(record);
      else await this.#records.remove(uid).catch(() => undefined);
    }
  }

  async #saving(key: Key, uid: string, saved: Promise<void>): Promise<void> {
    try {
      await saved;
      this.#set(key, uid, undefined);
    } catch (error) {
      if (!(error instanceof DomainCacheError) || error.code === 'RECORD_INVALID') throw error;
      this.#set(key, uid, error);
    }
  }

  #set(key: Key, uid: string, problem: DomainCacheError | undefined): void {
    if (this.#problems.get(uid)?.message === problem?.message) return;
    if (problem) {
      this.#problems.set(uid, problem);
      this.#deps.logger.error({ vmi: key, uid, code: problem.code, reason: problem.message }, 'ghost record not saved');
    } else this.#problems.delete(uid);
    this.#deps.onProblem(key, uid, problem);
  }
}

export function recordOf({ key, uid, socketFile, process }: LauncherAddress): GhostRecord {
  const { namespace = '', name = '' } = parseKey(key) ?? {};
  // A process may carry more, such as the user it runs as.
  return { namespace, name, socketFile, uid, ...(process && { pid: process.pid, startTime: process.startTime }) };
}

export function rememberedAddress({ namespace, name, uid, socketFile, pid, startTime }: GhostRecord): LauncherAddress {
  const process = pid !== undefined && startTime !== undefined ? { process: { pid, startTime } } : {};
  return { key: makeKey(namespace, name), uid, socketFile, ...process };
}
