import type { Clock, Component } from '../../base/index.ts';
import type { NodeProblem, ProblemSource } from '../node-ports.ts';

/** All problems of several sources. */
export function allProblems(sources: readonly ProblemSource[]): ProblemSource {
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

/** Something that is wrong now; since when is found out by whoever looks. */
export type Finding = Omit<NodeProblem, 'sinceMs'>;

export interface PolledProblemsDeps {
  /** Cheap: it is asked every few seconds as long as the agent lives. */
  readonly look: () => readonly Finding[];
  readonly clock: Clock;
}

/** Problems of parts that can be asked but tell nothing by themselves. */
export class PolledProblems implements ProblemSource, Component {
  readonly name: string;
  readonly #everyMs: number;
  readonly #deps: PolledProblemsDeps;
  readonly #listeners = new Set<() => void>();
  #problems: readonly NodeProblem[] = [];
  #cancel: (() => void) | undefined;

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
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  #look(): void {
    const { look, clock } = this.#deps;
    this.#cancel = clock.schedule(this.#everyMs, () => this.#look());
    const before = this.#problems;
    const known = (reason: string) => before.find((problem) => problem.reason === reason);
    this.#problems = look().map((found) => ({
      ...found,
      sinceMs: known(found.reason)?.sinceMs ?? clock.monotonicMs(),
    }));
    const isSame =
      before.length === this.#problems.length && this.#problems.every(({ reason }) => known(reason) !== undefined);
    if (isSame) return;
    for (const listener of [...this.#listeners]) listener();
  }
}
