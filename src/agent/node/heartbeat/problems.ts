import { type Clock, type Component, errorMessage, Listeners, type Logger } from '../../../base/index.ts';
import type { NodeProblem, ProblemSource } from '../ports.ts';
import { SteadyProblems, type SteadyProblemsDeps } from './steady-problems.ts';

/** All problems of several sources, of which none that fails takes the others with it. */
export function allProblems(given: readonly ProblemSource[], deps: SteadyProblemsDeps): ProblemSource {
  const sources = given.map((source) => new SteadyProblems(source, deps));
  return {
    problems: () => sources.flatMap((source) => source.problems()),
    onChange: (listener) => {
      const ends = sources.map((source) => source.onChange(listener));
      return () => {
        for (const end of ends) end();
      };
    },
  };
}

/** Something that is wrong now; since when is found out by who looks. */
export type Finding = Omit<NodeProblem, 'sinceMs'>;

export interface PolledProblemsDeps {
  /** Cheap: it is asked every few seconds as long as the agent lives. */
  readonly look: () => readonly Finding[];
  readonly clock: Clock;
  readonly log: Logger;
}

/** Problems of parts that can be asked but notify of nothing by themselves. A look that fails changes nothing. */
export class PolledProblems implements ProblemSource, Component {
  readonly name: string;
  readonly #everyMs: number;
  readonly #deps: PolledProblemsDeps;
  readonly #listeners = new Listeners();
  #problems: readonly NodeProblem[] = [];
  #cancel: (() => void) | undefined;
  #failure: string | undefined;

  constructor({ name, everyMs }: { readonly name: string; readonly everyMs: number }, deps: PolledProblemsDeps) {
    this.name = name;
    this.#everyMs = everyMs;
    this.#deps = deps;
  }

  async start(): Promise<void> {
    this.#look();
  }

  async stop(): Promise<void> {
    this.#cancel?.();
  }

  problems(): readonly NodeProblem[] {
    return this.#problems;
  }

  onChange(listener: () => void): () => void {
    return this.#listeners.add(listener);
  }

  #look(): void {
    const { clock } = this.#deps;
    this.#cancel = clock.schedule(this.#everyMs, () => this.#look());
    const found = this.#found();
    if (!found) return;
    const before = this.#problems;
    const known = (reason: string) => before.find((problem) => problem.reason === reason);
    this.#problems = found.map((one) => ({ ...one, sinceMs: known(one.reason)?.sinceMs ?? clock.monotonicMs() }));
    const isSame =
      before.length === this.#problems.length && this.#problems.every(({ reason }) => known(reason) !== undefined);
    if (!isSame) this.#listeners.notify();
  }

  #found(): readonly Finding[] | undefined {
    try {
      const found = this.#deps.look();
      this.#failure = undefined;
      return found;
    } catch (error) {
      const failure = errorMessage(error);
      if (failure !== this.#failure) {
        this.#deps.log.error({ look: this.name, reason: failure }, 'a look at the health of the node failed');
      }
      this.#failure = failure;
      return undefined;
    }
  }
}
