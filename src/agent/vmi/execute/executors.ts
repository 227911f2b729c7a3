import { type Executors, runPlan as runSteps } from '../../../reconcile/index.ts';
import type { Plan, StepArgs, StepName, StepOutcome } from '../decide/index.ts';
import type { Remember } from '../observe/index.ts';
import type { ExecuteContext } from './context.ts';
import { cleanUp, deleteDomain, killDomain, shutdownDomain } from './end-steps.ts';
import { adjustHost, prepareHost, settleHost } from './host-steps.ts';
import { ensureLauncherConnection, refreshDomain } from './launcher-steps.ts';
import { cancelMigration, migrateVirtualMachine } from './migration-source-steps.ts';
import { closeSourceProxies, closeTargetProxies, openSourceProxies, openTargetProxies } from './migration-steps.ts';
import { finalizeMigration, prepareMigrationTarget, signalTargetPodCleanup } from './migration-target-steps.ts';
import { dumpMemory, hotplugHostDevices, syncVirtualMachine } from './start-steps.ts';
import { stepErrorOf } from './step-error.ts';

const executors: Executors<StepArgs, ExecuteContext, Remember> = {
  ensureLauncherConnection,
  refreshDomain,
  prepareHost,
  adjustHost,
  settleHost,
  syncVirtualMachine,
  hotplugHostDevices,
  dumpMemory,
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

/** Hooks in these have deadlines of their own, beside what the step itself takes. */
const hookSteps: ReadonlySet<StepName> = new Set([
  'prepareHost',
  'adjustHost',
  'settleHost',
  'prepareMigrationTarget',
  'cleanUp',
]);

/** Never rejects: what a step throws is a failed outcome. */
export function runPlan({ steps }: Plan, context: ExecuteContext): Promise<StepOutcome[]> {
  const { clock, hostWork } = context.ports;
  const deadlineMs = (step: StepName) => stepTimeoutMs + (hookSteps.has(step) ? hostWork.budgetMs : 0);
  return runSteps(steps, context, { executors, deadlineMs, errorOf: stepErrorOf, clock });
}
