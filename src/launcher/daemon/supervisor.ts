import { type ChildProcess, spawn } from 'node:child_process';
import { rm, symlink } from 'node:fs/promises';
import net from 'node:net';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { type Clock, type Logger, systemClock } from '../../base/index.ts';
import { isExecutable } from '../../host/index.ts';
import { LauncherError } from '../errors.ts';
import type { LibvirtPaths } from './pod-paths.ts';

export interface DaemonProgram {
  readonly name: 'virtqemud' | 'libvirtd';
  readonly file: string;
  readonly socketName: 'virtqemud-sock' | 'libvirt-sock';
}

const programs = [
  { name: 'virtqemud', socketName: 'virtqemud-sock' },
  { name: 'libvirtd', socketName: 'libvirt-sock' },
] as const;
const agentsSocketName = 'virtqemud-sock';
const programDirs = ['/usr/sbin', '/usr/bin', '/usr/local/sbin'];

/** `virtqemud` where the distribution has it, else `libvirtd`. Throws DAEMON_FAILED saying what to install. */
export function findDaemonProgram(dirs: readonly string[] = programDirs): DaemonProgram {
  for (const program of programs) {
    for (const dir of dirs) {
      const file = path.join(dir, program.name);
      if (isExecutable(file)) return { ...program, file };
    }
  }
  throw new LauncherError(
    'DAEMON_FAILED',
    `neither virtqemud nor libvirtd is in ${dirs.join(', ')}: install libvirt-daemon-system and qemu-system-x86`,
  );
}

export interface SupervisorOptions {
  readonly program: DaemonProgram;
  readonly paths: LibvirtPaths;
  readonly configFile: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly restartDelayMs: number;
}

export interface SupervisorDeps {
  readonly log: Logger;
  readonly clock?: Clock;
}

type DaemonState =
  | { readonly kind: 'not-started' }
  | { readonly kind: 'running'; readonly child: ChildProcess }
  | { readonly kind: 'waiting-to-restart'; readonly cancel: () => void }
  | { readonly kind: 'stopped' };

const maxLogLineLength = 4096;
const stopLimitMs = 2000;

/** Keeps one libvirt daemon running. QEMU is not its child for long and survives its end. */
export class DaemonSupervisor {
  readonly #options: SupervisorOptions;
  readonly #log: Logger;
  readonly #clock: Clock;
  #state: DaemonState = { kind: 'not-started' };
  #restarts = 0;
  #lastLine = '';
  #lastEnd: string | undefined;

  constructor(options: SupervisorOptions, deps: SupervisorDeps) {
    this.#options = options;
    this.#log = deps.log;
    this.#clock = deps.clock ?? systemClock;
  }

  get socketPath(): string {
    return path.join(this.#options.paths.runDir, this.#options.program.socketName);
  }

  get pid(): number | undefined {
    return this.#state.kind === 'running' ? this.#state.child.pid : undefined;
  }

  get restarts(): number {
    return this.#restarts;
  }

  /** How it last ended by itself, with its last words; undefined while it never did. */
  get lastEnd(): string | undefined {
    return this.#lastEnd;
  }

  /** Throws FOREIGN_DAEMON when another daemon answers at the socket already: this launcher must not change its machine. */
  async start(): Promise<void> {
    await this.#requireFree(this.socketPath);
    await rm(this.socketPath, { force: true });
    await this.#linkSocket();
    this.#spawn();
  }

  async #requireFree(socketPath: string): Promise<void> {
    if (!(await answers(socketPath))) return;
    throw new LauncherError(
      'FOREIGN_DAEMON',
      `a libvirt daemon already serves ${socketPath}: virt-launcher needs a pod of its own (private /run and /etc/libvirt)`,
    );
  }

  /** Agents bring the control stream of an incoming migration to virtqemud's socket (pkg/virt-handler/migration-proxy), whichever daemon this is. */
  async #linkSocket(): Promise<void> {
    const { program, paths } = this.#options;
    if (program.socketName === agentsSocketName) return;
    const link = path.join(paths.runDir, agentsSocketName);
    await this.#requireFree(link);
    await rm(link, { force: true });
    await symlink(program.socketName, link);
  }

  /** Ends a daemon that hangs; it is started again like one that died. */
  killHung(): void {
    this.#log.error({ pid: this.pid }, 'libvirt daemon does not answer: it is killed');
    if (this.#state.kind === 'running') this.#state.child.kill('SIGKILL');
  }

  async stop(): Promise<void> {
    const before = this.#state;
    this.#state = { kind: 'stopped' };
    if (before.kind === 'waiting-to-restart') before.cancel();
    if (before.kind === 'running') await this.#end(before.child);
  }

  async #end(child: ChildProcess): Promise<void> {
    if (child.exitCode !== null || child.signalCode !== null) return;
    await new Promise<void>((resolve) => {
      const cancelKill = this.#clock.schedule(stopLimitMs, () => child.kill('SIGKILL'));
      child.once('close', () => {
        cancelKill();
        resolve();
      });
      child.kill('SIGTERM');
    });
  }

  #spawn(): void {
    const { program, configFile, env } = this.#options;
    const child = spawn(program.file, ['-f', configFile], {
      env: { ...env },
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    this.#state = { kind: 'running', child };
    this.#lastLine = '';
    if (child.stderr) createInterface({ input: child.stderr }).on('line', (line) => this.#relog(line));
    child.on('spawn', () => this.#log.info({ pid: child.pid, program: program.name }, 'libvirt daemon started'));
    child.on('error', (error) => {
      this.#lastLine = error.message;
      this.#log.error({ err: error.message }, 'libvirt daemon cannot be started');
    });
    child.on('close', (code, signal) => this.#closed(code, signal));
  }

  #closed(code: number | null, signal: NodeJS.Signals | null): void {
    if (this.#state.kind === 'stopped') return;
    const words = this.#lastLine && `: ${this.#lastLine}`;
    this.#lastEnd = `${this.#options.program.name} ended with ${signal ?? `code ${code}`}${words}`;
    this.#log.warn({ code, signal, lastLine: this.#lastLine }, 'libvirt daemon ended; it is started again');
    const cancel = this.#clock.schedule(this.#options.restartDelayMs, () => {
      this.#restarts++;
      this.#spawn();
    });
    this.#state = { kind: 'waiting-to-restart', cancel };
  }

  #relog(line: string): void {
    const text = line.slice(0, maxLogLineLength);
    if (text.trim() !== '') this.#lastLine = text;
    this.#log.debug({ subcomponent: 'libvirt', text }, 'libvirt says');
  }
}

/** Environment of the daemon: a session daemon takes its directories from XDG variables. */
export function daemonEnvironment(
  base: Readonly<Record<string, string | undefined>>,
  { xdg }: LibvirtPaths,
): Record<string, string | undefined> {
  if (!xdg) return { ...base };
  const { runtimeDir, configDir, cacheDir } = xdg;
  return { ...base, HOME: cacheDir, XDG_RUNTIME_DIR: runtimeDir, XDG_CONFIG_HOME: configDir, XDG_CACHE_HOME: cacheDir };
}

function answers(socketPath: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = net.connect(socketPath);
    socket.on('connect', () => {
      socket.destroy();
      resolve(true);
    });
    socket.on('error', () => resolve(false));
  });
}
