import type { KubeVirtMetadata } from '../../api/index.ts';
import type { Logger } from '../../base/index.ts';
import { StateFile } from './state-file.ts';

/** What this launcher remembers about its VMI; upstream keeps it in memory only. */
export interface LauncherState {
  readonly version: 1;
  /** Goes into `Spec.Metadata.KubeVirt` of every Domain that leaves the launcher. */
  readonly metadata: KubeVirtMetadata;
  /** Paused on purpose: a sync does not resume it. */
  readonly userPaused: boolean;
  /** QEMU has run for this VMI: a domain that is down now has ended and is not started again. */
  readonly hasRun: boolean;
  readonly panicHandled: boolean;
}

const emptyState: LauncherState = {
  version: 1,
  metadata: { UID: '', GracePeriod: null, Migration: null, Backup: null, AccessCredential: null, MemoryDump: null },
  userPaused: false,
  hasRun: false,
  panicHandled: false,
};

/** Holds the state, keeps it on disk, and says when metadata that the agent must see has changed (spec 70 §7.1). */
export class MetadataCache {
  readonly #file: StateFile<LauncherState>;
  readonly #listeners = new Set<() => void>();
  #state: LauncherState;

  constructor(options: { readonly file: string }, deps: { readonly log: Logger }) {
    this.#file = new StateFile(options, deps);
    this.#state = this.#file.read(isLauncherState) ?? emptyState;
  }

  get metadata(): KubeVirtMetadata {
    return this.#state.metadata;
  }

  get state(): LauncherState {
    return this.#state;
  }

  /** Changes metadata; listeners are called when something other than the UID differs. */
  updateMetadata(change: Partial<KubeVirtMetadata>): void {
    const before = this.#state.metadata;
    const metadata = { ...before, ...change };
    if (JSON.stringify(metadata) === JSON.stringify(before)) return;
    this.#save({ ...this.#state, metadata });
    if (JSON.stringify({ ...metadata, UID: '' }) === JSON.stringify({ ...before, UID: '' })) return;
    for (const listener of this.#listeners) listener();
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

  /** The launcher's own marks; the agent does not see them. */
  mark(change: Partial<Pick<LauncherState, 'userPaused' | 'hasRun' | 'panicHandled'>>): void {
    const next = { ...this.#state, ...change };
    if (JSON.stringify(next) !== JSON.stringify(this.#state)) this.#save(next);
  }

  onChange(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  #save(state: LauncherState): void {
    this.#state = state;
    this.#file.write(state);
  }
}

function isLauncherState(value: unknown): value is LauncherState {
  if (typeof value !== 'object' || value === null) return false;
  const { version, metadata, userPaused, hasRun, panicHandled } = value as Record<string, unknown>;
  const hasMetadata = typeof metadata === 'object' && metadata !== null && 'UID' in metadata;
  const hasMarks = [userPaused, hasRun, panicHandled].every((mark) => typeof mark === 'boolean');
  return version === 1 && hasMetadata && hasMarks;
}
