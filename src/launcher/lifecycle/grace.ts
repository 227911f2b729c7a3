import { type Clock, errorMessage, type Logger } from '../../base/index.ts';
import type { MetadataCache } from './metadata.ts';
import type { PowerControl } from './power.ts';
import type { QemuWatch } from './qemu-watch.ts';

export interface GraceDeps {
  readonly metadata: MetadataCache;
  readonly power: Pick<PowerControl, 'kill'>;
  readonly qemu: Pick<QemuWatch, 'pid' | 'hasEnded'>;
  readonly signalProcess: (pid: number, signal: NodeJS.Signals) => void;
  readonly log: Logger;
  readonly clock: Clock;
}

const signals: readonly NodeJS.Signals[] = ['SIGTERM', 'SIGKILL'];
const betweenTriesMs = 5000;

/**
 * SIGTERM of the pod (spec 70 §9): the agent is told and shuts the guest down; the launcher itself only ends it when the
 * grace period has passed: through libvirt, then by signals to QEMU.
 */
export class GracePeriod {
  readonly #graceSeconds: number;
  readonly #deps: GraceDeps;
  #cancel: (() => void) | undefined;
  #started = false;

  constructor(options: { readonly graceSeconds: number }, deps: GraceDeps) {
    this.#graceSeconds = options.graceSeconds;
    this.#deps = deps;
  }

  get hasStarted(): boolean {
    return this.#started;
  }

  /** Only the first call counts. */
  start(): void {
    if (this.#started) return;
    this.#started = true;
    const { metadata, log, clock } = this.#deps;
    log.info({ graceSeconds: this.#graceSeconds }, 'asked to end: the agent shuts the guest down');
    metadata.updateGracePeriod({ MarkedForGracefulShutdown: true });
    this.#cancel = clock.schedule(this.#graceSeconds * 1000, () => this.#force(0));
  }

  stop(): void {
    this.#cancel?.();
    this.#cancel = undefined;
  }

  #force(tried: number): void {
    const { qemu, power, log, clock, signalProcess } = this.#deps;
    if (qemu.hasEnded) return;
    log.warn({ tried }, 'grace period is over: the guest is ended by force');
    power.kill().catch((error: unknown) => log.warn({ err: errorMessage(error) }, 'libvirt did not end the domain'));
    const signal = signals[Math.min(tried, signals.length) - 1];
    if (signal && qemu.pid !== undefined) signalProcess(qemu.pid, signal);
    this.#cancel = clock.schedule(betweenTriesMs, () => this.#force(tried + 1));
  }
}
