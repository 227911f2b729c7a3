import { backoffDelayMs, type Clock, type Logger } from '../base/index.ts';
import type { NotifyChannel } from './notify-channel.ts';
import { NotifyPipe, type PipePlace } from './pipe.ts';
import type { LauncherPlace } from './ports.ts';

const retryBackoff = { baseMs: 500, maxMs: 15_000, jitter: 0.2 };
const soonMs = 1_000;
/** Upstream's launcher waits 15 s for its last event. */
const lingerMs = 20_000;
const lingerCheckMs = 200;

/** What the cache holds for one launcher: its pipe, and the timers of questions to come. */
export class TrackedLauncher {
  readonly place: LauncherPlace;
  /** Proven to have ended: it is not looked at any more. */
  dead = false;
  /** The check under way. */
  checking: Promise<void> | undefined;
  readonly #clock: Clock;
  #channel: NotifyChannel | undefined;
  #pipe: NotifyPipe | undefined;
  #failures = 0;
  #cancelRetry = () => {};
  #soon: { cancel: () => void; again: boolean } | undefined;

  constructor({ key, uid, socketFile }: LauncherPlace, clock: Clock) {
    this.place = { key, uid, socketFile };
    this.#clock = clock;
  }

  get channel(): NotifyChannel | undefined {
    return this.#channel;
  }

  /** Replaces the pipe; rejects with DomainCacheError PIPE_FAILED. */
  async attach(channel: NotifyChannel, place: PipePlace, logger: Logger): Promise<void> {
    await this.detach();
    this.#pipe = await NotifyPipe.open(place, channel, logger);
    this.#channel = channel;
  }

  /** Closes the pipe and forgets what was to come. */
  async detach(): Promise<void> {
    const [channel, pipe] = [this.#channel, this.#pipe];
    this.#channel = undefined;
    this.#pipe = undefined;
    this.#cancelRetry();
    this.#soon?.cancel();
    this.#soon = undefined;
    channel?.close();
    await pipe?.close();
  }

  /** One more failure: `run` comes after back-off. */
  retryLater(run: () => void): void {
    this.#failures++;
    this.#cancelRetry();
    this.#cancelRetry = this.#clock.schedule(backoffDelayMs(this.#failures, retryBackoff), run);
  }

  /** It answered, or nothing more is to be asked. */
  settled(): void {
    this.#failures = 0;
    this.#cancelRetry();
  }

  /** Runs once, soon, however often it is called; what is called meanwhile runs once more. Must not reject. */
  runSoon(run: () => Promise<void>): void {
    if (this.#soon) {
      this.#soon.again = true;
      return;
    }
    const cancel = this.#clock.schedule(soonMs, () => {
      const mine = this.#soon;
      void run().then(() => {
        if (this.#soon !== mine) return;
        this.#soon = undefined;
        if (mine?.again) this.runSoon(run);
      });
    });
    this.#soon = { cancel, again: false };
  }

  /**
   * Keeps the pipe after the clean-up: a launcher stays until its last event was taken, else for 45 s (spec 70 §9).
   * `done` is called when it is closed by itself.
   */
  linger(done: () => void): void {
    const endMs = this.#clock.monotonicMs() + lingerMs;
    const check = () => {
      const channel = this.#channel;
      const isOver = !channel || channel.hasEnded || this.#clock.monotonicMs() >= endMs || !channel.isProcessAlive();
      if (isOver) void this.detach().finally(done);
      else this.#cancelRetry = this.#clock.schedule(lingerCheckMs, check);
    };
    this.#cancelRetry();
    // Not at once: the answer to the last event may be on its way.
    this.#cancelRetry = this.#clock.schedule(lingerCheckMs, check);
  }
}
