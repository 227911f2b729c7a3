import { type Rule, rest } from '../rule.ts';
import { progressPatch, toldFailurePatch } from './source-patches.ts';
import { isLiving, planLeaving, whenLeaving } from './source-rule.ts';
import { sourceView } from './source-view.ts';

/** What is written down of it, whatever becomes of the guest. */
export const sourceReportRules: readonly Rule[] = [
  {
    name: 'migration-failed',
    why: 'The launcher tells that the migration failed; that is written, and the guest goes on here.',
    when: whenLeaving((_facts, { told }) => told?.Failed === true && Boolean(told.EndTimestamp)),
    plan: planLeaving((facts, { told }) =>
      told ? { steps: [], patch: toldFailurePatch(facts, told), requeueAfterMs: 0 } : rest,
    ),
  },
  {
    name: 'migration-progress',
    why: 'The launcher tells how far the migration is; that is written for the migration controller.',
    when: (facts) => {
      const view = sourceView(facts);
      const isTold = isLiving(facts) || (facts.domainState.kind === 'migrated' && !facts.final);
      return view !== undefined && isTold && progressPatch(view) !== undefined;
    },
    plan: planLeaving((_facts, view) => {
      const patch = progressPatch(view);
      return patch ? { steps: [], patch, requeueAfterMs: 0 } : rest;
    }),
  },
];
