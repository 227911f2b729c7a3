import { mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import fc from 'fast-check';
import { type FuzzOptions, readOptions } from './options.ts';
import { type Place, Progress } from './progress.ts';
import { type Finding, type Report, Run } from './run.ts';
import { shown } from './shown.ts';
import type { Target } from './target.ts';
import { watched } from './watched.ts';

const program = process.argv[1] ?? '';
/** Where inputs that failed are kept whole. */
const keptDir = path.resolve('.build/fuzz');
const shownLength = 2_000;
/** The file descriptor that a child finds open. */
const progressFd = 4;

/**
 * A test that feeds a parser with foreign input for the time budget, in a process of its own. It fails when the parser throws what
 * it does not promise, hangs, ends its process, keeps memory or takes more than linear time, and when the inputs do not reach
 * its inside.
 */
export function fuzz<T>(name: string, target: Target<T>): void {
  declareTarget(name, target);
  if (process.env.FUZZ_CHILD !== undefined) return;
  const only = process.env.FUZZ_TARGET;
  if (only !== undefined && only !== name) return;
  test(name, async (t) => {
    const { line, problem } = await fuzzInChild(name);
    t.diagnostic(`${name}: ${line}`);
    if (problem !== undefined) throw new Error(problem);
  });
}

/** In a child: the target is run when it is the one that was asked for. Elsewhere nothing happens. */
export function declareTarget<T>(name: string, target: Target<T>): void {
  if (process.env.FUZZ_CHILD === name) setImmediate(() => void runAsChild(target));
}

async function runAsChild<T>(target: Target<T>): Promise<void> {
  const options = readOptions(process.env);
  const show = process.env.FUZZ_SHOW;
  const answer = show
    ? { finding: { what: '', input: inputAt(target, JSON.parse(show) as Place) } }
    : await new Run(target, options, new Progress(progressFd)).report();
  process.send?.(answer, () => process.exit(0));
}

/** The input at a place, made again. */
function inputAt<T>(target: Target<T>, { stage, index, size }: Place): string {
  if (stage === 'known') return shown(target.known?.[index]);
  if (stage === 'growing') {
    const [name, make] = Object.entries(target.growing ?? {})[index] ?? [];
    return `${name} of ${size} bytes: ${shown(make?.(size))}`;
  }
  return shown(fc.sample(target.input, { seed: size, path: String(index), numRuns: 1 })[0]);
}

export interface Outcome {
  /** What was done, in a line. */
  readonly line: string;
  /** What was found, with the input and how to see it again. */
  readonly problem: string | undefined;
}

/** `given` goes before what the environment says. */
export async function fuzzInChild(name: string, given: Partial<FuzzOptions> = {}): Promise<Outcome> {
  const options = { ...readOptions(process.env), ...given };
  const { report, why, place } = await watched(program, { target: name, options });
  if (report) {
    const { finding } = report;
    return { line: lineOf(report), problem: finding && reported(name, { seed: options.seed, ...finding }) };
  }
  const show = await watched(program, { target: name, options, show: place });
  const input = show.report?.finding?.input ?? '(the input could not be made again)';
  const path = place.stage === 'random' ? { path: String(place.index), seed: place.size } : {};
  return {
    line: why,
    problem: reported(name, { what: `${why} (${place.stage} input)`, input, seed: options.seed, ...path }),
  };
}

function lineOf({ runs, seconds, accepted, slowestMs, heapGrowthBytes, grown }: Report): string {
  const growth = (heapGrowthBytes / 2 ** 20).toFixed(1);
  const share = Math.round((100 * accepted) / Math.max(1, runs));
  const rate = Math.round(runs / seconds);
  return `${runs} runs, ${rate}/s, ${share} % accepted, slowest ${Math.round(slowestMs)} ms, heap ${growth} MiB, growing ${grown}`;
}

function reported(name: string, { what, path: place, seed, input }: Finding & { readonly seed: number }): string {
  mkdirSync(keptDir, { recursive: true });
  const file = path.join(keptDir, `${name.replace(/[^a-z0-9]+/gi, '-')}.txt`);
  writeFileSync(file, `seed ${seed}\npath ${place ?? ''}\n${what}\n\n${input}\n`);
  const replay = `FUZZ_TARGET=${JSON.stringify(name)} FUZZ_SEED=${seed}${place === undefined ? '' : ` FUZZ_PATH=${place}`} node scripts/test.mjs fuzz`;
  const short = input.length > shownLength ? `${input.slice(0, shownLength)}… (${input.length} characters)` : input;
  return `${what.slice(0, shownLength)}\ninput: ${short}\nwhole input: ${file}\nagain: ${replay}`;
}
