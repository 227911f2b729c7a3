import {
  finalizers,
  isFinalMigration,
  labels,
  observedApiVersion,
  resources,
  retryCondition,
  type VirtualMachineInstanceMigration,
  withCondition,
  withoutCondition,
} from '../../api/index.ts';
import { rfc3339, sameJson } from '../../base/index.ts';
import { getIfThere, isKubeError, type KubeClient } from '../../kube/index.ts';
import {
  type Attempt,
  type ObjectEvent,
  type ReadYourWrites,
  type StepError,
  stepFailureOf,
  type WriteReport,
  type Written,
} from '../../reconcile/index.ts';
import { staleCode } from './execute.ts';
import { ownState } from './facts.ts';
import type { MigrationObservation, PresentMigration } from './observation.ts';
import {
  abortRequested,
  failedCondition,
  type MigrationDecision,
  quotaCondition,
  retryDue,
  type StatusChange,
  waitingConditions,
} from './plan.ts';
import { retryRefusedCode } from './retry-step.ts';

export interface StatusDeps {
  readonly client: Pick<KubeClient, 'get' | 'update' | 'updateStatus'>;
  readonly migrations: ReadYourWrites<VirtualMachineInstanceMigration>;
}

/** Stores what the decision changes, once all its steps are done. Never rejects but with the signal's reason. */
export async function writeMigration(
  { observation, decision, outcomes }: Attempt<MigrationObservation, MigrationDecision>,
  report: WriteReport,
  deps: StatusDeps,
  signal: AbortSignal,
): Promise<Written> {
  if (observation.kind !== 'present') return { kind: 'no-object' };
  const error = stepFailureOf(outcomes);
  if (error?.code === staleCode) return { kind: 'outdated' };
  const isDone = outcomes.every(({ outcome }) => outcome.kind === 'done');
  const change: StatusChange = isDone ? decision.change : afterFailure(error);
  try {
    const written = await store(observation, change, deps, signal);
    if (written.kind === 'written') report(eventsOf(change));
    return written;
  } catch (cause) {
    if (signal.aborted) throw cause;
    return { kind: 'failed', error: cause };
  }
}

function afterFailure(error: StepError | undefined): StatusChange {
  if (error?.code === retryRefusedCode) {
    const { message } = error;
    return { kind: 'condition', condition: { type: retryCondition, status: 'False', reason: 'RetryRefused', message } };
  }
  if (!error?.message.includes('exceeded quota')) return { kind: 'keep' };
  const condition = { type: quotaCondition, status: 'True', reason: 'ExceededQuota', message: error.message } as const;
  return { kind: 'condition', condition };
}

function eventsOf(change: StatusChange): ObjectEvent[] {
  return change.kind === 'failed' ? [{ type: 'Warning', reason: 'FailedMigration', message: change.message }] : [];
}

async function store(
  observation: PresentMigration,
  change: StatusChange,
  { client, migrations }: StatusDeps,
  signal: AbortSignal,
): Promise<Written> {
  const { key, migration } = observation;
  const wanted = projectMigration(observation, change);
  const type = resources.migrations;
  const saw = (newer: VirtualMachineInstanceMigration) => migrations.saw(key, migration, newer);
  return migrations.whileWriting(key, async () => {
    let base = migration;
    try {
      if (!sameJson(base.status ?? {}, wanted.status ?? {})) {
        base = await client.updateStatus(type, { ...base, status: wanted.status ?? {} }, { signal });
        saw(base);
      }
      if (!sameJson(metaOf(base), metaOf(wanted))) {
        const metadata = { ...base.metadata, ...metaOf(wanted) };
        base = await client.update(type, { ...base, metadata }, { signal });
        saw(base);
      }
      return { kind: base === migration ? 'unchanged' : 'written' };
    } catch (error) {
      if (isKubeError(error, 'NOT_FOUND')) return { kind: 'gone' };
      if (!isKubeError(error, 'CONFLICT')) throw error;
      const newest = await getIfThere<VirtualMachineInstanceMigration>(client, type, migration.metadata, { signal });
      if (newest) saw(newest);
      return { kind: newest ? 'outdated' : 'gone' };
    }
  });
}

/** The parts of the metadata that this controller writes. */
function metaOf({ metadata }: VirtualMachineInstanceMigration) {
  const { labels = {}, annotations = {}, finalizers = [] } = metadata;
  return { labels, annotations, finalizers };
}

/** The migration as it shall be stored now; the observation is not changed. */
export function projectMigration(observation: PresentMigration, change: StatusChange): VirtualMachineInstanceMigration {
  const wanted = structuredClone(observation.migration);
  noteSource(wanted, observation);
  noteAddresses(wanted, observation);
  const time = rfc3339(observation.now);
  switch (change.kind) {
    case 'keep':
      break;
    case 'admit':
      wanted.metadata.labels = { ...wanted.metadata.labels, [labels.migrationVmi]: wanted.spec.vmiName ?? '' };
      wanted.metadata.annotations = { ...wanted.metadata.annotations, ...observedApiVersion };
      wanted.metadata.finalizers = [...new Set([...(wanted.metadata.finalizers ?? []), finalizers.migration])];
      break;
    case 'phase':
      setPhase(wanted, change.phase, time);
      break;
    case 'condition':
      setConditions(wanted, [change.condition], time);
      break;
    case 'failed': {
      const { reason, message, isAbort, isTriedAgain } = change;
      const cause = { type: failedCondition, status: 'True', reason, message } as const;
      setPhase(wanted, 'Failed', time);
      setConditions(wanted, [...(isAbort ? [abortRequested] : []), cause, ...(isTriedAgain ? [retryDue] : [])], time);
      break;
    }
    case 'release':
      release(wanted, observation);
      break;
    default:
      change satisfies never;
  }
  return wanted;
}

/** While it waits: where the guest is. The VMI gets it with the hand-over, and clean-up finds the pod by it in the end. */
function noteSource(wanted: VirtualMachineInstanceMigration, { sourcePod }: PresentMigration): void {
  const { status } = wanted;
  if (!['Synchronizing', 'Pending'].includes(status?.phase ?? '') || !status || !sourcePod) return;
  status.migrationState = { ...status.migrationState, sourcePod: sourcePod.metadata.name };
}

/** For those who ask for a migration to this cluster: its `connectURL` is one of them. */
function noteAddresses({ status }: VirtualMachineInstanceMigration, { config, migration }: PresentMigration): void {
  const { synchronizationAddresses: addresses } = config;
  const isNews = addresses.length > 0 && !sameJson(addresses, status?.synchronizationAddresses ?? []);
  if (status && isNews && !isFinalMigration(migration)) status.synchronizationAddresses = [...addresses];
}

type Phase = NonNullable<NonNullable<VirtualMachineInstanceMigration['status']>['phase']>;

function setPhase(wanted: VirtualMachineInstanceMigration, phase: Phase, time: string): void {
  const status = wanted.status ?? {};
  const stamps = status.phaseTransitionTimestamps ?? [];
  const conditions = waitingConditions.reduce(withoutCondition, status.conditions ?? []);
  wanted.status = {
    ...status,
    ...((status.conditions || conditions.length > 0) && { conditions }),
    phase,
    phaseTransitionTimestamps: [...stamps, { phase, phaseTransitionTimestamp: time }],
  };
}

type States = Parameters<typeof withCondition>[1];

function setConditions(wanted: VirtualMachineInstanceMigration, states: readonly States[], time: string): void {
  const conditions = states.reduce((all, state) => withCondition(all, state, time), wanted.status?.conditions ?? []);
  wanted.status = { ...wanted.status, conditions };
}

function release(wanted: VirtualMachineInstanceMigration, observation: PresentMigration): void {
  const state = ownState(observation);
  if (state) wanted.status = { ...wanted.status, migrationState: structuredClone(state) };
  const kept = (wanted.metadata.finalizers ?? []).filter((name) => name !== finalizers.migration);
  wanted.metadata.finalizers = kept;
}
