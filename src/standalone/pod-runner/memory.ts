import type { Obstacle } from './project.ts';

/** What is known of one pod in memory only. All else is on disk or in the API, so that a restart goes on from there. */
export interface PodMemory {
  /** Why the pod could not be started the last time. */
  obstacle: Obstacle | undefined;
  /** The end of a deleted pod was written and its files are gone: how it ended cannot be reported a second time. */
  isEndReported: boolean;
  /** When the files of its secrets and config maps were last made what those are, and what was wrong with them. */
  objects: { readonly atMs: number; readonly problem?: string } | undefined;
  /** Ends the watch of the sandbox. */
  unwatch: (() => void) | undefined;
}

/** By UID; the owner drops what belongs to pods that are gone. */
export class PodMemories {
  readonly #pods = new Map<string, PodMemory>();

  of(uid: string): PodMemory {
    const known = this.#pods.get(uid);
    if (known) return known;
    const memory: PodMemory = {
      obstacle: undefined,
      isEndReported: false,
      objects: undefined,
      unwatch: undefined,
    };
    this.#pods.set(uid, memory);
    return memory;
  }

  /** UIDs of pods that could not be started. */
  hindered(): string[] {
    return [...this.#pods].filter(([, { obstacle }]) => obstacle).map(([uid]) => uid);
  }

  forget(uid: string): void {
    this.#pods.get(uid)?.unwatch?.();
    this.#pods.delete(uid);
  }

  forgetAll(): void {
    for (const uid of [...this.#pods.keys()]) this.forget(uid);
  }
}
