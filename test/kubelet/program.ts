import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { openSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { eventually } from '../fixtures/eventually.ts';

/** Of the last run: made empty by scripts/kubelet-parts.mjs. */
export const logsDir = path.resolve('.build/kubelet/logs');

/** A daemon with a log file: started, killed, started again. */
export class Program {
  readonly #command: string;
  readonly #args: readonly string[];
  readonly #logFile: string;
  #child: ChildProcess | undefined;

  constructor(command: string, args: readonly string[], logFile: string) {
    this.#command = command;
    this.#args = args;
    this.#logFile = logFile;
  }

  /** Resolves when `ready` does not throw any more. */
  async start(ready: () => void | Promise<void> | unknown): Promise<void> {
    const log = openSync(this.#logFile, 'a');
    const child = spawn(this.#command, this.#args, { stdio: ['ignore', log, log] });
    this.#child = child;
    await eventually(async () => {
      if (child.exitCode !== null) throw new Error(`${this.#command} ended with ${child.exitCode}: ${this.log()}`);
      await ready();
    }, 60_000);
  }

  /** As one that crashes. */
  kill(): Promise<void> {
    return this.stop('SIGKILL');
  }

  async stop(signal: NodeJS.Signals = 'SIGTERM'): Promise<void> {
    const child = this.#child;
    this.#child = undefined;
    if (!child || child.exitCode !== null || child.signalCode !== null) return;
    const ended = once(child, 'exit');
    child.kill(signal);
    const force = setTimeout(() => child.kill('SIGKILL'), 10_000);
    await ended;
    clearTimeout(force);
  }

  log(lines = 20): string {
    return readFileSync(this.#logFile, 'utf8').split('\n').slice(-lines).join('\n');
  }
}
