import type { MigrationMetadata } from '../../api/index.ts';
import { type Clock, errorMessage, type Logger, sleep, systemClock } from '../../base/index.ts';
import { type DomainRef, DomainState, isLibvirtError } from '../../libvirt/index.ts';
import type { DomainStateNumbers, Hypervisor, HypervisorEvent } from '../ports.ts';
import { type AbortDeps, MigrationAbort } from './abort.ts';
import { DeviceRelease } from './device-release.ts';
import { outgoingJob } from './job.ts';
import { MigrationMonitor } from './monitor.ts';
import { firstDowntimeMs } from './monitor-rules.ts';
import { isResume, type MigrationPlan, usesPostCopy, withoutPostCopy } from './plan.ts';
import { hasLeft, isDaemonLost, isStranded, isUp, type MigrationOutcome, wordsOf } from './record.ts';
import type { MigrationSettings } from './settings.ts';

/** What an attempt asks of libvirt. */
export type MigrationCalls = Pick<
  Hypervisor,
  | 'lookup'
  | 'state'
  | 'suspend'
  | 'resume'
  | 'requestUnplug'
  | 'migrate'
  | 'jobStats'
  | 'abortJob'
  | 'startPostCopy'
  | 'setMaxDowntime'
>;

export interface AttemptOptions {
  readonly domain: DomainRef;
  readonly plan: MigrationPlan;
  readonly settings: MigrationSettings;
  readonly acceptableMs: number | undefined;
  /** Of one that an earlier process began. */
  readonly mode?: MigrationMetadata['Mode'];
}

export interface AttemptDeps extends AbortDeps {
  readonly hypervisor: MigrationCalls;
  readonly onMode: (mode: 'PostCopy' | 'Paused') => void;
  /** Its user wants the guest to stand still. */
  readonly isPausedOnPurpose: () => boolean;
  /** For the user of the VMI. */
  readonly warn: (message: string) => void;
  readonly log: Logger;
}

const lookAgainMs = 500;
const resumeAgainMs = 2000;
const resumeTryMs = 60_000;
/** For a daemon that ended, and is started again. */
const daemonAwayMs = 60_000;

/** One migration away from here, from libvirt's call to its outcome. */
export class MigrationAttempt {
  readonly #options: AttemptOptions;
  readonly #deps: AttemptDeps;
  readonly #clock: Clock;
  readonly #over = new AbortController();
  readonly #startedMs: number;
  readonly #release: DeviceRelease;
  readonly #monitor: MigrationMonitor;
  readonly #abort: MigrationAbort;
  #plan: MigrationPlan;
  #mode: 'PreCopy' | 'PostCopy' | 'Paused';

  constructor(options: AttemptOptions, deps: AttemptDeps) {
    this.#options = options;
    this.#deps = deps;
    this.#clock = deps.clock ?? systemClock;
    this.#startedMs = this.#clock.monotonicMs();
    this.#plan = options.plan;
    this.#mode = isResume(options.plan) ? 'PostCopy' : options.mode || 'PreCopy';
    this.#abort = new MigrationAbort({ domain: options.domain, over: this.#over.signal }, deps);
    this.#release = new DeviceRelease({ domain: options.domain, interfaces: options.plan.sriovInterfaces }, deps);
    this.#monitor = this.#makeMonitor();
  }

  handle(event: HypervisorEvent): void {
    if (event.kind === 'migration-pass') this.#monitor.passBegins();
    else this.#release.handle(event);
  }

  /** In post-copy the guest has its memory on both nodes: there is no way back. */
  get canAbort(): boolean {
    return this.#mode !== 'PostCopy';
  }

  /** Never rejects. */
  async run(): Promise<MigrationOutcome> {
    let monitoring = Promise.resolve();
    try {
      const ended = await this.#releaseDevices();
      if (ended) return ended;
      monitoring = this.#monitor.run(this.#over.signal);
      return await this.#migrate();
    } catch (error) {
      return { kind: 'failed', reason: wordsOf(error) };
    } finally {
      this.#over.abort();
      await monitoring;
    }
  }

  /** Undefined: libvirt may be called. */
  async #releaseDevices(): Promise<MigrationOutcome | undefined> {
    let failure: unknown;
    if (this.#plan.sriovInterfaces.length > 0) {
      await this.#release.run(this.#abort.early).catch((error: unknown) => {
        failure = error;
      });
    }
    if (!this.#abort.begin()) return { kind: 'aborted', reason: (await this.#abort.reasonInTheEnd()) ?? '' };
    if (failure !== undefined) throw failure;
    return undefined;
  }

  /** Of a migration that an earlier process of this launcher began: its job is followed to the end. */
  async follow(): Promise<MigrationOutcome> {
    this.#abort.begin();
    const monitoring = this.#monitor.run(this.#over.signal);
    const reason = 'the launcher was started anew during the migration, and finds the guest here';
    const outcome = await this.#afterLoss(reason).finally(() => this.#over.abort());
    await monitoring;
    return outcome;
  }

  /** Resolves when libvirt has taken the order, or could not. */
  async abort(reason: string): Promise<void> {
    if (this.canAbort) await this.#abort.order(reason);
  }

  #makeMonitor(): MigrationMonitor {
    const { domain, settings, acceptableMs } = this.#options;
    const { log } = this.#deps;
    return new MigrationMonitor(
      {
        domain,
        settings,
        acceptableMs,
        canPostCopy: () => usesPostCopy(this.#plan),
        resumes: this.#mode === 'PostCopy',
      },
      {
        ...this.#deps,
        onMode: (mode) => {
          this.#mode = mode;
          this.#deps.onMode(mode);
        },
        abort: (reason) => {
          this.abort(reason).catch((error: unknown) => log.warn({ err: errorMessage(error) }, 'abort failed'));
        },
      },
    );
  }

  async #migrate(): Promise<MigrationOutcome> {
    const { hypervisor, log } = this.#deps;
    await this.#setDowntime();
    try {
      await hypervisor.migrate(this.#options.domain, this.#plan.target, this.#plan.flags);
      return { kind: 'arrived' };
    } catch (error) {
      log.warn({ err: errorMessage(error) }, 'libvirt ended the migration');
      if (await this.#mayResumeSoon(error)) return this.#migrate();
      if (!this.#isPostCopyRefused(error)) return this.#outcomeOf(error);
      this.#deps.warn(`post-copy is not possible here, so the guest migrates without it: ${errorMessage(error)}`);
      this.#plan = withoutPostCopy(this.#plan);
      return this.#migrate();
    }
  }

  /** QEMU keeps it for the migration that comes. Without it the pause is 300 ms, whatever the policy says. */
  async #setDowntime(): Promise<void> {
    const { domain, settings } = this.#options;
    const downtimeMs = firstDowntimeMs(settings);
    if (downtimeMs === undefined || isResume(this.#plan)) return;
    try {
      await this.#deps.hypervisor.setMaxDowntime(domain, downtimeMs);
    } catch (error) {
      this.#deps.log.warn({ err: errorMessage(error) }, 'the longest pause of a migration is not set');
    }
  }

  /** Either daemon may still be busy with the end of the streams that broke. */
  async #mayResumeSoon(error: unknown): Promise<boolean> {
    const isBusy = isLibvirtError(error, 'OPERATION_INVALID', 'OPERATION_FAILED', 'OPERATION_TIMEOUT');
    if (!isResume(this.#plan) || !isBusy) return false;
    if (this.#clock.monotonicMs() - this.#startedMs > resumeTryMs) return false;
    await sleep(resumeAgainMs, undefined, this.#clock);
    return isStranded(await this.#deps.hypervisor.state(this.#options.domain));
  }

  /** By the target's QEMU, before anything moved: an unprivileged process may not wait for pages there. */
  #isPostCopyRefused(error: unknown): boolean {
    if (this.#abort.isOrdered || !usesPostCopy(this.#plan) || isResume(this.#plan)) return false;
    return isLibvirtError(error) && error.message.includes('Postcopy is not supported');
  }

  async #outcomeOf(error: unknown): Promise<MigrationOutcome> {
    return this.#afterLoss(wordsOf(error), isDaemonLost(error));
  }

  /** What became of the guest is asked of the domain itself: the call's error does not say it. */
  async #afterLoss(reason: string, mayGoOn = true): Promise<MigrationOutcome> {
    const state = await this.#stateInTheEnd(mayGoOn);
    this.#over.abort();
    const abortReason = await this.#abort.reasonInTheEnd();
    if (state && hasLeft(state)) return { kind: 'arrived' };
    if (state && isStranded(state)) {
      return { kind: 'broken', reason: `post-copy broke, and the guest waits for it to be resumed: ${reason}` };
    }
    await this.#resumeIfPausedHere(state);
    return abortReason === undefined ? { kind: 'failed', reason } : { kind: 'aborted', reason: abortReason };
  }

  /** Undefined: there is no domain, or no daemon that could be asked. A job that goes on is awaited. */
  async #stateInTheEnd(mayGoOn: boolean): Promise<DomainStateNumbers | undefined> {
    const { hypervisor } = this.#deps;
    let answeredMs = this.#clock.monotonicMs();
    while (this.#clock.monotonicMs() - answeredMs < daemonAwayMs) {
      try {
        const domain = await hypervisor.lookup(this.#options.domain.name);
        if (!domain) return undefined;
        const state = await hypervisor.state(domain);
        if (!mayGoOn || !isUp(state) || !outgoingJob(await hypervisor.jobStats(domain))) return state;
        answeredMs = this.#clock.monotonicMs();
      } catch {
        // The daemon is away, or the domain is between two states.
      }
      await sleep(lookAgainMs, undefined, this.#clock);
    }
    return undefined;
  }

  /** The monitor paused it, so that its memory could follow. */
  async #resumeIfPausedHere(state: DomainStateNumbers | undefined): Promise<void> {
    if (this.#mode !== 'Paused' || state?.state !== DomainState.PAUSED || this.#deps.isPausedOnPurpose()) return;
    try {
      await this.#deps.hypervisor.resume(this.#options.domain);
    } catch (error) {
      this.#deps.log.error({ err: errorMessage(error) }, 'guest stays paused after a migration that failed');
    }
  }
}
