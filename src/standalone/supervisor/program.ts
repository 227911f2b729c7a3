import { type ChildProcess, spawn } from 'node:child_process';
import { mkdir, open, rm } from 'node:fs/promises';
import path from 'node:path';
import {
  backoffDelayMs,
  type Clock,
  type Component,
  errorMessage,
  type Logger,
  systemClock,
} from '../../base/index.ts';
import { rotateLog } from '../../host/index.ts';
import { NodeError } from '../errors.ts';
import { readIfThere, writeFileAtomic } from '../files.ts';
import {
  formatIdentity,
  identifyProcess,
  isAlive,
  type ProcessIdentity,
  parseIdentity,
  signalProcess,
} from '../process-identity.ts';
import { type HealthOptions, HealthWatch } from './health-watch.ts';

export interface ProgramOptions {
  readonly name: string;
  readonly argv: readonly [string, ...string[]];
  readonly env: Readonly<Record<string, string | undefined>>;
  /** stdout and stderr, appended. */
  readonly logFile: string;
  /** Pid and start time, for a supervisor that comes after this one. */
  readonly pidFile: string;
  /** From SIGTERM to SIGKILL. */
  readonly stopTimeoutMs?: number;
  /** How to find out that the program hangs; without it only its end is noticed. */
  readonly health?: HealthOptions;
}

export interface ProgramDeps {
  readonly log: Logger;
  readonly clock?: Clock;
}

export type ProgramState =
  | { readonly kind: 'stopped' }
  | { readonly kind: 'running'; readonly pid: number; readonly restarts: number }
  | { readonly kind: 'waiting'; readonly restarts: number; readonly lastExit: string };

const restartBackoff = { baseMs: 200, maxMs: 10_000 };
/** A program that was up for this long begins its back-off anew. */
const settledMs = 10_000;
const logCheckMs = 60_000;
const recordRetryMs = 1_000;
/** What keeps the supervisor from asking keeps it from asking every five seconds. */
const unaskedLogMs = 600_000;

/**
 * One program of the node, kept running: what dies, or no longer answers, is started again after back-off. It is in a session of its own, so that
 * Ctrl-C in a terminal reaches the supervisor only. Whatever an earlier supervisor left is ended first.
 */
export class Program implements Component {
  readonly name: string;
  readonly #options: ProgramOptions;
  readonly #log: Logger;
  readonly #clock: Clock;
  #child: ChildProcess | undefined;
  #exited: Promise<void> = Promise.resolve();
  #cancelTimer: () => void = () => undefined;
  #cancelLogCheck: () => void = () => undefined;
  #cancelRecord: () => void = () => undefined;
  #health: HealthWatch | undefined;
  #hasAnswered = false;
  #isHung = false;
  #unaskedReportMs = Number.NEGATIVE_INFINITY;
  #wanted = false;
  #failures = 0;
  #restarts = 0;
  #startedMs = 0;
  #lastExit = '';

  constructor(options: ProgramOptions, deps: ProgramDeps) {
    this.name = options.name;
    this.#options = options;
    this.#log = deps.log.child({ program: options.name });
    this.#clock = deps.clock ?? systemClock;
  }

  get state(): ProgramState {
    if (this.#child?.pid) return { kind: 'running', pid: this.#child.pid, restarts: this.#restarts };
    return this.#wanted ? { kind: 'waiting', restarts: this.#restarts, lastExit: this.#lastExit } : { kind: 'stopped' };
  }

  /** Whether it has answered to its supervisor; what never has is not ended for silence. */
  get hasAnswered(): boolean {
    return this.#hasAnswered || (this.#health?.hasAnswered ?? false);
  }

  /** Resolves when the program's process exists; rejects when it cannot be made. */
  async start(): Promise<void> {
    await endLeftover(this.#options.pidFile, this.#options.stopTimeoutMs ?? 5_000);
    this.#wanted = true;
    await this.#spawn();
    this.#checkLog();
  }

  async stop(): Promise<void> {
    this.#wanted = false;
    this.#cancelTimer();
    this.#cancelLogCheck();
    this.#health?.stop();
    if (this.#child) await this.#end(this.#child);
    await rm(this.#options.pidFile, { force: true });
  }

  async #end(child: ChildProcess): Promise<void> {
    child.kill('SIGTERM');
    const cancel = this.#clock.schedule(this.#options.stopTimeoutMs ?? 5_000, () => {
      this.#log.warn('program did not end in time and is killed');
      child.kill('SIGKILL');
    });
    await this.#exited;
    cancel();
  }

  /** Lets it run on without a supervisor; the next one ends it and starts its own. */
  leave(): void {
    this.#wanted = false;
    this.#cancelTimer();
    this.#cancelLogCheck();
    this.#cancelRecord();
    this.#health?.stop();
    this.#child?.unref();
  }

  /** Tells it to read its files again, by SIGHUP. */
  reload(): void {
    this.#child?.kill('SIGHUP');
  }

  /** Ends the program at once; for the second Ctrl-C. */
  kill(): void {
    this.#wanted = false;
    this.#cancelTimer();
    this.#health?.stop();
    this.#child?.kill('SIGKILL');
  }

  async #spawn(): Promise<void> {
    const { argv, env, logFile } = this.#options;
    const [command, ...args] = argv;
    await mkdir(path.dirname(logFile), { recursive: true });
    const log = await open(logFile, 'a');
    try {
      const child = spawn(command, args, { cwd: '/', detached: true, env, stdio: ['ignore', log.fd, log.fd] });
      await new Promise<void>((resolve, reject) => {
        child.once('spawn', resolve);
        child.once('error', (cause) =>
          reject(new NodeError('CHILD_FAILED', `${this.name} cannot be started: ${errorMessage(cause)}`, { cause })),
        );
      });
      this.#child = child;
      this.#startedMs = this.#clock.monotonicMs();
      this.#exited = new Promise((resolve) => {
        child.once('exit', (code, signal) => {
          const how = signal ?? `code ${code}`;
          this.#onExit(this.#isHung ? `${how}, because it did not answer` : how);
          resolve();
        });
      });
      const identity = child.pid === undefined ? undefined : await identifyProcess(child.pid);
      if (identity) await this.#record(child, formatIdentity(identity));
      this.#log.info({ pid: child.pid }, 'program started');
      this.#watchHealth(child);
    } finally {
      await log.close();
    }
  }

  /** A program without a record would not be found by a later supervisor. That a disk is full ends no program: it is recorded when there is room again. */
  async #record(child: ChildProcess, text: string, isRepeated = false): Promise<void> {
    try {
      await writeFileAtomic(this.#options.pidFile, text);
    } catch (error) {
      if (!isRepeated)
        this.#log.warn({ err: errorMessage(error) }, 'program could not be recorded, which is tried again');
      this.#cancelRecord = this.#clock.schedule(recordRetryMs, () => {
        if (this.#child === child) void this.#record(child, text, true);
      });
    }
  }

  #watchHealth(child: ChildProcess): void {
    const { health } = this.#options;
    this.#isHung = false;
    if (!health || this.#child !== child) return;
    const onHung = (unansweredMs: number) => {
      this.#isHung = true;
      this.#log.error(
        { pid: child.pid, unansweredMs: Math.round(unansweredMs) },
        'program does not answer and is ended',
      );
      void this.#end(child);
    };
    const onUnasked = (error: unknown) => this.#reportUnasked(error);
    this.#health = new HealthWatch(health, this.#hasAnswered, { clock: this.#clock, onHung, onUnasked });
    this.#health.start();
  }

  #reportUnasked(error: unknown): void {
    const nowMs = this.#clock.monotonicMs();
    if (nowMs < this.#unaskedReportMs + unaskedLogMs) return;
    this.#unaskedReportMs = nowMs;
    this.#log.warn({ err: errorMessage(error) }, 'program could not be asked whether it serves');
  }

  #onExit(how: string): void {
    this.#child = undefined;
    this.#cancelRecord();
    this.#health?.stop();
    this.#hasAnswered = this.hasAnswered;
    this.#health = undefined;
    this.#lastExit = how;
    if (!this.#wanted) return;
    if (this.#clock.monotonicMs() - this.#startedMs > settledMs) this.#failures = 0;
    this.#failures++;
    this.#restarts++;
    const delayMs = backoffDelayMs(this.#failures, restartBackoff);
    this.#log.warn({ exit: how, delayMs, restarts: this.#restarts }, 'program ended and will be started again');
    this.#cancelTimer = this.#clock.schedule(delayMs, () => {
      if (!this.#wanted) return;
      this.#spawn().catch((error: unknown) => {
        this.#log.error({ err: errorMessage(error) }, 'program could not be started again');
        this.#onExit('not started');
      });
    });
  }

  #checkLog(): void {
    this.#cancelLogCheck = this.#clock.schedule(logCheckMs, () => {
      rotateLog(this.#options.logFile)
        .catch((error: unknown) => this.#log.warn({ err: errorMessage(error) }, 'log could not be rotated'))
        .finally(() => {
          if (this.#wanted) this.#checkLog();
        });
    });
  }
}

/** Ends the process that a pid file names, if it is still that process. */
export async function endLeftover(pidFile: string, timeoutMs: number): Promise<void> {
  const identity = parseIdentity((await readIfThere(pidFile)) ?? '');
  if (identity && (await signalProcess(identity, 'SIGTERM')) && !(await untilGone(identity, timeoutMs))) {
    await signalProcess(identity, 'SIGKILL');
    await untilGone(identity, timeoutMs);
  }
  await rm(pidFile, { force: true });
}

/** True when the process ended in time. */
export async function untilGone(identity: ProcessIdentity, timeoutMs: number): Promise<boolean> {
  const endMs = performance.now() + timeoutMs;
  while (await isAlive(identity)) {
    if (performance.now() > endMs) return false;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  return true;
}
