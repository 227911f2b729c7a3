import { ConvertError } from './errors.ts';

/** Domain type (spec 72 §1): KVM where guests run on it, else emulation if `--allow-emulation` was given. */
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
