import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, openSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { bundleProgram } from '../../../scripts/bundle.mjs';

/** The program virt-handler as a process of its own, on the directories of a temporary node. */
export class AgentProgram {
  readonly dir = mkdtempSync(path.join(tmpdir(), 'agent-'));
  readonly podsDir = path.join(this.dir, 'pods');
  readonly privateDir = path.join(this.dir, 'private');
  /** Inside the repository: native libraries are found from there. */
  readonly #programDir = mkdtempSync(path.resolve('.build/agent-'));
  readonly #program = path.join(this.#programDir, 'virt-handler.mjs');
  readonly #logFile = path.join(this.dir, 'log');
  readonly #running = new Set<ChildProcess>();

  async build(): Promise<void> {
    for (const name of ['pods', 'share', 'private']) mkdirSync(path.join(this.dir, name));
    await bundleProgram('virt-handler', this.#program);
  }

  start(kubeconfig: string): ChildProcess {
    return this.spawn([
      ...['--kubeconfig', kubeconfig, '--hostname-override', 'node1', '--pod-ip-address', '127.0.0.1'],
      ...['--kubevirt-share-dir', path.join(this.dir, 'share'), '--kubevirt-private-dir', this.privateDir],
    ]);
  }

  spawn(args: readonly string[], env: Record<string, string> = {}): ChildProcess {
    const log = openSync(this.#logFile, 'a');
    const child = spawn(process.execPath, [this.#program, ...args], {
      env: { ...process.env, NODE_NAME: 'node1', KUBEVIRT_PODS_DIR: this.podsDir, KUBEVIRT_HOST_ROOT: '/', ...env },
      stdio: ['ignore', log, log],
    });
    this.#running.add(child);
    child.once('exit', () => this.#running.delete(child));
    return child;
  }

  log(): string {
    return readFileSync(this.#logFile, 'utf8');
  }

  async stopAll(): Promise<void> {
    for (const child of this.#running) await stopped(child, 'SIGKILL');
  }

  async dispose(): Promise<void> {
    await this.stopAll();
    for (const directory of [this.dir, this.#programDir]) rmSync(directory, { recursive: true, force: true });
  }
}

/** Signals a process and gives its exit code and signal. */
export async function stopped(child: ChildProcess, signal: NodeJS.Signals): Promise<[number | null, string | null]> {
  if (child.exitCode !== null || child.signalCode !== null) return [child.exitCode, child.signalCode];
  const exited = once(child, 'exit') as Promise<[number | null, string | null]>;
  child.kill(signal);
  return exited;
}
