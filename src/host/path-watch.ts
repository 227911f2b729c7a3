import { type FSWatcher, lstatSync, readdirSync, statSync, watch } from 'node:fs';
import path from 'node:path';
import { type Clock, Listeners } from '../base/index.ts';

export interface PathWatchOptions {
  /** Everything is looked at again this often: the kernel drops events when too many wait. */
  readonly recheckMs?: number;
  /** The same while a directory cannot be watched. */
  readonly blindRecheckMs?: number;
}

interface Watched {
  readonly path: string;
  readonly kind: 'entry' | 'names';
  readonly listeners: Listeners;
  seen: string | undefined;
  /** Something came or went at an entry's path since the last look: what was there in between leaves no other trace. */
  isTouched: boolean;
}

/** What of a directory counts. */
interface Need {
  /** Of the directory that is watched: another one may take its path. */
  readonly identity: string;
  /** Names in it; undefined: all of them. Its own is among them, as the kernel reports that it was moved. */
  names: Set<string> | undefined;
  /** Something is missed without it; the others only show when one of these was replaced. */
  isNearest: boolean;
}

interface Armed {
  readonly watcher: FSWatcher;
  need: Need;
}

/** A burst of events is one look. */
const settleMs = 5;
/** Between looks: some directories are a pod's, too, and one that makes and removes files without end must not busy the agent. */
const calmMs = 100;
/** Directories may come and go while they are being armed. */
const maxArmings = 10;

/**
 * One watcher of files for many: reports when what is at a path appeared, vanished or was replaced, and when the names in a
 * directory changed. Neither the path nor its directories need to be there: the nearest one that is gets watched. All above it
 * are, too, as a watch stays with a directory that was put away. Only directories are watched, as a watch on a file ends with it.
 */
export class PathWatch {
  readonly #options: Required<PathWatchOptions>;
  readonly #clock: Clock;
  readonly #watched = new Set<Watched>();
  readonly #armed = new Map<string, Armed>();
  #cancelLook: (() => void) | undefined;
  #cancelRecheck: (() => void) | undefined;
  #lookedMs = Number.NEGATIVE_INFINITY;
  #isClosed = false;

  constructor(options: PathWatchOptions, { clock }: { readonly clock: Clock }) {
    this.#options = { recheckMs: 30_000, blindRecheckMs: 1_000, ...options };
    this.#clock = clock;
  }

  /**
   * Calls back after the entry at `file` (a link itself, not its target) became another one, or was another one for a moment;
   * never for its content.
   */
  watch(file: string, listener: () => void): () => void {
    return this.#add('entry', file, listener);
  }

  /** Calls back after names were added to the directory or taken from it, or it came or went as a whole. */
  watchNames(directory: string, listener: () => void): () => void {
    return this.#add('names', directory, listener);
  }

  /** No listener is called any more. Safe to call twice. */
  close(): void {
    this.#isClosed = true;
    this.#cancelLook?.();
    this.#cancelRecheck?.();
    for (const { watcher } of this.#armed.values()) watcher.close();
    this.#armed.clear();
    this.#watched.clear();
  }

  #add(kind: Watched['kind'], file: string, listener: () => void): () => void {
    if (this.#isClosed) return () => undefined;
    let watched = [...this.#watched].find((each) => each.kind === kind && each.path === file);
    if (!watched) {
      watched = { path: file, kind, listeners: new Listeners(), seen: undefined, isTouched: false };
      this.#watched.add(watched);
      this.#arm();
      watched.seen = look(watched);
    }
    const added = watched;
    const end = added.listeners.add(listener);
    return () => {
      end();
      if (added.listeners.size > 0 || !this.#watched.delete(added)) return;
      if (!this.#isClosed) this.#arm();
    };
  }

  /** Armed first, looked at then: what happens in between is an event. */
  #lookAround(): void {
    this.#cancelLook = undefined;
    this.#lookedMs = this.#clock.monotonicMs();
    this.#arm();
    const changed = [...this.#watched].filter((watched) => {
      const now = look(watched);
      const isOther = watched.isTouched || now !== watched.seen;
      watched.seen = now;
      watched.isTouched = false;
      return isOther;
    });
    for (const { listeners } of changed) listeners.notify();
  }

  #touch(entry: string): void {
    for (const watched of this.#watched) {
      if (watched.kind === 'entry' && watched.path === entry) watched.isTouched = true;
    }
  }

  #onEvent(): void {
    if (this.#isClosed) return;
    const calmInMs = this.#lookedMs + calmMs - this.#clock.monotonicMs();
    this.#cancelLook ??= this.#clock.schedule(Math.max(settleMs, calmInMs), () => this.#lookAround());
  }

  /** Watches exactly the directories that are needed now. */
  #arm(): void {
    let isBlind = false;
    for (let turn = 0; turn < maxArmings; turn++) {
      const needed = needsOf(this.#watched);
      for (const [directory, armed] of this.#armed) {
        const need = needed.get(directory);
        if (need?.identity === armed.need.identity) {
          armed.need = need;
          continue;
        }
        armed.watcher.close();
        this.#armed.delete(directory);
      }
      const missing = [...needed].filter(([directory]) => !this.#armed.has(directory));
      const failed = missing.filter(([directory, need]) => !this.#armOne(directory, need));
      isBlind = failed.some(([, { isNearest }]) => isNearest);
      if (missing.length === failed.length) break;
    }
    this.#cancelRecheck?.();
    if (this.#watched.size === 0) return;
    const { recheckMs, blindRecheckMs } = this.#options;
    this.#cancelRecheck = this.#clock.schedule(isBlind ? blindRecheckMs : recheckMs, () => this.#lookAround());
  }

  #armOne(directory: string, need: Need): boolean {
    try {
      const watcher = watch(directory, { persistent: false }, (event, name) => {
        // Content and attributes do not count here; device directories are full of those events.
        if (event !== 'rename') return;
        const { names } = armed.need;
        if (name !== null && names !== undefined && !names.has(name)) return;
        if (name !== null) this.#touch(path.join(directory, name));
        this.#onEvent();
      });
      const armed: Armed = { watcher, need };
      watcher.on('error', () => this.#onEvent());
      this.#armed.set(directory, armed);
      return true;
    } catch {
      return false;
    }
  }
}

/** Says which entry is at a path: equal for two looks that saw the same one; undefined when nothing is there. */
export function entryIdentity(file: string): string | undefined {
  try {
    // Inode numbers are used again at once by some file systems; the time of birth tells.
    const { dev, ino, rdev, birthtimeNs } = lstatSync(file, { bigint: true });
    return `${dev}:${ino}:${rdev}:${birthtimeNs}`;
  } catch {
    return undefined;
  }
}

function look({ kind, path: file }: Watched): string | undefined {
  if (kind === 'entry') return entryIdentity(file);
  try {
    return readdirSync(file).sort().join('/');
  } catch {
    return undefined;
  }
}

/** The deepest directory of each path that is there, and all above it. */
function needsOf(all: Iterable<Watched>): Map<string, Need> {
  const needs = new Map<string, Need>();
  const known = new Map<string, string | undefined>();
  const identityOf = (directory: string) => {
    if (!known.has(directory)) known.set(directory, directoryIdentity(directory));
    return known.get(directory);
  };
  for (const { kind, path: file } of all) {
    let isNearest = true;
    let name = kind === 'names' ? undefined : path.basename(file);
    let directory = kind === 'names' ? file : path.dirname(file);
    for (;;) {
      const identity = identityOf(directory);
      if (identity !== undefined) {
        need(needs, directory, { identity, name, isNearest });
        isNearest = false;
      }
      const parent = path.dirname(directory);
      if (parent === directory) break;
      name = path.basename(directory);
      directory = parent;
    }
  }
  return needs;
}

function need(
  needs: Map<string, Need>,
  directory: string,
  {
    identity,
    name,
    isNearest,
  }: { readonly identity: string; readonly name: string | undefined; readonly isNearest: boolean },
): void {
  const known = needs.get(directory) ?? { identity, names: new Set([path.basename(directory)]), isNearest: false };
  if (name === undefined) known.names = undefined;
  else known.names?.add(name);
  known.isNearest ||= isNearest;
  needs.set(directory, known);
}

function directoryIdentity(directory: string): string | undefined {
  try {
    const stats = statSync(directory, { bigint: true });
    return stats.isDirectory() ? `${stats.dev}:${stats.ino}:${stats.birthtimeNs}` : undefined;
  } catch {
    return undefined;
  }
}
