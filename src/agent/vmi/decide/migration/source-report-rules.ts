import type { MigrationMetadata } from '../../../../api/index.ts';
import { rfc3339 } from '../../../../base/index.ts';
import type { Facts } from '../facts.ts';
import { type Rule, rest, type VmiPatch } from '../rule.ts';
import { failedMigration } from './failed-migration.ts';
import { isLiving, planLeaving, whenLeaving } from './source-rule.ts';
import { type SourceView, sourceView } from './source-view.ts';

/** What is written down of it, whatever becomes of the guest. */
export const sourceReportRules: readonly Rule[] = [
  {
    name: 'migration-failed',
    why: 'The launcher tells that the migration failed; that is written, and the guest goes on here.',
    when: whenLeaving((_facts, { reported }) => reported?.Failed === true && Boolean(reported.EndTimestamp)),
    plan: planLeaving((facts, { reported }) =>
      reported ? { steps: [], patch: reportedFailurePatch(facts, reported), requeueAfterMs: 0 } : rest,
    ),
  },
  {
    name: 'migration-progress',
    why: 'The launcher tells how far the migration is; that is written for the migration controller.',
    when: (facts) => {
      const view = sourceView(facts);
      const isReportable = isLiving(facts) || (facts.domainState.kind === 'migrated' && !facts.final);
      return view !== undefined && isReportable && progressPatch(view) !== undefined;
    },
    plan: planLeaving((_facts, view) => {
      const patch = progressPatch(view);
      return patch ? { steps: [], patch, requeueAfterMs: 0 } : rest;
    }),
  },
];

const modes = ['PreCopy', 'PostCopy', 'Paused'];
const abortStates = ['Aborting', 'Succeeded', 'Failed'];

/**
 * What the launcher reports of a migration under way, as far as the VMI does not say so yet
 * (pkg/virt-handler/migration-source.go); undefined: it does. A launcher's time or word that the API would not take is left
 * out: it must not cost the VMI all its writes.
 */
function progressPatch({ state, reported }: SourceView): VmiPatch | undefined {
  if (!reported) return undefined;
  const started = instantOf(reported.StartTimestamp);
  const startTimestamp = started && started !== instantOf(state.startTimestamp) ? started : undefined;
  const mode = modes.includes(reported.Mode) && reported.Mode !== state.mode ? reported.Mode : undefined;
  if (!startTimestamp && !mode) return undefined;
  return { status: { migrationState: { ...(startTimestamp && { startTimestamp }), ...(mode && { mode }) } } };
}

/** The launcher gave up: its times, its words, and how far an abort came. */
function reportedFailurePatch(facts: Facts, reported: MigrationMetadata): VmiPatch {
  const [startTimestamp, endTimestamp] = [instantOf(reported.StartTimestamp), instantOf(reported.EndTimestamp)];
  return failedMigration(facts, {
    reason: reasonOf(facts, reported),
    ...(startTimestamp && { startTimestamp }),
    ...(endTimestamp && { endTimestamp }),
    more: {
      ...(modes.includes(reported.Mode) && { mode: reported.Mode }),
      ...(abortStates.includes(reported.AbortStatus) && { abortStatus: reported.AbortStatus }),
    },
  });
}

/** The launcher sees only that its streams broke; what this agent knows of why goes before its words. */
function reasonOf({ observation }: Facts, { UID, FailureReason }: MigrationMetadata): string {
  const words = FailureReason || 'the launcher gave no reason; see the log of the launcher pod on the source node';
  const { sourceEnded } = observation.migrationProxies;
  return sourceEnded?.migrationUid === UID ? `${sourceEnded.reason}: ${words}` : words;
}

/** The same moment in the one form that is compared and written. */
function instantOf(time: unknown): string | undefined {
  const ms = typeof time === 'string' ? Date.parse(time) : Number.NaN;
  return Number.isNaN(ms) ? undefined : rfc3339(new Date(ms));
}
