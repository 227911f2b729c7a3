import { errorCode, errorMessage } from '../../../base/index.ts';
import { type Executors, runPlan as runSteps, type StepError } from '../../../reconcile/index.ts';
import type { Plan, StepArgs, StepOutcome } from '../decide/index.ts';
import type { Remember } from '../observe/index.ts';
import type { ExecuteContext } from './context.ts';
import { cleanUp, deleteDomain, killDomain, shutdownDomain } from './end-steps.ts';
import { ensureLauncherConnection, refreshDomain } from './launcher-steps.ts';
import { cancelMigration, migrateVirtualMachine } from './migration-source-steps.ts';
import { closeSourceProxies, closeTargetProxies, openSourceProxies, openTargetProxies } from './migration-steps.ts';
import { finalizeMigration, prepareMigrationTarget, signalTargetPodCleanup } from './migration-target-steps.ts';
import { adjustHost, prepareHost, syncVirtualMachine } from './start-steps.ts';

const executors: Executors<StepArgs, ExecuteContext, Remember> = {
  ensureLauncherConnection,
  refreshDomain,
  prepareHost,
  adjustHost,
  syncVirtualMachine,
  shutdownDomain,
  killDomain,
  deleteDomain,
  cleanUp,
  prepareMigrationTarget,
  openTargetProxies,
  closeTargetProxies,
  openSourceProxies,
  closeSourceProxies,
  migrateVirtualMachine,
  cancelMigration,
  finalizeMigration,
  signalTargetPodCleanup,
};

/**
 * Longest time one step may take, whatever is inside: a launcher that hangs costs its own key this much. Upstream has no such
 * limit, and ten hung launchers stop its ten workers.
 */
const stepTimeoutMs = 30_000;
const deadlineMs = () => stepTimeoutMs;

/** Never rejects: what a step throws is a failed outcome. */
export function runPlan({ steps }: Plan, context: ExecuteContext): Promise<StepOutcome[]> {
  return runSteps(steps, context, { executors, deadlineMs, errorOf: stepErrorOf, clock: context.ports.clock });
}

const secureBootText = 'EFI OVMF rom missing';

/**
 * Two kinds of failure end the VMI, all others are tried again: a critical network error, and firmware that the launcher does not
 * have (upstream knows it by this text, too: pkg/virt-handler/vm.go).
 */
function stepErrorOf(error: unknown): StepError {
  const code = errorCode(error) ?? 'FAILED';
  const message = errorMessage(error);
  if (code === 'CRITICAL_NETWORK') return { severity: 'critical', code, message: `Critical network error: ${message}` };
  if (message.includes(secureBootText)) {
    const text = `mismatch of Secure Boot setting and bootloaders: ${message}`;
    return { severity: 'critical', code: 'CRITICAL_SECURE_BOOT', message: text };
  }
  return { severity: 'retry', code, message };
}
