import { type Rule, rest } from '../rule.ts';
import { progressPatch, reportedFailurePatch } from './source-patches.ts';
import { isLiving, planLeaving, whenLeaving } from './source-rule.ts';
import { sourceView } from './source-view.ts';

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
