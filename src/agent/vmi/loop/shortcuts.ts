import type { VirtualMachineInstance } from '../../../api/index.ts';
import type { Decision, StepName, StepOutcome } from '../decide/index.ts';
import type { KeyMemory } from '../observe/index.ts';
import type { DomainView } from '../ports.ts';

/** Passes that would change nothing, and cost as much as any other: a hundred starts at once wait for each other's. */

const lookSteps: ReadonlySet<StepName> = new Set(['ensureLauncherConnection', 'refreshDomain']);

/** Only asked, was answered, and goes on at once: what is decided next needs no write and no place in the queue before it. */
export function isOnlyALook(decision: Decision, outcomes: readonly StepOutcome[]): boolean {
  const { steps, requeueAfterMs, phase, patch, events, problem } = decision;
  return (
    requeueAfterMs === 0 &&
    [phase, patch, events, problem].every((part) => part === undefined) &&
    steps.every(({ step }) => lookSteps.has(step)) &&
    outcomes.length === steps.length &&
    outcomes.every(({ outcome }) => outcome.kind === 'done')
  );
}

/** What the launcher tells of a start before the guest runs: the domain is defined, and its next event a moment away. */
export function isStartUnderWay(
  vmi: VirtualMachineInstance | undefined,
  memory: KeyMemory | undefined,
  view: DomainView,
): boolean {
  const isAskedFor = memory !== undefined && memory.uid === vmi?.metadata.uid && (memory.startTries ?? memory.synced);
  if (!isAskedFor || vmi?.status?.phase !== 'Scheduled' || vmi.metadata.deletionTimestamp) return false;
  if (view.kind !== 'present' || view.uid !== memory.uid) return false;
  const { Status: status, Reason: reason } = view.domain.Status;
  return status === 'Shutoff' && reason === 'Unknown';
}
