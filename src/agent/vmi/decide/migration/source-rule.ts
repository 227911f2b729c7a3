import type { Facts } from '../facts.ts';
import { type Plan, type Rule, rest } from '../rule.ts';
import { failedMigration, type MigrationFailure } from './failed-migration.ts';
import { type SourceView, sourceView } from './source-view.ts';

export type SourceTest = (facts: Facts, view: SourceView) => boolean;

/** The guest lives here and is not to end: what ends it goes before its migration. */
export const isLiving = ({ domainState, ending, final }: Facts): boolean =>
  domainState.kind === 'alive' && !ending && !final;

/** For a living guest with a migration away from here. */
export function whenLeaving(test: SourceTest): Rule['when'] {
  return (facts) => {
    const view = sourceView(facts);
    return view !== undefined && isLiving(facts) && test(facts, view);
  };
}

export function planLeaving(make: (facts: Facts, view: SourceView) => Plan): Rule['plan'] {
  return (facts) => {
    const view = sourceView(facts);
    return view ? make(facts, view) : rest;
  };
}

/** Writes the end and looks again: the guest is served as before, the migration proxies are closed. */
export function giveUp(
  reasonOf: (facts: Facts, view: SourceView) => string,
  more: Omit<MigrationFailure, 'reason'> = {},
): Rule['plan'] {
  return planLeaving((facts, view) => ({
    steps: [],
    patch: failedMigration(facts, { reason: reasonOf(facts, view), ...more }),
    requeueAfterMs: 0,
  }));
}
