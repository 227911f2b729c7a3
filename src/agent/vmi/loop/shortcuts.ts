import type { DomainView, VirtualMachineInstance } from '../../../api/index.ts';
import type { StepOutcome } from '../../../reconcile/index.ts';
import type { Decision, StepName } from '../decide/index.ts';
import type { KeyMemory } from '../observe/index.ts';

/** Skip reconciles that cannot change anything; in a burst they delay the useful ones. */

const lookSteps: ReadonlySet<StepName> = new Set(['ensureLauncherConnection', 'refreshDomain']);

/** It only asked, was answered, and goes on at once: what is decided next needs no write and no worker slot before it. */
export function isOnlyALook(decision: Decision, outcomes: readonly StepOutcome<PropertyKey>[]): boolean {
  const { steps, requeueAfterMs, phase, patch, events, problem } = decision;
  return (
    requeueAfterMs === 0 &&
    [phase, patch, events, problem].every((part) => part === undefined) &&
    steps.every(({ step }) => lookSteps.has(step)) &&
    outcomes.length === steps.length &&
    outcomes.every(({ outcome }) => outcome.kind === 'done')
  );
}

/** What the launcher reports of a start before the guest runs: the domain is defined, and its next event a moment away. */
export function isStartUnderWay(
  vmi: VirtualMachineInstance | undefined,
  memory: KeyMemory | undefined,
  view: DomainView,
): boolean {
  const isAskedFor = memory !== undefined && memory.uid === vmi?.metadata.uid && memory.sync.kind !== 'none';
  if (!isAskedFor || vmi?.status?.phase !== 'Scheduled' || vmi.metadata.deletionTimestamp) return false;
  if (view.kind !== 'present' || view.uid !== memory.uid) return false;
  const { Status: status, Reason: reason } = view.domain.Status;
  return status === 'Shutoff' && reason === 'Unknown';
}
