import fc from 'fast-check';
import { Budget } from './budget.ts';
import { Growing } from './growing.ts';
import { HeapWatch } from './heap-watch.ts';
import { type FuzzOptions, limits } from './options.ts';
import type { Place, Progress } from './progress.ts';
import { shown } from './shown.ts';
import type { Target } from './target.ts';

export interface Finding {
  readonly what: string;
  /** Of a random input: what `FUZZ_PATH` takes. */
  readonly path?: string;
  /** What `FUZZ_SEED` takes. */
  readonly seed?: number;
  readonly input: string;
}

export interface Report {
  readonly runs: number;
  readonly seconds: number;
  readonly accepted: number;
  readonly refused: number;
  readonly slowestMs: number;
  readonly heapGrowthBytes: number;
  readonly grown: number;
  readonly finding?: Finding;
}

const shrinkMs = 10_000;
const batchRuns = 2_000;
/** From as many on a share says something. */
const reportingRuns = 100;

/** Reads inputs for the time given: the known ones, random ones, and some that grow. Runs in a process of its own. */
export class Run<T> {
  readonly #target: Target<T>;
  readonly #options: FuzzOptions;
  readonly #progress: Progress;
  readonly #heap: HeapWatch;
  readonly #counts = { accepted: 0, refused: 0 };
  #runs = 0;
  #inBatch = 0;
  #batchSeed = 0;
  #slowestMs = 0;
  #grown = 0;

  constructor(target: Target<T>, options: FuzzOptions, progress: Progress) {
    this.#target = target;
    this.#options = options;
    this.#progress = progress;
    this.#heap = new HeapWatch(options.seconds);
  }

  async report(): Promise<Report> {
    const startMs = performance.now();
    const finding = (await this.#knownFinding()) ?? (await this.#randomFinding());
    const seconds = (performance.now() - startMs) / 1000;
    const last = finding ?? (this.#options.path === undefined ? await this.#lastFinding() : undefined);
    this.#progress.write({ stage: 'end', index: 0, size: 0 });
    return {
      runs: this.#runs,
      seconds,
      ...this.#counts,
      slowestMs: this.#slowestMs,
      heapGrowthBytes: this.#heap.growthBytes,
      grown: this.#grown,
      ...(last && { finding: last }),
    };
  }

  async #knownFinding(): Promise<Finding | undefined> {
    for (const [index, value] of (this.#target.known ?? []).entries()) {
      try {
        await this.#read(value, { stage: 'known', index, size: 0 });
      } catch (error) {
        return { what: `known input ${index}: ${reported(error)}`, input: shown(value) };
      }
    }
    return undefined;
  }

  /** In batches, each with a seed of its own, until the time is used: that of the processor, as the machine has other work, too. */
  async #randomFinding(): Promise<Finding | undefined> {
    const { seed, path } = this.#options;
    this.#heap.start();
    const property = fc.asyncProperty(this.#target.input, async (value) => {
      await this.#read(value, { stage: 'random', index: this.#inBatch++, size: this.#batchSeed });
      this.#runs++;
      this.#heap.look();
    });
    const budget = new Budget(this.#options.seconds);
    for (let batch = 0; !budget.isUsed; batch++) {
      this.#batchSeed = (seed + batch * 7919) % 2 ** 31;
      this.#inBatch = 0;
      const found = await this.#batch(property, budget);
      if (found) return found;
      if (path !== undefined) break;
    }
    this.#heap.end();
    return undefined;
  }

  async #batch(property: fc.IAsyncProperty<[T]>, budget: Budget): Promise<Finding | undefined> {
    const { path } = this.#options;
    const seed = this.#batchSeed;
    const details = await fc.check(property, {
      seed,
      ...(path === undefined ? { numRuns: batchRuns } : { path, numRuns: 1 }),
      interruptAfterTimeLimit: budget.leftMs,
    });
    // Without a counterexample it only had no time left for a single run.
    if (!details.failed || details.counterexample === null) return undefined;
    return findingOf(await smaller(property, seed, details), seed);
  }

  /** What only shows when all inputs were read. */
  async #lastFinding(): Promise<Finding | undefined> {
    const missing = this.#missing();
    if (missing) return { what: missing, input: '' };
    if (this.#heap.isLeaking) {
      const mebibytes = Math.round(this.#heap.growthBytes / 2 ** 20);
      return { what: `${mebibytes} MiB more memory is in use with every look: ${this.#heap}`, input: '' };
    }
    const growing = new Growing(this.#target, this.#options, (value, place) => this.#read(value, place));
    const finding = await growing.finding();
    this.#grown = growing.measured;
    return finding === undefined ? undefined : { what: finding, input: '' };
  }

  #missing(): string | undefined {
    const { accepted, refused } = this.#counts;
    const wanted = this.#target.acceptedPercent ?? 2;
    if (this.#runs === 0) return 'not a single input was read';
    if (accepted === 0 || (this.#runs >= reportingRuns && accepted * 100 < wanted * this.#runs))
      return `${accepted} of ${this.#runs} inputs were accepted, which is less than ${wanted} %: the parser's inside is not reached`;
    if (refused === 0 && this.#runs >= reportingRuns && !this.#target.refusesNothing)
      return 'not a single input was refused';
    return undefined;
  }

  /** Gives what it took of the processor, in milliseconds. */
  async #read(value: T, place: Place): Promise<number> {
    this.#progress.write(place);
    const startMs = performance.now();
    const cpuBefore = process.cpuUsage();
    const verdict = await this.#target.parse(value);
    if (place.stage === 'random') this.#counts[verdict]++;
    const tookMs = performance.now() - startMs;
    this.#slowestMs = Math.max(this.#slowestMs, tookMs);
    const { user, system } = process.cpuUsage(cpuBefore);
    const cpuMs = (user + system) / 1000;
    const { hangMs = limits.hangMs } = this.#target;
    if (cpuMs > hangMs) throw new Error(`one input took ${Math.round(cpuMs)} ms, more than ${hangMs} ms`);
    return cpuMs;
  }
}

/** The time limit may have come right after the failure, before there was time to look for a smaller one. */
async function smaller<T>(
  property: fc.IAsyncProperty<[T]>,
  seed: number,
  details: fc.RunDetails<[T]>,
): Promise<fc.RunDetails<[T]>> {
  if (details.counterexamplePath === null) return details;
  const path = details.counterexamplePath;
  const again = await fc.check(property, { seed, path, interruptAfterTimeLimit: shrinkMs });
  return again.failed ? again : details;
}

function findingOf<T>(details: fc.RunDetails<[T]>, seed: number): Finding {
  const { counterexample, counterexamplePath, errorInstance } = details;
  return {
    seed,
    what: reported(errorInstance),
    ...(counterexamplePath !== null && { path: counterexamplePath }),
    input: shown(counterexample?.[0]),
  };
}

function reported(error: unknown): string {
  return error instanceof Error ? (error.stack ?? String(error)) : String(error);
}
