import type { ChildProcess } from 'node:child_process';
import { sleep } from '../src/base/index.ts';

/** Asks every 10 ms until there is an answer; rejects after `timeoutMs`. */
export async function waitFor<T>(what: string, timeoutMs: number, probe: () => Promise<T | undefined>): Promise<T> {
  const end = performance.now() + timeoutMs;
  for (;;) {
    const found = await probe();
    if (found !== undefined) return found;
    if (performance.now() > end) throw new Error(`${what}: not within ${timeoutMs} ms`);
    await sleep(10);
  }
}

export async function ended(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  await new Promise((resolve) => child.once('exit', resolve));
}

/** Kills what does not end by a signal. */
export async function endBy(child: ChildProcess, signal: NodeJS.Signals): Promise<void> {
  child.kill(signal);
  const force = setTimeout(() => child.kill('SIGKILL'), 20_000);
  await ended(child);
  clearTimeout(force);
}
