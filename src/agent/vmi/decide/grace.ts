import type { Domain, VirtualMachineInstance } from '../../../api/index.ts';
import type { Observation } from '../observe/index.ts';

/** The ACPI signal is repeated this often while the guest does not react (pkg/virt-handler/vm.go). */
export const signalPeriodMs = 5_000;

/** Upstream's default when a VMI names none (the launcher's `--grace-period-seconds`). */
const defaultGraceSeconds = 30;

export interface Grace {
  readonly seconds: number;
  /** Monotonic end of the grace period, once it runs or if it began now. */
  readonly deadlineMs: number;
  readonly firstSignal: boolean;
}

/**
 * The VMI's own wish, then what the launcher was given at start; without any of them an orphan is killed at once, but for one
 * whose domain cannot be read now.
 */
export function graceSecondsOf(vmi: VirtualMachineInstance | undefined, domain: Domain | undefined): number {
  const wanted = vmi?.spec?.terminationGracePeriodSeconds;
  if (wanted !== undefined) return wanted;
  const reported = domain?.Spec?.Metadata?.KubeVirt?.GracePeriod?.DeletionGracePeriodSeconds;
  if (typeof reported === 'number') return reported;
  const isReadable = Boolean(domain?.Spec?.Name);
  return vmi || !isReadable ? defaultGraceSeconds : 0;
}

/**
 * While this process lives its own monotonic clock counts; after a restart the launcher's time of the first signal does.
 * A later, longer grace period or a clock set back never moves the end further away.
 */
export function graceOf(observation: Observation, seconds: number, domain: Domain | undefined): Grace {
  const { memory, nowMs } = observation;
  if (memory.ending.shutdown) {
    const { firstMs, deadlineMs } = memory.ending.shutdown;
    return { seconds, deadlineMs: Math.min(deadlineMs, firstMs + seconds * 1000), firstSignal: false };
  }
  const began = Date.parse(domain?.Spec?.Metadata?.KubeVirt?.GracePeriod?.DeletionTimestamp ?? '');
  if (Number.isNaN(began)) return { seconds, deadlineMs: nowMs + seconds * 1000, firstSignal: true };
  const elapsedMs = Math.max(0, observation.now.getTime() - began);
  return { seconds, deadlineMs: nowMs + seconds * 1000 - elapsedMs, firstSignal: false };
}
