import { fork } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, mkdtempSync, openSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { type FuzzOptions, limits } from './options.ts';
import { type Place, Progress, usageOf } from './progress.ts';
import type { Report } from './run.ts';

const lookMs = 100;

export interface Watched {
  /** Undefined: it came to no end of its own. */
  readonly report: Report | undefined;
  /** Why it was ended, or how it ended. */
  readonly why: string;
  /** What it worked on last. */
  readonly place: Place;
}

/** What the process of a target is told by its environment. */
export interface Order {
  readonly target: string;
  readonly options: FuzzOptions;
  /** Tell this input and read none. */
  readonly show?: Place;
}

/**
 * Runs a target of the program in a process of its own. A parser that hangs can only be stopped from outside, and one that ends
 * its process leaves the rest alone.
 */
export async function watched(program: string, order: Order): Promise<Watched> {
  const dir = mkdtempSync(path.join(tmpdir(), 'fuzz-'));
  const fd = openSync(path.join(dir, 'progress'), 'w+');
  const progress = new Progress(fd);
  progress.write({ stage: 'start', index: 0, size: 0 });
  const child = fork(program, {
    execArgv: ['--enable-source-maps', '--expose-gc', `--max-old-space-size=${limits.heapMiB}`],
    env: environment(order),
    stdio: ['ignore', 'ignore', 'pipe', 'ipc', fd],
  });
  let report: Report | undefined;
  child.on('message', (message) => {
    report = message as Report;
  });
  const stderr: string[] = [];
  child.stderr?.setEncoding('utf8').on('data', (text: string) => {
    if (stderr.length < 64) stderr.push(text);
  });
  const guard = new Guard(child.pid ?? 0, progress, order.options.killMs);
  const timer = setInterval(() => {
    if (guard.look() !== undefined) child.kill('SIGKILL');
  }, lookMs);
  const [code, signal] = await once(child, 'close');
  clearInterval(timer);
  const place = progress.read();
  closeSync(fd);
  rmSync(dir, { recursive: true });
  return {
    report,
    place,
    why: guard.why ?? `the process ended with ${signal ?? code}: ${stderr.join('').slice(0, 4000)}`,
  };
}

function environment({ target, options, show }: Order): NodeJS.ProcessEnv {
  const { NODE_TEST_CONTEXT: _isChildOfTest, FUZZ_PATH: _path, ...rest } = process.env;
  return {
    ...rest,
    FUZZ_CHILD: target,
    FUZZ_SECONDS: String(options.seconds),
    FUZZ_SEED: String(options.seed),
    ...(options.path !== undefined && { FUZZ_PATH: options.path }),
    ...(show && { FUZZ_SHOW: JSON.stringify(show) }),
  };
}

/** Judges whether a process still gets on. */
class Guard {
  readonly #pid: number;
  readonly #progress: Progress;
  readonly #killMs: number;
  #seen = '';
  #sinceMs = 0;
  #cpuMs = 0;
  why: string | undefined;

  constructor(pid: number, progress: Progress, killMs: number) {
    this.#pid = pid;
    this.#progress = progress;
    this.#killMs = killMs;
  }

  /** Why it has to be ended; undefined: it may go on. */
  look(): string | undefined {
    const usage = usageOf(this.#pid);
    if (!usage) return undefined;
    const { stage, index, size } = this.#progress.read();
    const now = `${stage} ${index} ${size}`;
    if (now !== this.#seen) {
      this.#seen = now;
      this.#sinceMs = performance.now();
      this.#cpuMs = usage.cpuMs;
    }
    this.why ??= this.#problem(usage);
    return this.why;
  }

  #problem({ cpuMs, rssBytes }: { readonly cpuMs: number; readonly rssBytes: number }): string | undefined {
    if (cpuMs - this.#cpuMs > this.#killMs) return `it hangs: ${cpuMs - this.#cpuMs} ms of work on one input`;
    if (performance.now() - this.#sinceMs > limits.waitMs) return `it waits for ${limits.waitMs} ms on one input`;
    return rssBytes > limits.rssBytes ? `its memory grew to ${Math.round(rssBytes / 2 ** 20)} MiB` : undefined;
  }
}
