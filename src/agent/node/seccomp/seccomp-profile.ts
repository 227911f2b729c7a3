import { mkdir, stat } from 'node:fs/promises';
import path from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { type Clock, type Component, errorCode, type Logger } from '../../../base/index.ts';
import { PathWatch, readPlainFile, replaceFile } from '../../../host/index.ts';
import { type KeyResult, SingleReconciler } from '../../../reconcile/index.ts';
import type { ClusterSettings } from '../ports.ts';
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

/** By value what pkg/virt-handler/seccomp/seccomp.go writes. */
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
const failedMessage = 'the seccomp profile cannot be installed; tried again later';
/** A kubelet that begins makes several directories; a file that is taken away again and again comes back no faster. */
const calmMs = 5_000;
/** As upstream's: only root looks at it. */
const mode = 0o700;

/**
 * Keeps the profile that launcher pods may name (`kubevirt/kubevirt.json`) in the kubelet's directory while the gate
 * KubevirtSeccompProfile is on: also where that directory comes later, and when another process takes the file away. A file that
 * says the same is left alone, and none is ever removed: pods may use it.
 */
export class SeccompProfile implements Component {
  readonly name = 'seccomp profile';
  readonly #root: string;
  readonly #file: string;
  readonly #deps: SeccompProfileDeps;
  readonly #watch: PathWatch;
  readonly #reconciler: SingleReconciler;
  #isOn = false;
  #saidNoKubelet = false;

  constructor({ kubeletRoot }: { readonly kubeletRoot: string }, deps: SeccompProfileDeps) {
    const { clock, log } = deps;
    this.#root = kubeletRoot;
    this.#file = path.join(kubeletRoot, 'seccomp/kubevirt/kubevirt.json');
    this.#deps = deps;
    this.#watch = new PathWatch({}, { clock });
    this.#reconciler = new SingleReconciler(
      { name: this.#file, backoff: { baseMs: retryMs, maxMs: retryMs }, failedMessage },
      { reconcile: () => this.#install(), clock, log: log.child({ file: this.#file }) },
    );
  }

  async start(): Promise<void> {
    const again = () => this.#reconciler.wakeAfter(calmMs);
    this.#reconciler.follow(
      this.#watch.watch(this.#root, again),
      this.#watch.watch(this.#file, again),
      this.#deps.settings.select(
        ({ node }) => node.gates.KubevirtSeccompProfile,
        (isOn) => {
          this.#isOn = isOn;
          if (isOn) this.#reconciler.wake();
        },
      ),
    );
  }

  /** What is under way is ended. */
  async stop(): Promise<void> {
    const stopped = this.#reconciler.stop();
    this.#watch.close();
    await stopped;
  }

  async #install(): Promise<KeyResult> {
    const { log } = this.#deps;
    if (!this.#isOn) return { kind: 'done' };
    if (!(await isDirectory(this.#root))) {
      if (!this.#saidNoKubelet) {
        log.info({ directory: this.#root }, 'no kubelet here: no seccomp profile is installed until there is one');
      }
      this.#saidNoKubelet = true;
      return { kind: 'done' };
    }
    if (await saysTheSame(this.#file)) return { kind: 'done' };
    await mkdir(path.dirname(this.#file), { recursive: true, mode });
    await replaceFile(this.#file, JSON.stringify(seccompProfile), mode);
    log.info({ file: this.#file }, 'seccomp profile of launchers installed');
    return { kind: 'done' };
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
    return isDeepStrictEqual(JSON.parse(await readPlainFile(file, maxBytes)), seccompProfile);
  } catch {
    return false;
  }
}
