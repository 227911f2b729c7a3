import {
  annotations,
  finalizers,
  findCondition,
  isBeingDeleted,
  isFinal,
  labels,
  migrationRefusal,
  observedApiVersion,
  retriedBy,
  retryNameOf,
  type VirtualMachineInstance,
  type VirtualMachineInstanceMigration,
} from '../../api/index.ts';
import { podFacts } from '../pod/index.ts';
import { isDeleted, limitAnnotation, ownState, reachedMs } from './facts.ts';
import type { MigrationFacts } from './observation.ts';
import { abortRequested } from './plan.ts';
import { isAutomatic } from './siblings.ts';

/** A controller that comes back later than this does not surprise anybody with a migration. */
const lateMs = 600_000;

/** Why a migration that a loss has ended is not tried again, in words; undefined: it is. */
export function obstacleToRetry(facts: MigrationFacts): string | undefined {
  return wishOf(facts) ?? placeOf(facts) ?? stateOfGuest(facts);
}

/** What was asked for, and by whom. */
function wishOf(facts: MigrationFacts): string | undefined {
  const { migration, retry } = facts;
  const { sendTo, receive } = migration.spec;
  const failedMs = reachedMs(facts, 'Failed');
  if (retry.limit === 0) return 'this controller tries no migration again';
  if (isDeleted(facts)) return 'it is cancelled';
  if (retriedBy(migration) !== undefined) return `it tried ${retriedBy(migration)} again itself`;
  if (isAutomatic(migration) || isOfController(migration)) return 'who made it tries again';
  if (sendTo !== undefined || receive !== undefined) return 'it leads to another cluster or namespace';
  if (retry.newer !== undefined) return `migration ${retry.newer} was asked for since`;
  if (failedMs !== undefined && failedMs >= lateMs) return `nobody could do so within ${lateMs / 60_000} minutes`;
  return undefined;
}

const isOfController = ({ metadata }: VirtualMachineInstanceMigration) =>
  metadata.ownerReferences?.some(({ controller }) => controller === true) === true;

/** Its guest is where it was, in whole: by the pod, which is another one for a VMI that was made anew. */
function placeOf(facts: MigrationFacts): string | undefined {
  const { vmi, migration, sourcePod } = facts;
  const state = ownState(facts);
  const from = migration.status?.migrationState?.sourcePod || state?.sourcePod;
  if (!vmi || isFinal(vmi) || isBeingDeleted(vmi) || vmi.status?.phase !== 'Running') return 'the VMI ends';
  if (!sourcePod || sourcePod.metadata.name !== from) return 'the guest is not in the pod that it was to leave';
  if (podFacts.isFinal(sourcePod) || isBeingDeleted(sourcePod)) return 'the pod of the guest ends';
  if (state?.mode === 'PostCopy' || state?.targetNodeDomainReadyTimestamp) return 'the guest may be on its target';
  return undefined;
}

/** What would end the next one, too. */
function stateOfGuest(facts: MigrationFacts): string | undefined {
  const { vmi, migration } = facts;
  const { abortRequested: isAborted, abortStatus } = ownState(facts) ?? {};
  const paused = findCondition(vmi?.status?.conditions, 'Paused');
  const refusal = vmi && migrationRefusal(vmi);
  const isNoted = findCondition(migration.status?.conditions, abortRequested.type) !== undefined;
  if (isAborted || abortStatus || isNoted) return 'it was aborted';
  if (paused?.status === 'True' && paused.reason !== 'PausedByUser') return `the guest stands still: ${paused.reason}`;
  return refusal;
}

/** The agent of either node says that it did not want to: that is no loss. */
export function isRefusedByAgent({
  vmi,
  uid,
}: {
  readonly vmi: VirtualMachineInstance | undefined;
  readonly uid: string;
}) {
  return vmi?.metadata.annotations?.[annotations.migrationRefused] === uid;
}

const copied = ['UnschedulablePod', 'PendingPod', 'UtilityVolumes'].map(limitAnnotation);

/**
 * The migration that tries this one again: with all that a person asks for in one, and nothing that others keep track of it by. The
 * finalizer is there from the begin: one that is deleted at once is still seen.
 */
export function retryOf(migration: VirtualMachineInstanceMigration): VirtualMachineInstanceMigration {
  const { metadata, spec, apiVersion, kind } = migration;
  const limits = copied.flatMap((name) => {
    const given = metadata.annotations?.[name];
    return given === undefined ? [] : [[name, given] as const];
  });
  return {
    apiVersion,
    kind,
    metadata: {
      name: retryNameOf(migration),
      namespace: metadata.namespace ?? 'default',
      labels: { [labels.migrationVmi]: spec.vmiName ?? '' },
      annotations: {
        ...observedApiVersion,
        ...Object.fromEntries(limits),
        [annotations.migrationRetryOf]: metadata.name,
      },
      finalizers: [finalizers.migration],
    },
    spec: structuredClone(spec),
  };
}
