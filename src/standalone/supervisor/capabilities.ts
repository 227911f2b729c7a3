import { type ChildProcess, spawn } from 'node:child_process';
import { mkdir, readdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { type Component, errorMessage, type Logger, sleep } from '../../base/index.ts';
import { syncDirectory, syncTree } from '../../host/index.ts';
import { NodeError } from '../errors.ts';
import { readIfThere, writeFileAtomic } from '../files.ts';
import type { NodePaths } from '../paths.ts';
import { accountFiles } from '../pod-runner/index.ts';
import { currentBootId } from '../process-identity.ts';
import { capabilitiesScript, machines } from './capabilities-script.ts';
import type { KvmSupport } from './kvm.ts';

export interface CapabilitiesOptions {
  readonly paths: Pick<NodePaths, 'runDir' | 'labellerDir' | 'libvirtCacheDir'>;
  /** It may take seconds to find out: all else goes on meanwhile. */
  readonly kvm: KvmSupport['kvm'] | Promise<KvmSupport['kvm']>;
  /** Where KVM works that is known by then, as a rule. */
  readonly guessAfterMs?: number;
  /** As Node.js names it: `x64`. */
  readonly arch: string;
  /** A machine under load asks QEMU for half a minute. */
  readonly timeoutMs?: number;
}

const architectures: Readonly<Record<string, string>> = { x64: 'x86_64', arm64: 'aarch64', s390x: 's390x' };
const pausesMs = [15_000, 60_000];
const maxStderrBytes = 8_192;
const guessAfterMs = 300;
/** What libvirt's answers depend on, apart from the kernel. */
const programs = [
  '/usr/sbin/libvirtd',
  '/usr/bin/virsh',
  ...['x86_64', 'aarch64', 's390x'].map((arch) => `/usr/bin/qemu-system-${arch}`),
];

/**
 * Plays the init container of the agent's pod: leaves what libvirt says about this machine where the agent looks for it, once per
 * boot, KVM support and version of libvirt and QEMU. Without these files the node has no labels of CPU models and machine types, and the first VM waits
 * for them: it is begun before all else, in the background. While nobody knows yet whether KVM works it is asked as if it did not, since a probe whose guest
 * hangs takes seconds; nothing of that is published before the probe says the same.
 */
export class Capabilities implements Component {
  readonly name = 'capabilities';
  readonly #options: CapabilitiesOptions;
  readonly #log: Logger;
  readonly #stopping = new AbortController();
  #work: Promise<void> | undefined;

  constructor(options: CapabilitiesOptions, deps: { readonly log: Logger }) {
    this.#options = options;
    this.#log = deps.log;
  }

  /** Begins and returns at once. */
  async start(): Promise<void> {
    this.#work ??= this.#run(this.#stopping.signal);
  }

  async stop(): Promise<void> {
    this.#stopping.abort(new Error('capabilities stopped'));
    await this.#work;
  }

  /** Resolves when the files are there, or will not be. */
  async done(): Promise<void> {
    await this.#work;
  }

  async #run(signal: AbortSignal): Promise<void> {
    for (const pauseMs of [...pausesMs, undefined]) {
      try {
        await this.#ensure(signal);
        return;
      } catch (error) {
        if (signal.aborted) return;
        const fields = { reason: errorMessage(error), retryInMs: pauseMs };
        this.#log.warn(fields, 'libvirt does not say what this machine can do: the node has no labels of it');
      }
      if (pauseMs === undefined) return;
      await sleep(pauseMs, signal).catch(() => undefined);
    }
  }

  async #ensure(signal: AbortSignal): Promise<void> {
    const { paths } = this.#options;
    const startedMs = performance.now();
    const dir = path.join(paths.runDir, 'capabilities');
    const guess = await this.#guess(signal);
    try {
      let isAsked = await this.#askUnlessWrong(guess, dir, signal);
      const kvm = await this.#options.kvm;
      if (kvm !== guess) isAsked = await this.#askIfNew(kvm, dir, signal);
      if (!isAsked) return;
      await this.#publish(path.join(dir, 'out'));
      await writeFileAtomic(this.#keyFile, await this.#withFiles(await this.#key(kvm)));
    } finally {
      await rm(dir, { recursive: true, force: true });
    }
    this.#log.info({ tookMs: Math.round(performance.now() - startedMs) }, 'libvirt has said what this machine can do');
  }

  /** A probe that is silent for that long waits for a guest that hangs. */
  #guess(signal: AbortSignal): Promise<KvmSupport['kvm']> {
    const { kvm, guessAfterMs: afterMs = guessAfterMs } = this.#options;
    const silent = sleep(afterMs, signal).then(() => 'fails' as const);
    return Promise.race([kvm, silent]);
  }

  /** False: it is known already, or the guess is wrong. */
  async #askUnlessWrong(guess: KvmSupport['kvm'], dir: string, signal: AbortSignal): Promise<boolean> {
    const wrong = new AbortController();
    const watching = Promise.resolve(this.#options.kvm).then((kvm) => {
      if (kvm !== guess) wrong.abort(new Error('KVM works'));
    });
    // Who awaits the answer is told.
    watching.catch(() => undefined);
    try {
      return await this.#askIfNew(guess, dir, AbortSignal.any([signal, wrong.signal]));
    } catch (error) {
      if (wrong.signal.aborted && !signal.aborted) return false;
      throw error;
    }
  }

  /** False: the files are there. */
  async #askIfNew(kvm: KvmSupport['kvm'], dir: string, signal: AbortSignal): Promise<boolean> {
    if ((await readIfThere(this.#keyFile)) === (await this.#withFiles(await this.#key(kvm)))) return false;
    // Of a node that was killed meanwhile, or of a wrong guess.
    await rm(dir, { recursive: true, force: true });
    await mkdir(dir, { recursive: true });
    await this.#ask(kvm, dir, signal);
    return true;
  }

  get #keyFile(): string {
    return path.join(this.#options.paths.runDir, 'capabilities-key');
  }

  /** Files that were changed or taken away are not those that were asked for. */
  async #withFiles(key: string): Promise<string> {
    const { labellerDir, libvirtCacheDir } = this.#options.paths;
    const dirs = [labellerDir, path.join(libvirtCacheDir, 'qemu/capabilities')];
    return JSON.stringify([key, ...(await Promise.all(dirs.map(filesIn)))]);
  }

  async #key(kvm: KvmSupport['kvm']): Promise<string> {
    const versions = await identitiesOf(programs);
    return JSON.stringify([await currentBootId(), kvm, this.#options.arch, versions]);
  }

  async #ask(kvm: KvmSupport['kvm'], dir: string, signal: AbortSignal): Promise<void> {
    const { paths, arch: nodeArch, timeoutMs = 120_000 } = this.#options;
    const arch = architectures[nodeArch] ?? '';
    if (!(arch in machines)) throw new NodeError('SANDBOX', `nothing is known of virtual machines on ${nodeArch}`);
    const { libvirtCacheDir } = paths;
    const script = capabilitiesScript({
      dir,
      libvirtCacheDir,
      arch,
      virttype: kvm === 'works' ? 'kvm' : 'qemu',
    });
    const accounts = accountFiles(await readFile('/etc/passwd', 'utf8'), await readFile('/etc/group', 'utf8'));
    await writeFile(path.join(dir, 'passwd'), accounts.passwd);
    await writeFile(path.join(dir, 'group'), accounts.group);
    await writeFile(path.join(dir, 'no-kvm'), '', { mode: 0 });
    await writeFile(path.join(dir, 'script.sh'), script);
    const namespaces = ['--mount', '--propagation', 'slave', '--pid', '--ipc', '--fork', '--kill-child=KILL'];
    // It does not outlive this program.
    const argv = ['--pdeathsig', 'KILL', 'unshare', ...namespaces];
    const child = spawn('setpriv', [...argv, '/bin/sh', path.join(dir, 'script.sh')], {
      cwd: '/',
      env: { PATH: '/usr/sbin:/usr/bin:/sbin:/bin', LC_ALL: 'C' },
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    await ended(child, AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)]));
  }

  /** Each file whole or not at all; what is of an earlier boot and no more, goes. */
  async #publish(out: string): Promise<void> {
    const { labellerDir } = this.#options.paths;
    await mkdir(labellerDir, { recursive: true });
    // The key that is written next, and stays, says that they are there.
    await syncTree(out);
    const files = await readdir(out);
    for (const file of files) await rename(path.join(out, file), path.join(labellerDir, file));
    const stale = (await readdir(labellerDir)).filter((file) => file.endsWith('.xml') && !files.includes(file));
    for (const file of stale) await rm(path.join(labellerDir, file));
    await syncDirectory(labellerDir);
  }
}

async function filesIn(dir: string): Promise<[string[], string[]]> {
  const names = (await readdir(dir).catch((): string[] => [])).sort();
  return [names, await identitiesOf(names.map((name) => path.join(dir, name)))];
}

function identitiesOf(files: readonly string[]): Promise<string[]> {
  return Promise.all(
    files.map((file) =>
      stat(file).then(
        ({ ino, ctimeMs }) => `${ino} ${ctimeMs}`,
        () => 'none',
      ),
    ),
  );
}

/** Resolves when the process has ended well. When the signal fires it is killed, and with it all that it began. */
function ended(child: ChildProcess, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    let stderr = '';
    child.stderr?.setEncoding('utf8').on('data', (text: string) => {
      stderr = (stderr + text).slice(-maxStderrBytes);
    });
    const kill = () => child.kill('SIGKILL');
    if (signal.aborted) kill();
    signal.addEventListener('abort', kill, { once: true });
    child.once('error', (cause) => reject(new NodeError('SANDBOX', errorMessage(cause), { cause })));
    child.once('close', (code) => {
      signal.removeEventListener('abort', kill);
      if (code === 0) resolve();
      else if (signal.aborted) reject(new NodeError('SANDBOX', 'libvirt was asked for too long'));
      else reject(new NodeError('SANDBOX', lastLine(stderr) || `the script ended with ${code}`));
    });
  });
}

function lastLine(text: string): string {
  return text.trim().split('\n').at(-1) ?? '';
}
