import {
  findCondition,
  isBeingDeleted,
  type MigrationPhase,
  type MigrationState,
  type Pod,
  type VirtualMachineInstance,
} from '../../api/index.ts';
import { listOf, memberAt } from '../../base/index.ts';
import { podFacts } from '../pod/index.ts';
import type { MigrationFacts } from './observation.ts';

/** The VMI's account of this very migration; undefined: it was not handed over, or another one has followed. */
export function ownState({ vmi, uid }: MigrationFacts): MigrationState | undefined {
  const state = vmi?.status?.migrationState;
  return state?.migrationUid === uid ? state : undefined;
}

export function phaseOf({ migration }: Pick<MigrationFacts, 'migration'>) {
  return migration.status?.phase ?? '';
}

export function isPending(facts: Pick<MigrationFacts, 'migration'>): boolean {
  return isIn(facts, 'Pending');
}

export function isIn(facts: Pick<MigrationFacts, 'migration'>, ...phases: readonly MigrationPhase[]): boolean {
  return phases.some((phase) => phase === phaseOf(facts));
}

const afterTarget: readonly string[] = ['Scheduling', 'Scheduled', 'PreparingTarget', 'TargetReady', 'Running'];

/** Its target pod must be there. */
export function hasTargetPhase(facts: Pick<MigrationFacts, 'migration'>): boolean {
  return afterTarget.includes(phaseOf(facts));
}

/** Both agents know of it. */
export function hasAgentsPhase(facts: MigrationFacts): boolean {
  return afterTarget.indexOf(phaseOf(facts)) >= 2;
}

export function targetPod({ target }: MigrationFacts): Pod | undefined {
  return target.kind === 'pod' ? target.pod : undefined;
}

export function isTargetReady(facts: MigrationFacts): boolean {
  const pod = targetPod(facts);
  return pod !== undefined && pod.spec.nodeName !== undefined && podFacts.isReady(pod);
}

export function isDeleted({ migration }: MigrationFacts): boolean {
  return isBeingDeleted(migration);
}

/** How long the migration has been in its phase. */
export function inPhaseMs(facts: MigrationFacts): number {
  return reachedMs(facts, phaseOf(facts)) ?? 0;
}

/** How long ago the migration came to a phase; undefined: it did not. */
export function reachedMs({ migration, now }: MigrationFacts, phase: MigrationPhase): number | undefined {
  const { phaseTransitionTimestamps = [] } = migration.status ?? {};
  const since = phaseTransitionTimestamps.findLast((stamp) => stamp.phase === phase)?.phaseTransitionTimestamp;
  return since === undefined ? undefined : now.getTime() - Date.parse(since);
}

/** Of the pod to move to, as long as it has not started. */
export function pendingMs(pod: Pod, now: Date): number | undefined {
  const created = Date.parse(pod.metadata.creationTimestamp ?? '');
  if (pod.status?.phase !== 'Pending' || isBeingDeleted(pod) || Number.isNaN(created)) return undefined;
  return now.getTime() - created;
}

/** Where a migration says how long it may wait. */
export const limitAnnotation = (name: string) => `kubevirt.io/migration${name}TimeoutSeconds`;

/** A limit that upstream lets a user change by an annotation on the migration. */
export function limitMs({ migration }: MigrationFacts, annotation: string, seconds: number): number {
  const given = migration.metadata.annotations?.[annotation] ?? '';
  return (/^\d{1,9}$/.test(given) ? Number(given) : seconds) * 1_000;
}

/** What the kubelet or the launcher said at its end. */
export function lastWordsOf(pod: Pod): string {
  const ended = pod.status?.containerStatuses?.find(({ name }) => name === 'compute')?.state?.terminated;
  return ended?.message?.trim() || pod.status?.message || ended?.reason || pod.status?.reason || 'no reason given';
}

/** In the words of the scheduler. */
export function whyUnschedulable(pod: Pod): string | undefined {
  if (!podFacts.isUnschedulable(pod)) return undefined;
  return findCondition(pod.status?.conditions, 'PodScheduled')?.message ?? 'no reason given';
}

/** Names of volumes that a backup or the like has plugged in. */
export function utilityVolumesOf(vmi: VirtualMachineInstance | undefined): string[] {
  return listOf(memberAt(vmi?.spec, 'utilityVolumes')).map((volume) => String(memberAt(volume, 'name')));
}
