import { type Clock, errorMessage, type Logger } from '../../../base/index.ts';
import type { NodeProblem, ProblemSource } from '../ports.ts';

export interface SteadyProblemsDeps {
  readonly clock: Pick<Clock, 'monotonicMs'>;
  readonly log: Logger;
}

/** A source that fails is reported again after so many failures in a row. */
const reportEvery = 100;

/**
 * Problems of a source that may fail itself: then what it said last counts, and it is asked on. One that has never said anything
 * is a problem: it is not known whether the node is well.
 */
export class SteadyProblems implements ProblemSource {
  readonly #source: ProblemSource;
  readonly #deps: SteadyProblemsDeps;
  #last: readonly NodeProblem[] | undefined;
  #failures = 0;

  constructor(source: ProblemSource, deps: SteadyProblemsDeps) {
    this.#source = source;
    this.#deps = deps;
  }

  problems(): readonly NodeProblem[] {
    try {
      this.#last = this.#source.problems();
      this.#failures = 0;
    } catch (error) {
      this.#last ??= [this.#unknown(errorMessage(error))];
      if (this.#failures++ % reportEvery === 0) {
        this.#deps.log.error(
          { reason: errorMessage(error) },
          'the health of the node cannot be read; its last one counts',
        );
      }
    }
    return this.#last;
  }

  onChange(listener: () => void): () => void {
    return this.#source.onChange(listener);
  }

  #unknown(cause: string): NodeProblem {
    const message = `a part of the agent cannot tell whether the node is well (${cause}): delete the agent's pod, and report this`;
    return { source: 'agent', reason: 'HealthUnknown', message, sinceMs: this.#deps.clock.monotonicMs() };
  }
}
