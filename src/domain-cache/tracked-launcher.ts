import { backoffDelayMs, type Clock } from '../base/index.ts';
import type { NotifyDoor, NotifyDoors } from './notify-doors.ts';
import type { NotifyIntake } from './notify-intake.ts';
import type { LauncherLink, LauncherPlace } from './ports.ts';

const retryBackoff = { baseMs: 500, maxMs: 15_000, jitter: 0.2 };
const soonMs = 1_000;
/** Upstream's launcher waits 15 s for its last event. */
const lingerMs = 20_000;
const lingerCheckMs = 200;

export interface TrackedLauncherDeps {
  readonly clock: Clock;
  readonly random: () => number;
  readonly doors: NotifyDoors;
}

/** What the cache holds for one launcher: its pipe, and the timers of questions to come. */
export class TrackedLauncher {
  readonly place: LauncherPlace;
  /** Proven to have ended: it is not looked at any more. */
  dead = false;
  /** The check under way. */
  checking: Promise<void> | undefined;
  readonly #deps: TrackedLauncherDeps;
  #intake: NotifyIntake | undefined;
  #door: NotifyDoor | undefined;
  #failures = 0;
  #cancelRetry = () => {};
  #soon: { cancel: () => void; again: boolean } | undefined;

  constructor({ key, uid, socketFile }: LauncherPlace, deps: TrackedLauncherDeps) {
    this.place = { key, uid, socketFile };
    this.#deps = deps;
  }

  /** What it says comes in here, once it was connected to. */
  get intake(): NotifyIntake | undefined {
    return this.#intake;
  }

  /** Replaces the pipe; rejects with DomainCacheError PIPE_FAILED. */
  async attach(link: LauncherLink, intake: NotifyIntake): Promise<void> {
    await this.detach();
    this.#door = await this.#deps.doors.open(link, intake);
    this.#intake = intake;
  }

  /** Closes the pipe and forgets what was to come. */
  async detach(): Promise<void> {
    const door = this.#door;
    this.#intake = undefined;
    this.#door = undefined;
    this.#cancelRetry();
    this.#soon?.cancel();
    this.#soon = undefined;
    await door?.close();
  }

  /** One more failure: `run` comes after back-off. */
  retryLater(run: () => void): void {
    this.#failures++;
    this.#cancelRetry();
    const delayMs = backoffDelayMs(this.#failures, { ...retryBackoff, random: this.#deps.random });
    this.#cancelRetry = this.#deps.clock.schedule(delayMs, run);
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
    const cancel = this.#deps.clock.schedule(soonMs, () => {
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
    const { clock, doors } = this.#deps;
    const endMs = clock.monotonicMs() + lingerMs;
    const check = () => {
      const intake = this.#intake;
      const isOver = !intake || intake.hasEnded || clock.monotonicMs() >= endMs || !doors.isAlive(intake.process);
      if (isOver) void this.detach().finally(done);
      else this.#cancelRetry = clock.schedule(lingerCheckMs, check);
    };
    this.#cancelRetry();
    // Not at once: the answer to the last event may be on its way.
    this.#cancelRetry = clock.schedule(lingerCheckMs, check);
  }
}
