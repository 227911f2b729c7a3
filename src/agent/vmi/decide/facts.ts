import {
  type Domain,
  isBeingDeleted,
  isFinal,
  isMigrationTarget,
  type MigrationState,
  type VirtualMachineInstance,
  type VmiPhase,
} from '../../../api/index.ts';
import type { Observation } from '../observe/index.ts';
import { classifyDomain, type DomainState } from './domain-state.ts';
import { type Grace, graceOf, graceSecondsOf } from './grace.ts';

/** Why the domain is to end although its VMI is not final. */
export type Ending = 'vmi-gone' | 'vmi-deleted' | 'launcher-asks';

/** What rules ask about: an observation, read once. */
export interface Facts {
  readonly observation: Observation;
  readonly uid: string;
  /** Safe copy; undefined when the API server has none. */
  readonly vmi: VirtualMachineInstance | undefined;
  readonly phase: VmiPhase;
  readonly final: boolean;
  readonly deleting: boolean;
  readonly domainState: DomainState;
  readonly ending: Ending | undefined;
  readonly grace: Grace;
  /** Milliseconds since the last shutdown signal or kill of this process; undefined before the first. */
  readonly sinceSignalMs: number | undefined;
  readonly sinceKillMs: number | undefined;
  readonly sinceDeleteMs: number | undefined;
}

export function factsOf(observation: Observation): Facts {
  const vmi = vmiOf(observation);
  const domain = observation.domain.kind === 'present' ? observation.domain.domain : undefined;
  const phase: VmiPhase = vmi?.status?.phase ?? '';
  const graceSeconds = graceSecondsOf(vmi, domain);
  const { memory, nowMs } = observation;
  const since = (atMs: number | undefined) => (atMs === undefined ? undefined : nowMs - atMs);
  return {
    observation,
    uid: observation.uid,
    vmi,
    phase,
    final: vmi !== undefined && isFinal(vmi),
    deleting: vmi !== undefined && isBeingDeleted(vmi),
    domainState: classifyDomain(observation, phase, graceSeconds),
    ending: endingOf(observation, vmi, phase, domain),
    grace: graceOf(observation, graceSeconds, domain),
    sinceSignalMs: since(memory.ending.shutdown?.lastSignalMs),
    sinceKillMs: since(memory.ending.killedMs),
    sinceDeleteMs: since(memory.ending.deletedMs),
  };
}

function vmiOf({ vmi }: Observation): VirtualMachineInstance | undefined {
  return vmi.kind === 'present' || vmi.kind === 'elsewhere' ? vmi.vmi : undefined;
}

function endingOf(
  observation: Observation,
  vmi: VirtualMachineInstance | undefined,
  phase: VmiPhase,
  domain: Domain | undefined,
): Ending | undefined {
  if (observation.vmi.kind === 'deleted') return 'vmi-gone';
  if (vmi && isBeingDeleted(vmi)) return 'vmi-deleted';
  const { GracePeriod, Migration } = domain?.Spec?.Metadata?.KubeVirt ?? {};
  // A pod that ends while its guest leaves it: the guest lives on where it arrives.
  const isLeaving = Boolean(Migration?.StartTimestamp) && !Migration?.EndTimestamp;
  const isAsked = GracePeriod?.MarkedForGracefulShutdown === true && phase === 'Running';
  return isAsked && !isLeaving ? 'launcher-asks' : undefined;
}

/** As upstream decides it in pkg/virt-handler/controller.go. */
export function isMigrationInProgress(facts: Facts): boolean {
  const state = facts.vmi?.status?.migrationState;
  if (state?.startTimestamp && !state.endTimestamp) return true;
  if (isWaitingMigrationTarget(facts.vmi, state)) return true;
  if (facts.domainState.kind !== 'alive') return false;
  const { domain } = facts.domainState;
  const migration = domain.Spec?.Metadata?.KubeVirt?.Migration;
  if (migration?.StartTimestamp && !migration.EndTimestamp) return true;
  const { Status, Reason } = domain.Status;
  // StartingUp is left out on purpose: it is how every domain begins, here or elsewhere.
  return Status === 'Paused' && (Reason === 'Migration' || Reason === 'Postcopy');
}

function isWaitingMigrationTarget(vmi: VirtualMachineInstance | undefined, state: MigrationState | undefined): boolean {
  return vmi !== undefined && isMigrationTarget(vmi) && state?.completed !== true;
}
