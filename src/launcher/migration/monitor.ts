import { type Clock, errorMessage, type Logger, sleep, systemClock } from '../../base/index.ts';
import type { DomainRef } from '../../libvirt/index.ts';
import type { Hypervisor } from '../ports.ts';
import { type JobSample, outgoingJob } from './job.ts';
import { firstMonitorState, type MonitorAction, type MonitorState, watchMigration } from './monitor-rules.ts';
import { isPausedForMigration } from './record.ts';
import type { MigrationSettings } from './settings.ts';

export interface MonitorDeps {
  readonly hypervisor: Pick<Hypervisor, 'jobStats' | 'state' | 'suspend' | 'startPostCopy' | 'setMaxDowntime'>;
  /** Another mode than before has begun. */
  readonly onMode: (mode: 'PostCopy' | 'Paused') => void;
  readonly abort: (reason: string) => void;
  readonly log: Logger;
  readonly clock?: Clock;
}

export interface MonitorOptions {
  readonly domain: DomainRef;
  readonly settings: MigrationSettings;
  /** libvirt may switch to post-copy; a retry may find out that it may not. */
  readonly canPostCopy: () => boolean;
  /** It is in post-copy already. */
  readonly resumes: boolean;
  readonly acceptableMs: number | undefined;
}

/** Upstream's period of looking, and of logging. */
const lookMs = 400;
const logMs = 4000;

/** Looks at a migration until it is over, and acts when it takes too long. */
export class MigrationMonitor {
  readonly #options: MonitorOptions;
  readonly #deps: MonitorDeps;
  readonly #clock: Clock;
  #startedMs = 0;
  #state: MonitorState;
  #loggedMs = Number.NEGATIVE_INFINITY;
  #wake: (() => void) | undefined;
  #isPass = false;

  constructor(options: MonitorOptions, deps: MonitorDeps) {
    this.#options = options;
    this.#deps = deps;
    this.#clock = deps.clock ?? systemClock;
    const first = firstMonitorState(options.acceptableMs);
    this.#state = options.resumes ? { ...first, mode: 'PostCopy' } : first;
  }

  /** Never rejects: the migration goes on, watched or not. */
  async run(over: AbortSignal): Promise<void> {
    this.#startedMs = this.#clock.monotonicMs();
    while (!over.aborted) {
      try {
        await this.#look();
      } catch (error) {
        // At the very end, and while the daemon is away, there is no answer.
        this.#deps.log.debug({ err: errorMessage(error) }, 'migration cannot be looked at now');
      }
      await this.#pause(over);
    }
  }

  /** A pass over the guest's memory begins: what remains is known exactly now. */
  passBegins(): void {
    this.#isPass = true;
    this.#wake?.();
  }

  async #pause(over: AbortSignal): Promise<void> {
    if (this.#isPass) return;
    const woken = new AbortController();
    this.#wake = () => woken.abort();
    await sleep(lookMs, AbortSignal.any([over, woken.signal]), this.#clock).catch(() => undefined);
    this.#wake = undefined;
  }

  async #look(): Promise<void> {
    const { domain, settings, canPostCopy } = this.#options;
    const isPass = this.#isPass;
    this.#isPass = false;
    const sample = outgoingJob(await this.#deps.hypervisor.jobStats(domain));
    if (!sample) return;
    const elapsedMs = this.#clock.monotonicMs() - this.#startedMs;
    this.#logProgress(sample, elapsedMs);
    const look = { sample, elapsedMs, isPass };
    const step = watchMigration(this.#state, look, { ...settings, canPostCopy: canPostCopy() });
    await this.#act(step.action);
    this.#state = step.state;
    if (step.state.switchDeadlineMs !== undefined) await this.#notePause();
  }

  /** What fails here is decided again at the next look. */
  async #act(action: MonitorAction): Promise<void> {
    const { hypervisor, onMode, abort, log } = this.#deps;
    const { domain } = this.#options;
    if (action.kind === 'none') return;
    log.info({ ...action }, 'migration takes too long');
    switch (action.kind) {
      case 'start-post-copy':
        await hypervisor.startPostCopy(domain);
        onMode('PostCopy');
        return;
      case 'suspend':
        await hypervisor.suspend(domain);
        onMode('Paused');
        return;
      case 'allow-downtime':
        await hypervisor.setMaxDowntime(domain, action.milliseconds);
        return;
      case 'abort':
        abort(action.reason);
        return;
      default:
        action satisfies never;
    }
  }

  /** QEMU has stopped the guest for the switch, which may take a while when any pause is allowed. */
  async #notePause(): Promise<void> {
    if (this.#state.mode !== 'PreCopy') return;
    if (!isPausedForMigration(await this.#deps.hypervisor.state(this.#options.domain))) return;
    this.#state = { ...this.#state, mode: 'Paused' };
    this.#deps.onMode('Paused');
  }

  #logProgress(sample: JobSample, elapsedMs: number): void {
    if (elapsedMs - this.#loggedMs < logMs) return;
    this.#loggedMs = elapsedMs;
    this.#deps.log.info({ elapsedMs: Math.round(elapsedMs), ...sample }, 'migration under way');
  }
}
