import { access } from 'node:fs/promises';
import type { Logger } from '../../base/index.ts';
import { probeKvm } from '../../host/index.ts';
import { ConvertError } from '../domain/index.ts';
import type { LauncherEnvironment, LauncherOptions } from '../options.ts';

export interface HypervisorChoiceOptions {
  readonly flags: Pick<LauncherOptions, 'allowEmulation' | 'hypervisor'>;
  readonly kvm: LauncherEnvironment['kvm'];
  readonly device?: string;
}

/** Whether guests run on /dev/kvm of this node. */
interface KvmAnswer {
  readonly usable: boolean;
  readonly reason: string;
}

/** Decides once between KVM and emulation; the probe runs beside the rest of the start-up. */
export class HypervisorChoice {
  readonly #options: HypervisorChoiceOptions;
  readonly #log: Logger;
  #kvm: Promise<KvmAnswer> | undefined;

  constructor(options: HypervisorChoiceOptions, deps: { readonly log: Logger }) {
    this.#options = options;
    this.#log = deps.log;
  }

  /** Begins to find out. */
  prepare(): void {
    this.#kvm ??= this.#findOut();
  }

  /** Throws `ConvertError` NO_HYPERVISOR when neither may be used. */
  async choose(): Promise<'kvm' | 'qemu'> {
    this.prepare();
    const kvm = (await this.#kvm) ?? { usable: false, reason: 'not known' };
    const { allowEmulation } = this.#options.flags;
    return chooseHypervisor({ kvmUsable: kvm.usable, allowEmulation, kvmReason: kvm.reason });
  }

  async #findOut(): Promise<KvmAnswer> {
    const device = this.#options.device ?? '/dev/kvm';
    const isThere = await access(device).then(
      () => true,
      () => false,
    );
    if (!isThere) return { usable: false, reason: `${device} is not there` };
    const { kvm } = this.#options;
    if (kvm)
      return {
        usable: kvm === 'works',
        reason: `this node says that guests ${kvm === 'works' ? 'run' : 'do not run'} on KVM`,
      };
    const { usable, reason, tookMs } = await probeKvm({ device });
    this.#log.info({ usable, reason, tookMs }, 'KVM probed');
    return { usable, reason };
  }
}

/** Domain type: KVM where guests run on it, else emulation if `--allow-emulation` was given. */
export function chooseHypervisor(options: {
  readonly kvmUsable: boolean;
  readonly allowEmulation: boolean;
  /** Why KVM is not usable, for the error. */
  readonly kvmReason?: string;
}): 'kvm' | 'qemu' {
  if (options.kvmUsable) return 'kvm';
  if (options.allowEmulation) return 'qemu';
  const why = options.kvmReason ? ` (${options.kvmReason})` : '';
  throw new ConvertError(
    'NO_HYPERVISOR',
    `kvm not present and emulation is not allowed${why}: enable virtualization on this node, or set useEmulation`,
  );
}
