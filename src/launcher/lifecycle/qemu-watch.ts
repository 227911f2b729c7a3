import { readFile } from 'node:fs/promises';
import { type Clock, systemClock } from '../../base/index.ts';
import { hasEnded, readProcessStat } from '../../host/index.ts';

export interface QemuWatchOptions {
  /** Decimal pid, written by libvirt. */
  readonly pidFile: string;
  readonly pollMs: number;
  /** For tests. */
  readonly procDir?: string;
}

export interface QemuWatchDeps {
  readonly onStarted: () => void;
  readonly onEnded: () => void;
  readonly clock?: Clock;
}

interface QemuProcess {
  readonly pid: number;
  /** Distinguishes a process from a later one with the same pid. */
  readonly startTime: string;
}

/** What libvirt last reported of the domain. The process may still be there when it has stopped. */
type Reported = 'running' | 'stopped';

export type QemuState =
  | { readonly kind: 'not-started' }
  /** The pid file is not there yet, or not readable. */
  | { readonly kind: 'searching'; readonly reported: Reported }
  | { readonly kind: 'watching'; readonly process: QemuProcess; readonly reported: Reported }
  | { readonly kind: 'ended' }
  /** `stop` was called. */
  | { readonly kind: 'unwatched' };

const closePollMs = 50;

/** Knows whether QEMU lives, without libvirt: its daemon may be away when the domain ends. */
export class QemuWatch {
  readonly #options: QemuWatchOptions;
  readonly #procDir: string;
  readonly #clock: Clock;
  readonly #deps: QemuWatchDeps;
  #cancel: (() => void) | undefined;
  #state: QemuState = { kind: 'not-started' };

  constructor(options: QemuWatchOptions, deps: QemuWatchDeps) {
    this.#options = options;
    this.#procDir = options.procDir ?? '/proc';
    this.#deps = deps;
    this.#clock = deps.clock ?? systemClock;
  }

  get state(): QemuState {
    return this.#state;
  }

  get livingPid(): number | undefined {
    return this.#state.kind === 'watching' ? this.#state.process.pid : undefined;
  }

  /** The domain runs. Safe to repeat. */
  noteStarted(): void {
    if (this.#state.kind !== 'not-started') return;
    this.#state = { kind: 'searching', reported: 'running' };
    this.#scheduleLook(0);
    this.#deps.onStarted();
  }

  /** libvirt reports the domain stopped: from now on it is looked often, and no process at all means the end. */
  noteStopped(): void {
    const state = this.#state;
    if (!isLooked(state) || state.reported === 'stopped') return;
    this.#state = { ...state, reported: 'stopped' };
    this.#scheduleLook(0);
  }

  stop(): void {
    if (this.#state.kind !== 'ended') this.#state = { kind: 'unwatched' };
    this.#cancel?.();
    this.#cancel = undefined;
  }

  #scheduleLook(delayMs: number): void {
    this.#cancel?.();
    this.#cancel = this.#clock.schedule(delayMs, () => void this.#look());
  }

  async #look(): Promise<void> {
    const process = this.#state.kind === 'watching' ? this.#state.process : await this.#find();
    const isAlive = process !== undefined && (await this.#isAlive(process));
    // Reports, and a later look, may have come meanwhile.
    const state = this.#state;
    if (!isLooked(state) || (state.kind === 'watching' && process === undefined)) return;
    const { reported } = state;
    if (process === undefined ? reported === 'stopped' : !isAlive) {
      this.#end();
      return;
    }
    if (process) this.#state = { kind: 'watching', process, reported };
    this.#scheduleLook(reported === 'stopped' || !process ? closePollMs : this.#options.pollMs);
  }

  #end(): void {
    this.#state = { kind: 'ended' };
    this.stop();
    this.#deps.onEnded();
  }

  async #find(): Promise<QemuProcess | undefined> {
    const text = await readFile(this.#options.pidFile, 'utf8').catch(() => '');
    const pid = /^\d{1,10}\s*$/.test(text) ? Number(text) : 0;
    const stat = pid > 1 ? await readProcessStat(pid, this.#procDir) : undefined;
    return stat && { pid, startTime: stat.startTicks };
  }

  async #isAlive({ pid, startTime }: QemuProcess): Promise<boolean> {
    const stat = await readProcessStat(pid, this.#procDir);
    return stat?.startTicks === startTime && !hasEnded(stat);
  }
}

function isLooked(state: QemuState): state is Extract<QemuState, { kind: 'searching' | 'watching' }> {
  return state.kind === 'searching' || state.kind === 'watching';
}
