import { CodedError } from '../base/index.ts';

/**
 * `BAD_FLAG`: the command line is wrong; `SETUP_FAILED`: a directory or file of the pod cannot be made; `DAEMON_FAILED`: the
 * libvirt daemon is not installed or does not answer; `FOREIGN_DAEMON`: the libvirt here is not this launcher's own;
 * `NO_DOMAIN_IN_TIME`: no agent has sent a VMI; `BAD_VMI`: the request carries no usable VMI; `WRONG_VMI`: it is another
 * launcher's; `DOMAIN_NOT_FOUND`; `START_FAILED`: libvirt or QEMU does not start what the VMI asks for; `HOTPLUG_FAILED`: a disk could not be plugged in or its medium not changed; `UNPLUG_PENDING`: the
 * guest has not released a disk or network device yet; `MIGRATING`: not while the guest moves; `BUSY`: another change of the domain is still under way; `NOT_SUPPORTED`; `HOOK_FAILED`: a hook sidecar is not there, or answered with an error; `AGENT_FAILED`: the
 * guest agent answered with an error or not at all; `INVALID_REQUEST`; `CHECKPOINT_INVALID`: what changed since it is not known; `STOPPED`: the launcher is ending.
 */
export type LauncherErrorCode =
  | 'BAD_FLAG'
  | 'SETUP_FAILED'
  | 'DAEMON_FAILED'
  | 'FOREIGN_DAEMON'
  | 'NO_DOMAIN_IN_TIME'
  | 'BAD_VMI'
  | 'WRONG_VMI'
  | 'DOMAIN_NOT_FOUND'
  | 'START_FAILED'
  | 'BUSY'
  | 'HOTPLUG_FAILED'
  | 'UNPLUG_PENDING'
  | 'MIGRATING'
  | 'NOT_SUPPORTED'
  | 'HOOK_FAILED'
  | 'AGENT_FAILED'
  | 'INVALID_REQUEST'
  | 'CHECKPOINT_INVALID'
  | 'STOPPED';

/** Every failure of this folder; the message is shown to the user of the VMI. */
export class LauncherError extends CodedError<LauncherErrorCode> {}
