import { CodedError } from '../../base/index.ts';

/**
 * `UNSUPPORTED_FIELD`: this launcher cannot honour the field; `INVALID_FIELD`: its value makes no sense;
 * `MISSING_VOLUME`: a disk names no volume, or its file was not prepared; `MISSING_LINK`: the pod's network device is not
 * there; `NOT_ENOUGH_CPUS`: the pod's CPUs do not do for what is to be pinned; `NO_TOPOLOGY`: the node's NUMA cells are not known; `MISSING_FIRMWARE`: EFI files are not installed; `PATH_TOO_LONG`: a Unix socket would not fit in 107 bytes;
 * `MISSING_DEVICE`: the pod was not given a device of the machine that the VMI names; `BAD_DEVICE`: what says which devices it was given makes no sense;
 * `NO_HYPERVISOR`: neither KVM nor emulation may be used; `BAD_XML`: libvirt's document cannot be read.
 */
export type ConvertErrorCode =
  | 'UNSUPPORTED_FIELD'
  | 'INVALID_FIELD'
  | 'MISSING_VOLUME'
  | 'MISSING_LINK'
  | 'NOT_ENOUGH_CPUS'
  | 'NO_TOPOLOGY'
  | 'MISSING_FIRMWARE'
  | 'PATH_TOO_LONG'
  | 'MISSING_DEVICE'
  | 'BAD_DEVICE'
  | 'NO_HYPERVISOR'
  | 'BAD_XML';

/** Why a VMI cannot become a domain. The message names the field and says what to do; it is shown to the user. */
export class ConvertError extends CodedError<ConvertErrorCode> {}

export function unsupported(field: string, advice: string): ConvertError {
  return new ConvertError('UNSUPPORTED_FIELD', `${field} is not supported by this launcher: ${advice}`);
}

export function invalid(field: string, problem: string): ConvertError {
  return new ConvertError('INVALID_FIELD', `${field}: ${problem}`);
}
