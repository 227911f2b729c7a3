import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { openSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { eventually } from '../fixtures/eventually.ts';
import { childrenOf, type Place } from './place.ts';

/** Of the last run: made empty by scripts/kubelet-parts.mjs. */
export const logsDir = path.resolve('.build/kubelet/logs');

export const logOf = (place: Place, name: string) =>
  path.join(logsDir, `${name}${place.isHere ? '' : `-${path.basename(place.dir)}`}.log`);

/** A daemon with a log file: started, killed, started again. */
export class Program {
  readonly #command: string;
  readonly #args: readonly string[];
  readonly #logFile: string;
  readonly #place: Place | undefined;
  #child: ChildProcess | undefined;

  /** `place`: where it runs, when that is not here. */
  constructor(command: string, args: readonly string[], logFile: string, place?: Place) {
    [this.#command = command, ...this.#args] = place?.commandLine(command, args) ?? [command, ...args];
    this.#logFile = logFile;
    this.#place = place;
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
    this.#signal(child, signal);
    const force = setTimeout(() => this.#signal(child, 'SIGKILL'), 10_000);
    await ended;
    clearTimeout(force);
  }

  /** What brings a program to another place waits for its end, and hands no signal on. */
  #signal(child: ChildProcess, signal: NodeJS.Signals): void {
    const [inner] = this.#place?.isHere === false ? childrenOf(child.pid ?? 0) : [];
    if (inner === undefined) child.kill(signal);
    else process.kill(inner, signal);
  }

  log(lines = 20): string {
    return readFileSync(this.#logFile, 'utf8').split('\n').slice(-lines).join('\n');
  }
}
