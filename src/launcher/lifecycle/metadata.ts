import type { KubeVirtMetadata, VirtualMachineInstance } from '../../api/index.ts';
import { isRecord, Listeners, type Logger } from '../../base/index.ts';
import { areRunMarks, marksOf, notRun, type RunMarks, type RunRecord, recordOf } from './run-record.ts';
import { StateFile } from './state-file.ts';

/** What this launcher remembers about its VMI; upstream keeps it in memory only. */
export interface StoredState {
  /** Goes into `Spec.Metadata.KubeVirt` of every Domain that leaves the launcher. */
  readonly metadata: KubeVirtMetadata;
  readonly run: RunRecord;
}

/** The state file. Its form is kept: a launcher of another version may read it. */
interface StateDocument extends RunMarks {
  readonly version: 1;
  readonly metadata: KubeVirtMetadata;
}

/** Upstream's default of the field. */
const defaultGraceSeconds = 30;

const noMetadata: KubeVirtMetadata = {
  UID: '',
  GracePeriod: null,
  Migration: null,
  Backup: null,
  AccessCredential: null,
  MemoryDump: null,
};

/**
 * Holds the state, keeps it on disk, and says when metadata that the agent must see has changed (`pkg/virt-launcher/metadata`).
 */
export class MetadataCache {
  readonly #file: StateFile<StateDocument>;
  readonly #listeners = new Listeners();
  #state: StoredState;

  constructor(options: { readonly file: string }, deps: { readonly log: Logger }) {
    this.#file = new StateFile(options, deps);
    const kept = this.#file.read(isStateDocument);
    this.#state = kept ? { metadata: kept.metadata, run: recordOf(kept) } : { metadata: noMetadata, run: notRun };
  }

  get metadata(): KubeVirtMetadata {
    return this.#state.metadata;
  }

  get state(): StoredState {
    return this.#state;
  }

  /** The guest's memory is being written into a file. */
  get isDumping(): boolean {
    const { MemoryDump } = this.metadata;
    return MemoryDump?.StartTimestamp != null && MemoryDump.EndTimestamp == null;
  }

  /** Changes metadata; listeners are called when something other than the UID differs. */
  updateMetadata(change: Partial<KubeVirtMetadata>): void {
    const before = this.#state.metadata;
    const metadata = { ...before, ...change };
    if (JSON.stringify(metadata) === JSON.stringify(before)) return;
    this.#save({ ...this.#state, metadata });
    if (JSON.stringify({ ...metadata, UID: '' }) === JSON.stringify({ ...before, UID: '' })) return;
    this.#listeners.notify();
  }

  updateGracePeriod(change: Partial<NonNullable<KubeVirtMetadata['GracePeriod']>>): void {
    const before = this.#state.metadata.GracePeriod;
    const GracePeriod = {
      DeletionGracePeriodSeconds: 0,
      DeletionTimestamp: null,
      MarkedForGracefulShutdown: null,
      ...before,
      ...change,
    };
    this.updateMetadata({ GracePeriod });
  }

  /** Whose domain it is, and how long its end may take. */
  recordVmi({ metadata, spec }: VirtualMachineInstance): void {
    this.updateMetadata({ UID: metadata.uid ?? '' });
    const seconds: unknown = spec.terminationGracePeriodSeconds;
    // A sync of a domain that runs is not refused for it, and a stock agent cannot read anything but a whole number.
    const isUsable = typeof seconds === 'number' && Number.isSafeInteger(seconds);
    this.updateGracePeriod({ DeletionGracePeriodSeconds: isUsable ? seconds : defaultGraceSeconds });
  }

  /** The launcher's own record; the agent does not see it. */
  record(transition: (run: RunRecord) => RunRecord): void {
    const run = transition(this.#state.run);
    if (JSON.stringify(run) !== JSON.stringify(this.#state.run)) this.#save({ ...this.#state, run });
  }

  onChange(listener: () => void): () => void {
    return this.#listeners.add(listener);
  }

  #save(state: StoredState): void {
    this.#state = state;
    this.#file.write({ version: 1, metadata: state.metadata, ...marksOf(state.run) });
  }
}

function isStateDocument(value: unknown): value is StateDocument {
  if (!isRecord(value)) return false;
  return value.version === 1 && isRecord(value.metadata) && 'UID' in value.metadata && areRunMarks(value);
}
