import { request as httpRequest, type IncomingMessage, type RequestOptions } from 'node:http';
import { request as httpsRequest } from 'node:https';
import { type Clock, errorCode } from '../../base/index.ts';

/**
 * Resolves with whether the program answered before the signal fires. Rejects when it could not be asked at all, without a
 * descriptor to spare, say: nothing is known of the program then.
 */
export type AskHealth = (signal: AbortSignal) => Promise<boolean>;

export interface HealthOptions {
  readonly ask: AskHealth;
  /** From an answer to the next question. Each one wakes both programs several times. Default 15 s. */
  readonly periodMs?: number;
  /** The same when none came, or nothing could be asked. Default 5 s, and no more than `periodMs`. */
  readonly againMs?: number;
  /** For one answer. Default 10 s: a loaded machine takes a second, a loop that is blocked for that long serves no client. */
  readonly timeoutMs?: number;
  /** Questions in a row without an answer after which the program counts as hung. Default 3. */
  readonly failures?: number;
  /** For the first answer of a program that has answered in an earlier life. Default 5 min: it may have much to read. */
  readonly startMs?: number;
}

export interface HealthWatchDeps {
  readonly clock: Clock;
  /** Called once; nothing is asked afterwards. */
  readonly onHung: (unansweredMs: number) => void;
  /** The program could not be asked. */
  readonly onUnasked: (error: unknown) => void;
}

const firstPauseMs = 250;

/**
 * Asks one process again and again whether it still serves. With the defaults it has been silent for 55 s at most when it counts as hung;
 * a program that never answered, whose socket cannot be made, say, is let alone.
 */
export class HealthWatch {
  readonly #options: Required<HealthOptions>;
  readonly #deps: HealthWatchDeps;
  readonly #stopping = new AbortController();
  #cancel: () => void = () => undefined;
  /** What has never answered, in this life or in another one, may have nothing to answer with. */
  readonly #mayBeLate: boolean;
  #hasAnswered = false;
  #answeredMs: number;
  #failures = 0;
  #hasLastAnswered = false;

  /** `answeredBefore`: an earlier process of the same program has. */
  constructor(options: HealthOptions, answeredBefore: boolean, deps: HealthWatchDeps) {
    this.#options = { periodMs: 15_000, againMs: 5_000, timeoutMs: 10_000, failures: 3, startMs: 300_000, ...options };
    this.#deps = deps;
    this.#mayBeLate = !answeredBefore;
    this.#answeredMs = deps.clock.monotonicMs();
  }

  get hasAnswered(): boolean {
    return this.#hasAnswered;
  }

  start(): void {
    this.#cancel = this.#deps.clock.schedule(this.#pauseMs(), () => void this.#askOnce());
  }

  /** Often at first: what hangs soon after its start has answered before, then. */
  #pauseMs(): number {
    const { periodMs, againMs } = this.#options;
    if (this.#hasLastAnswered) return periodMs;
    const pauseMs = Math.min(periodMs, againMs);
    return this.#hasAnswered ? pauseMs : Math.min(pauseMs, firstPauseMs * 2 ** this.#failures);
  }

  stop(): void {
    this.#cancel();
    this.#stopping.abort(new Error('stopped'));
  }

  async #askOnce(): Promise<void> {
    const { clock } = this.#deps;
    const late = new AbortController();
    const cancel = clock.schedule(this.#options.timeoutMs, () => late.abort(new Error('no answer')));
    const asked = this.#options.ask(AbortSignal.any([late.signal, this.#stopping.signal]));
    const outcome = await asked.catch((error: unknown) => ({ error }));
    cancel();
    if (this.#stopping.signal.aborted) return;
    this.#note(outcome);
    // What was not asked now is not ended now, whatever it did before.
    if (outcome !== false || !this.#isHung()) return this.start();
    this.stop();
    this.#deps.onHung(clock.monotonicMs() - this.#answeredMs);
  }

  #note(outcome: boolean | { readonly error: unknown }): void {
    this.#hasLastAnswered = outcome === true;
    if (typeof outcome === 'object') this.#deps.onUnasked(outcome.error);
    else if (outcome) {
      this.#hasAnswered = true;
      this.#answeredMs = this.#deps.clock.monotonicMs();
      this.#failures = 0;
    } else this.#failures++;
  }

  #isHung(): boolean {
    if (this.#failures < this.#options.failures) return false;
    if (this.#hasAnswered) return true;
    return !this.#mayBeLate && this.#deps.clock.monotonicMs() - this.#answeredMs > this.#options.startMs;
  }
}

/**
 * Asks `GET /livez`, over TLS where it is no Unix socket: any answer will do, and so does a connection that is closed, as a server
 * does with one too many. None: silence, no listener, and a queue of a Unix socket that the program does not empty.
 * Any other error is of this side, and rejects. Nothing secret is sent and nothing of the answer is used: no certificate is checked.
 */
export function askLivez(
  where: { readonly host: string; readonly port: number } | { readonly socketPath: string },
): AskHealth {
  return (signal) =>
    new Promise((resolve, reject) => {
      const onAnswer = (response: IncomingMessage) => {
        response.resume();
        resolve(true);
      };
      const options: RequestOptions = { ...where, path: '/livez', agent: false, signal };
      const asking =
        'socketPath' in where
          ? httpRequest(options, onAnswer)
          : httpsRequest({ ...options, rejectUnauthorized: false }, onAnswer);
      asking.once('error', (error) => {
        const code = errorCode(error);
        if (signal.aborted || code === 'ECONNREFUSED') resolve(false);
        else if (code === 'ECONNRESET') resolve(true);
        // Told at once (connect(2)), but a program that is merely busy has as long as for an answer.
        else if (code === 'EAGAIN' && 'socketPath' in where)
          signal.addEventListener('abort', () => resolve(false), { once: true });
        else reject(error);
      });
      asking.end();
    });
}
