import { errorCode, errorMessage, withDeadline } from '../../../base/index.ts';
import type { Outcome, Step, StepError, StepName } from '../decide/index.ts';
import type { ExecuteContext } from './context.ts';
import { cleanUp, deleteDomain, killDomain, shutdownDomain } from './end-steps.ts';
import { ensureLauncherConnection, refreshDomain } from './launcher-steps.ts';
import { cancelMigration, migrateVirtualMachine } from './migration-source-steps.ts';
import { closeSourceProxies, closeTargetProxies, openSourceProxies, openTargetProxies } from './migration-steps.ts';
import { finalizeMigration, prepareMigrationTarget, signalTargetPodCleanup } from './migration-target-steps.ts';
import { adjustHost, prepareHost, syncVirtualMachine } from './start-steps.ts';

/** One function per step: the compiler refuses a missing one. */
export type Executors = {
  readonly [K in StepName]: (step: Step<K>, context: ExecuteContext) => Promise<Outcome>;
};

const executors: Executors = {
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

/** Longest time one step may take, whatever is inside: a hung launcher costs its own key this much (fault 8, spec 00). */
const stepTimeoutMs = 30_000;

/** Runs one step. Never rejects: what was thrown becomes a failed outcome. */
export async function executeStep<K extends StepName>(step: Step<K>, context: ExecuteContext): Promise<Outcome> {
  const { signal, ports } = context;
  try {
    return await withDeadline({ timeoutMs: stepTimeoutMs, signal, clock: ports.clock }, (ending) =>
      executors[step.step as K](step, { ...context, signal: ending }),
    );
  } catch (error) {
    return { kind: 'failed', error: stepErrorOf(error) };
  }
}

const secureBootText = 'EFI OVMF rom missing';

/** Spec 10b §3: two kinds of failure end the VMI, all others are tried again. */
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
