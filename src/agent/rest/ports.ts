import type { VirtualMachineInstance } from '../../api/index.ts';

/**
 * One call to a VMI's launcher for somebody who waits for it; never through the VMI loop's queue. Rejects with CodedError
 * (`adapters/launchers.ts`); `signal` is the client going away.
 */
export interface LauncherActions {
  pause(vmi: VirtualMachineInstance, signal: AbortSignal): Promise<void>;
  unpause(vmi: VirtualMachineInstance, signal: AbortSignal): Promise<void>;
  /** The process that listens on the launcher's socket, as seen from this pid namespace. */
  launcherPid(vmi: VirtualMachineInstance, signal: AbortSignal): Promise<number>;
}
