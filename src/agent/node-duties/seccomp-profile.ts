import { mkdir, stat } from 'node:fs/promises';
import path from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { type Clock, type Component, errorCode, errorMessage, type Logger } from '../../base/index.ts';
import { replaceFile } from '../../host/index.ts';
import type { ClusterSettings } from '../node-ports.ts';
import { readBounded } from './bounded-file.ts';
import { seccompRules } from './seccomp-rules.ts';

export interface SeccompProfileDeps {
  readonly settings: Pick<ClusterSettings, 'select'>;
  readonly log: Logger;
  readonly clock: Clock;
}

const architectures: Readonly<Record<string, readonly string[]>> = {
  X86_64: ['X86', 'X32'],
  AARCH64: ['ARM'],
  MIPS64: ['MIPS', 'MIPS64N32'],
  MIPS64N32: ['MIPS', 'MIPS64'],
  MIPSEL64: ['MIPSEL', 'MIPSEL64N32'],
  MIPSEL64N32: ['MIPSEL', 'MIPSEL64'],
  S390X: ['S390'],
};

const arch = (name: string) => `SCMP_ARCH_${name}`;

/** Spec 40b, key by key. */
export const seccompProfile = {
  defaultAction: 'SCMP_ACT_ERRNO',
  defaultErrnoRet: 38,
  defaultErrno: 'ENOSYS',
  archMap: Object.entries(architectures).map(([name, others]) => ({
    architecture: arch(name),
    subArchitectures: others.map(arch),
  })),
  syscalls: seccompRules,
};

const maxBytes = 1024 * 1024;
const retryMs = 300_000;
/** As upstream's: only root looks at it. */
const mode = 0o700;

/**
 * Keeps the profile that launcher pods may name (`kubevirt/kubevirt.json`) in the kubelet's directory while the gate
 * KubevirtSeccompProfile is on (spec 40 §11). A file that says the same is left alone, and none is ever removed: pods may use it.
 */
export class SeccompProfile implements Component {
  readonly name = 'seccomp profile';
  readonly #root: string;
  readonly #deps: SeccompProfileDeps;
  #end: (() => void) | undefined;
  #cancel: (() => void) | undefined;
  #work: Promise<void> = Promise.resolve();
  #isStopped = false;

  constructor({ kubeletRoot }: { readonly kubeletRoot: string }, deps: SeccompProfileDeps) {
    this.#root = kubeletRoot;
    this.#deps = deps;
  }

  async start(): Promise<void> {
    this.#end = this.#deps.settings.select(
      ({ node }) => node.gates.KubevirtSeccompProfile,
      (isOn) => {
        this.#cancel?.();
        if (isOn) this.#begin();
      },
    );
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#end?.();
    this.#cancel?.();
    await this.#work;
  }

  #begin(): void {
    this.#work = this.#work.then(() => this.#install());
  }

  async #install(): Promise<void> {
    const { log, clock } = this.#deps;
    const file = path.join(this.#root, 'seccomp/kubevirt/kubevirt.json');
    try {
      if (!(await isDirectory(this.#root))) {
        log.info({ directory: this.#root }, 'no kubelet here: no seccomp profile is installed');
        return;
      }
      if (await saysTheSame(file)) return;
      await mkdir(path.dirname(file), { recursive: true, mode });
      await replaceFile(file, JSON.stringify(seccompProfile), mode);
      log.info({ file }, 'seccomp profile of launchers installed');
    } catch (error) {
      log.warn({ file, reason: errorMessage(error) }, 'the seccomp profile cannot be installed; tried again later');
      if (!this.#isStopped) this.#cancel = clock.schedule(retryMs, () => this.#begin());
    }
  }
}

async function isDirectory(directory: string): Promise<boolean> {
  try {
    return (await stat(directory)).isDirectory();
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return false;
    throw error;
  }
}

/** By value: upstream writes the same in another order of bytes. Anything that cannot be read is replaced. */
async function saysTheSame(file: string): Promise<boolean> {
  try {
    return isDeepStrictEqual(JSON.parse(await readBounded(file, maxBytes)), seccompProfile);
  } catch {
    return false;
  }
}
