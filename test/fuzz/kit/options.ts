/** How a fuzzing process is told what to do; the names are those of its environment. */
export interface FuzzOptions {
  /** `FUZZ_SECONDS`, set by `--fuzz-seconds=N`: what each target may use for random inputs. */
  readonly seconds: number;
  /** `FUZZ_SEED`: of a run that is to be done again. Random where more than the usual time is asked for. */
  readonly seed: number;
  /** `FUZZ_PATH`: the one input of that run. */
  readonly path: string | undefined;
  /** Processor time of one input, in milliseconds, after which its process is ended. */
  readonly killMs: number;
}

/** About eighty targets, two at a time: about two minutes in all. */
export const defaultSeconds = 1;
const usualSeed = 1;

export function readOptions(env: NodeJS.ProcessEnv): FuzzOptions {
  return {
    seconds: Number(env.FUZZ_SECONDS ?? defaultSeconds),
    // A change is judged by the same inputs each time; who gives it more time looks for new ones.
    seed: Number(env.FUZZ_SEED ?? (env.FUZZ_SECONDS === undefined ? usualSeed : Math.floor(Math.random() * 2 ** 31))),
    path: env.FUZZ_PATH,
    killMs: 6_000,
  };
}

/** Limits of one input, beyond which the process that reads it is ended. */
export const limits = {
  /** Of processor time: one that comes to an end, but later than this, is a finding that can be made smaller. */
  hangMs: 2_000,
  /** For one that waits for something that never comes. */
  waitMs: 30_000,
  heapMiB: 768,
  rssBytes: 1_536 * 2 ** 20,
  /** Of memory that is in use after all inputs. */
  growthBytes: 8 * 2 ** 20,
} as const;
