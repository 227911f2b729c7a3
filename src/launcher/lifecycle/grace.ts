import { type Clock, errorMessage, type Logger } from '../../base/index.ts';
import type { LauncherLife } from './life.ts';
import type { MetadataCache } from './metadata.ts';
import { graceExpired, isTerminating, type LauncherPhase } from './phase.ts';
import type { PowerControl } from './power.ts';
import type { QemuWatch } from './qemu-watch.ts';

export interface GraceDeps {
  readonly life: LauncherLife;
  readonly metadata: MetadataCache;
  readonly power: Pick<PowerControl, 'kill'>;
  readonly qemu: Pick<QemuWatch, 'livingPid'>;
  readonly signalProcess: (pid: number, signal: NodeJS.Signals) => void;
  readonly log: Logger;
  readonly clock: Clock;
}

const signals: readonly NodeJS.Signals[] = ['SIGTERM', 'SIGKILL'];
const betweenTriesMs = 5000;

/**
 * What follows when the pod is to end, as in upstream's `cmd/virt-launcher/virt-launcher.go`: the agent is notified and shuts
 * the guest down. The launcher itself only ends it when the grace period has passed: through libvirt, then by signals to QEMU.
 */
export class GracePeriod {
  readonly #graceSeconds: number;
  readonly #deps: GraceDeps;
  #cancel: (() => void) | undefined;
  #unsubscribe: (() => void) | undefined;

  constructor(options: { readonly graceSeconds: number }, deps: GraceDeps) {
    this.#graceSeconds = options.graceSeconds;
    this.#deps = deps;
  }

  start(): void {
    const { life } = this.#deps;
    this.#unsubscribe ??= life.onChange((phase) => this.#follow(phase));
    this.#follow(life.phase);
  }

  stop(): void {
    this.#unsubscribe?.();
    this.#cancel?.();
  }

  #follow(phase: LauncherPhase): void {
    this.#cancel?.();
    this.#cancel = undefined;
    if (phase.kind === 'shutting-down') {
      this.#notifyAgent();
      this.#schedule(this.#graceSeconds * 1000);
    } else if (phase.kind === 'forcing') {
      this.#force(phase.tries);
      this.#schedule(betweenTriesMs);
    } else if (isTerminating(phase)) {
      this.#notifyAgent();
    }
  }

  #schedule(delayMs: number): void {
    const { clock, life } = this.#deps;
    this.#cancel = clock.schedule(delayMs, () => life.move(graceExpired));
  }

  #notifyAgent(): void {
    const { metadata, log } = this.#deps;
    if (metadata.metadata.GracePeriod?.MarkedForGracefulShutdown) return;
    log.info({ graceSeconds: this.#graceSeconds }, 'asked to end: the agent shuts the guest down');
    metadata.updateGracePeriod({ MarkedForGracefulShutdown: true });
  }

  /** The first try is libvirt's alone; QEMU gets a stronger signal with each later one. */
  #force(tries: number): void {
    const { qemu, power, log, signalProcess } = this.#deps;
    log.warn({ tries }, 'grace period is over: the domain is ended by force');
    power.kill().catch((error: unknown) => log.warn({ err: errorMessage(error) }, 'libvirt did not end the domain'));
    const signal = signals[Math.min(tries - 1, signals.length) - 1];
    if (signal && qemu.livingPid !== undefined) signalProcess(qemu.livingPid, signal);
  }
}
