import { readFile } from 'node:fs/promises';
import { type Clock, systemClock } from '../../base/index.ts';

export interface QemuWatchOptions {
  /** Decimal pid, written by libvirt. */
  readonly pidFile: string;
  readonly pollMs: number;
  /** For tests. */
  readonly procDir?: string;
}

interface QemuProcess {
  readonly pid: number;
  /** Tells a process from a later one with the same pid. */
  readonly startTime: string;
}

const closePollMs = 50;

/** Knows whether QEMU lives, without libvirt: its daemon may be away when the guest ends. */
export class QemuWatch {
  readonly #options: QemuWatchOptions;
  readonly #procDir: string;
  readonly #clock: Clock;
  readonly #onEnded: () => void;
  #process: QemuProcess | undefined;
  #cancel: (() => void) | undefined;
  #state: 'idle' | 'running' | 'ending' | 'ended' = 'idle';

  constructor(options: QemuWatchOptions, deps: { readonly onEnded: () => void; readonly clock?: Clock }) {
    this.#options = options;
    this.#procDir = options.procDir ?? '/proc';
    this.#onEnded = deps.onEnded;
    this.#clock = deps.clock ?? systemClock;
  }

  get pid(): number | undefined {
    return this.#process?.pid;
  }

  get hasStarted(): boolean {
    return this.#state !== 'idle';
  }

  get hasEnded(): boolean {
    return this.#state === 'ended';
  }

  /** The domain runs. Safe to repeat. */
  noteStarted(): void {
    if (this.#state !== 'idle') return;
    this.#state = 'running';
    this.#scheduleLook(0);
  }

  /** libvirt says the domain stopped: from now on it is looked often, and no process at all means the end. */
  noteStopped(): void {
    if (this.#state !== 'running') return;
    this.#state = 'ending';
    this.#scheduleLook(0);
  }

  stop(): void {
    this.#cancel?.();
    this.#cancel = undefined;
  }

  #scheduleLook(delayMs: number): void {
    this.#cancel?.();
    this.#cancel = this.#clock.schedule(delayMs, () => void this.#look());
  }

  async #look(): Promise<void> {
    this.#process ??= await this.#find();
    if (this.#state === 'ended' || this.#state === 'idle') return;
    const isAlive = this.#process !== undefined && (await this.#isAlive(this.#process));
    const isOver = this.#process === undefined ? this.#state === 'ending' : !isAlive;
    if (!isOver) {
      this.#scheduleLook(this.#state === 'ending' || !this.#process ? closePollMs : this.#options.pollMs);
      return;
    }
    this.#state = 'ended';
    this.stop();
    this.#onEnded();
  }

  async #find(): Promise<QemuProcess | undefined> {
    const text = await readFile(this.#options.pidFile, 'utf8').catch(() => '');
    const pid = /^\d{1,10}\s*$/.test(text) ? Number(text) : 0;
    const stat = pid > 1 ? await this.#stat(pid) : undefined;
    return stat && { pid, startTime: stat.startTime };
  }

  async #isAlive({ pid, startTime }: QemuProcess): Promise<boolean> {
    const stat = await this.#stat(pid);
    return stat?.startTime === startTime && stat.state !== 'Z' && stat.state !== 'X';
  }

  async #stat(pid: number): Promise<{ state: string; startTime: string } | undefined> {
    const text = await readFile(`${this.#procDir}/${pid}/stat`, 'utf8').catch(() => undefined);
    if (text === undefined) return undefined;
    // The name in parentheses may hold anything; fields 3 and 22 come after its last one.
    const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
    return { state: fields[0] ?? '', startTime: fields[19] ?? '' };
  }
}
