import { type ChildProcess, spawn } from 'node:child_process';
import { closeSync, type FSWatcher, watch } from 'node:fs';
import { chmod, type FileHandle, mkdir, open, readdir, readFile, rm, rmdir, stat, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { errorCode, errorMessage, sleep } from '../../base/index.ts';
import { openPty } from '../../host/index.ts';
import { NodeError } from '../errors.ts';
import { readIfThere, writeFileAtomic, writeForThisBoot } from '../files.ts';
import { isAlive, type ProcessIdentity, parseIdentity, signalProcess } from '../process-identity.ts';
import { accountFiles } from './accounts.ts';
import { copyLibvirtCache } from './libvirt-cache.ts';
import { mountsBelow } from './pods-mount.ts';
import { execInSandbox, type SandboxCommand, type SandboxPlace } from './sandbox-exec.ts';
import type { SandboxMount, SandboxPlan } from './sandbox-plan.ts';
import { initScript, rootMade, shimScript } from './sandbox-script.ts';

export type SandboxState =
  /** Never started here: no record of it on disk. */
  | { readonly kind: 'none' }
  | { readonly kind: 'starting'; readonly startedAtMs: number }
  | { readonly kind: 'running'; readonly startedAtMs: number; readonly init: ProcessIdentity }
  | { readonly kind: 'exited'; readonly startedAtMs: number; readonly finishedAtMs: number; readonly exitCode: number }
  /** It was started and is gone, and its end was not observed: killed together with its shim, or the machine was restarted. */
  | { readonly kind: 'lost'; readonly startedAtMs: number };

export interface TerminalCommand {
  readonly child: ChildProcess;
  /** Descriptor of the terminal's other end. Who gets it closes it. */
  readonly master: number;
  /** In characters. */
  resize(columns: number, rows: number): void;
}

export interface SandboxesOptions {
  readonly podsDir: string;
  /** What the node's own libvirt learnt about QEMU: each pod gets a copy. */
  readonly libvirtCacheDir: string;
  /** cgroup v2 directory below which each pod gets its own; undefined: no cgroups here. */
  readonly cgroupRoot: string | undefined;
  /** Files and directories that pods may read besides the system's programs: the programs of the node itself. */
  readonly programs: readonly string[];
}

/** Of the scripts that surround a pod; the pod's own is its program's alone. */
const shimEnv = { PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin', LC_ALL: 'C' };

/** From the scripts on disk to the shim's own record. */
const spawnTimeoutMs = 5_000;
const uidPattern = /^[A-Za-z0-9][A-Za-z0-9-]{0,62}$/;

/**
 * The pods' processes: each in its own mount, pid and IPC namespace, detached from this program. All that is known of one is
 * on disk below `<pods>/<uid>/sandbox`, so that any later process finds it again, by pid and start time.
 */
export class Sandboxes {
  readonly #options: SandboxesOptions;

  constructor(options: SandboxesOptions) {
    this.#options = options;
  }

  podDir(uid: string): string {
    if (!uidPattern.test(uid)) throw new NodeError('POD_INVALID', `pod UID ${JSON.stringify(uid)} is no UID`);
    return path.join(this.#options.podsDir, uid);
  }

  /** UIDs that have something on disk. */
  async list(): Promise<string[]> {
    const names = await readdir(this.#options.podsDir).catch(() => []);
    return names.filter((name) => uidPattern.test(name));
  }

  /** Starts what `plan` says. Volume directories must be there. A second start of the same pod does nothing. */
  async start(plan: SandboxPlan): Promise<void> {
    if ((await this.inspect(plan.uid)).kind !== 'none') return;
    const dir = await this.#prepare(plan);
    const logs: FileHandle[] = [];
    try {
      for (const { logFile } of [plan, ...(plan.beside ?? [])]) {
        await mkdir(path.dirname(logFile), { recursive: true, mode: 0o700 });
        logs.push(await open(logFile, 'a', 0o600));
      }
      const [out, ...beside] = logs.map(({ fd }) => fd);
      const child = spawn('/bin/sh', [path.join(dir, 'shim.sh'), dir], {
        cwd: '/',
        detached: true,
        env: shimEnv,
        stdio: ['ignore', out, out, ...beside],
      });
      await new Promise<void>((resolve, reject) => {
        child.once('spawn', resolve);
        child.once('error', (cause) =>
          reject(new NodeError('SANDBOX', `cannot start a process for the pod: ${errorMessage(cause)}`, { cause })),
        );
      });
      child.unref();
    } finally {
      for (const log of logs) await log.close();
    }
  }

  async inspect(uid: string): Promise<SandboxState> {
    const dir = this.#dir(uid);
    const startedAtMs = await this.#startedAtMs(dir);
    if (startedAtMs === undefined) return { kind: 'none' };
    // Looked at before the exit code: a sandbox that ends in between is then seen as exited, never as lost.
    const init = parseIdentity((await readIfThere(path.join(dir, 'pid1'))) ?? '');
    const shim = parseIdentity((await readIfThere(path.join(dir, 'shim'))) ?? '');
    const initLives = init !== undefined && (await isAlive(init));
    const shimLives = shim !== undefined && (await isAlive(shim));
    const exit = await readExit(path.join(dir, 'exit-code'));
    if (exit) return { kind: 'exited', startedAtMs, ...exit };
    // Without process 1 the shim is about to record how it ended: to start and to kill the shim is for what never ran.
    if (init && (initLives || shimLives)) return { kind: 'running', startedAtMs, init };
    if (shimLives) return { kind: 'starting', startedAtMs };
    if (shim) return { kind: 'lost', startedAtMs };
    // Scripts without a shim: just being started, or their writer died before it could.
    return Date.now() - startedAtMs < spawnTimeoutMs ? { kind: 'starting', startedAtMs } : { kind: 'none' };
  }

  /** Process 1 of a pod that runs. */
  async processOf(uid: string): Promise<ProcessIdentity | undefined> {
    const state = await this.inspect(uid);
    return state.kind === 'running' ? state.init : undefined;
  }

  /** SIGTERM to process 1, which passes it on. False when there is none. */
  async terminate(uid: string): Promise<boolean> {
    const state = await this.inspect(uid);
    return state.kind === 'running' && (await signalProcess(state.init, 'SIGTERM'));
  }

  /** SIGKILL to process 1: the kernel ends all other processes of the pod with it. */
  async kill(uid: string): Promise<void> {
    const state = await this.inspect(uid);
    if (state.kind === 'running') await signalProcess(state.init, 'SIGKILL');
    if (state.kind !== 'starting') return;
    const shim = parseIdentity((await readIfThere(path.join(this.#dir(uid), 'shim'))) ?? '');
    if (shim) await signalProcess(shim, 'SIGKILL');
  }

  /** Runs a command in the pod beside its program. Rejects with NodeError SANDBOX when it does not run. */
  async exec(uid: string, command: SandboxCommand): Promise<ChildProcess> {
    return execInSandbox(await this.#place(uid), command);
  }

  /** The same at a terminal of the pod. Rejects with PtyError, too. */
  async execAtTerminal(uid: string, command: Omit<SandboxCommand, 'stdio'>): Promise<TerminalCommand> {
    const place = await this.#place(uid);
    const pty = await openPty(`/proc/${place.init.pid}/root`);
    try {
      const child = await execInSandbox(place, { ...command, stdio: { terminal: pty.slave } });
      return { child, master: pty.master, resize: pty.resize };
    } catch (error) {
      closeSync(pty.master);
      throw error;
    } finally {
      closeSync(pty.slave);
    }
  }

  async #place(uid: string): Promise<SandboxPlace> {
    const state = await this.inspect(uid);
    if (state.kind !== 'running') {
      throw new NodeError('SANDBOX', `nothing can be run in the pod: it does not run (${state.kind})`);
    }
    const isMade = await stat(path.join(this.#dir(uid), rootMade)).then(
      () => true,
      () => false,
    );
    if (!isMade) throw new NodeError('SANDBOX', 'nothing can be run in the pod yet: its root directory is being made');
    return { init: state.init, cgroup: this.cgroupDir(uid) };
  }

  /** Milliseconds since the epoch when the pod was first asked to end, remembered across restarts. */
  async terminatingSinceMs(uid: string): Promise<number | undefined> {
    const text = await readIfThere(path.join(this.#dir(uid), 'terminating'));
    const sinceMs = Number(text);
    return text && Number.isFinite(sinceMs) ? sinceMs : undefined;
  }

  async markTerminating(uid: string, nowMs: number): Promise<void> {
    await writeFileAtomic(path.join(this.#dir(uid), 'terminating'), String(nowMs));
  }

  /** Deletes everything of the pod on disk. Refuses while it runs or while something is mounted below it on the host. */
  async remove(uid: string): Promise<void> {
    const state = await this.inspect(uid);
    if (state.kind === 'running' || state.kind === 'starting') {
      throw new NodeError('SANDBOX', `pod ${uid} still runs: its files stay`);
    }
    const dir = this.podDir(uid);
    const mounts = await mountsBelow(dir);
    if (mounts.length > 0) {
      throw new NodeError('SANDBOX', `files of pod ${uid} stay, something is mounted there: ${mounts.join(', ')}`);
    }
    await rm(dir, { recursive: true, force: true });
    const cgroup = this.cgroupDir(uid);
    if (cgroup) await removeCgroup(cgroup);
  }

  /** Calls back when something of the pod's record changes: it started, it ended. The returned function stops that. */
  watch(uid: string, onChange: () => void): () => void {
    let watcher: FSWatcher;
    try {
      watcher = watch(this.#dir(uid), onChange);
    } catch {
      return () => undefined;
    }
    watcher.on('error', () => undefined);
    return () => watcher.close();
  }

  /** The pod's cgroup; undefined on a machine without cgroup v2. */
  cgroupDir(uid: string): string | undefined {
    const { cgroupRoot } = this.#options;
    return cgroupRoot && path.join(cgroupRoot, uid);
  }

  #dir(uid: string): string {
    return path.join(this.podDir(uid), 'sandbox');
  }

  async #startedAtMs(dir: string): Promise<number | undefined> {
    return stat(path.join(dir, 'init.sh')).then(
      (found) => found.mtimeMs,
      () => undefined,
    );
  }

  async #prepare(plan: SandboxPlan): Promise<string> {
    const dir = this.#dir(plan.uid);
    await mkdir(dir, { recursive: true, mode: 0o700 });
    const makeDir = async (name: string) => {
      await mkdir(path.join(dir, name), { recursive: true });
      await chmod(path.join(dir, name), 0o755);
    };
    const [programs, cgroup] = await Promise.all([
      Promise.all(this.#options.programs.map(programMount)),
      this.#makeCgroup(plan.uid),
      copyLibvirtCache(this.#options.libvirtCacheDir, path.join(dir, 'cache-libvirt')),
      writeAccounts(dir),
      ...['root', 'lib-libvirt', 'log-libvirt', 'log-swtpm'].map(makeDir),
    ]);
    await writeForThisBoot(path.join(dir, 'shim.sh'), shimScript(cgroup, plan.network !== undefined));
    // Last: with this file the sandbox counts as started. It has the pod's environment in it.
    await writeForThisBoot(path.join(dir, 'init.sh'), initScript(plan, programs));
    return dir;
  }

  async #makeCgroup(uid: string): Promise<string | undefined> {
    const dir = this.cgroupDir(uid);
    if (!dir) return undefined;
    return mkdir(dir, { recursive: true }).then(
      () => dir,
      () => undefined,
    );
  }
}

async function writeAccounts(dir: string): Promise<void> {
  const [passwd, group] = await Promise.all(['/etc/passwd', '/etc/group'].map((file) => readFile(file, 'utf8')));
  for (const [name, text] of Object.entries(accountFiles(passwd ?? '', group ?? ''))) {
    await writeFile(path.join(dir, name), text);
    await chmod(path.join(dir, name), 0o644);
  }
}

async function programMount(program: string): Promise<SandboxMount> {
  const isFile = await stat(program).then(
    (found) => !found.isDirectory(),
    () => false,
  );
  return { source: program, target: program, readOnly: true, type: isFile ? 'file' : 'directory' };
}

/** Its last process, the shim, may still be on its way out. */
async function removeCgroup(dir: string): Promise<void> {
  for (let tries = 0; tries < 50; tries++) {
    const code = await rmdir(dir).then(
      () => undefined,
      (error: unknown) => errorCode(error),
    );
    if (code !== 'EBUSY') return;
    await sleep(20);
  }
}

async function readExit(file: string): Promise<{ exitCode: number; finishedAtMs: number } | undefined> {
  const text = await readIfThere(file);
  if (text === undefined || !/^\d{1,3}\s*$/.test(text)) return undefined;
  const { mtimeMs } = await stat(file);
  return { exitCode: Number(text), finishedAtMs: mtimeMs };
}

/** Where pods' cgroups go: below the cgroup v2 mount of this machine, also a hybrid one; undefined without one. */
export async function findCgroupRoot(name: string): Promise<string | undefined> {
  const table = (await readIfThere('/proc/self/mountinfo')) ?? '';
  for (const line of table.split('\n')) {
    const [left = '', right = ''] = line.split(' - ');
    if (right.startsWith('cgroup2 ')) return path.join(left.split(' ')[4] ?? '', name);
  }
  return undefined;
}
