/**
 * Where a launcher is between an empty pod and the end of its VMI. What the domain itself does (defined, running, paused,
 * crashed) only libvirt knows, and it is asked each time; a copy here would be old.
 */
export type LauncherPhase =
  /** Directories, libvirt daemon, command server: the agent does not find this launcher yet. */
  | { readonly kind: 'setting-up' }
  /** Ready, and QEMU has not run yet. */
  | { readonly kind: 'waiting' }
  | { readonly kind: 'running' }
  /** The pod is to end: the agent shuts the guest down within the grace period. */
  | { readonly kind: 'shutting-down' }
  /** The grace period is over. */
  | { readonly kind: 'forcing'; readonly tries: number }
  /** QEMU has ended; the agent has still to see that and to delete the domain. */
  | { readonly kind: 'reporting'; readonly isTerminating: boolean }
  | { readonly kind: 'left'; readonly reason: LeaveReason };

export type LeaveReason =
  | 'terminated-before-start'
  | 'no-domain-in-time'
  /** Standalone: there is no agent to report to. */
  | 'no-agent'
  | 'deletion-reported'
  | 'report-timed-out';

/** One of the functions below. A transition that the phase does not have gives the very same phase. */
export type Transition = (phase: LauncherPhase) => LauncherPhase;

/** The command socket is ready. */
export function serving(phase: LauncherPhase): LauncherPhase {
  return phase.kind === 'setting-up' ? { kind: 'waiting' } : phase;
}

/** libvirt reports that the domain runs: started here, found running, or migrated to here. */
export function qemuStarted(phase: LauncherPhase): LauncherPhase {
  return hasNotRun(phase) ? { kind: 'running' } : phase;
}

/** A signal of the pod. Without a domain there is nothing to wait for. */
export function terminationRequested(phase: LauncherPhase): LauncherPhase {
  switch (phase.kind) {
    case 'setting-up':
    case 'waiting':
      return { kind: 'left', reason: 'terminated-before-start' };
    case 'running':
      return { kind: 'shutting-down' };
    case 'reporting':
      return phase.isTerminating ? phase : { ...phase, isTerminating: true };
    case 'shutting-down':
    case 'forcing':
    case 'left':
      return phase;
    default:
      return phase satisfies never;
  }
}

/** The grace period is over, or the last try to end QEMU had no effect. */
export function graceExpired(phase: LauncherPhase): LauncherPhase {
  if (phase.kind === 'shutting-down') return { kind: 'forcing', tries: 1 };
  return phase.kind === 'forcing' ? { kind: 'forcing', tries: phase.tries + 1 } : phase;
}

export function qemuEnded(phase: LauncherPhase): LauncherPhase {
  switch (phase.kind) {
    case 'setting-up':
    case 'waiting':
    case 'running':
      return { kind: 'reporting', isTerminating: false };
    case 'shutting-down':
    case 'forcing':
      return { kind: 'reporting', isTerminating: true };
    case 'reporting':
    case 'left':
      return phase;
    default:
      return phase satisfies never;
  }
}

export function noDomainInTime(phase: LauncherPhase): LauncherPhase {
  return hasNotRun(phase) ? { kind: 'left', reason: 'no-domain-in-time' } : phase;
}

/** The agent knows how the domain ended, or there is no use in waiting for it. */
export function reported(reason: LeaveReason): Transition {
  return (phase) => (phase.kind === 'reporting' ? { kind: 'left', reason } : phase);
}

function hasNotRun({ kind }: LauncherPhase): boolean {
  return kind === 'setting-up' || kind === 'waiting';
}

export function isTerminating(phase: LauncherPhase): boolean {
  return phase.kind === 'reporting' && phase.isTerminating;
}
