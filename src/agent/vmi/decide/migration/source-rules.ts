import { isOfMigration } from '../../observe/index.ts';
import type { Facts } from '../facts.ts';
import type { Rule } from '../rule.ts';
import { sentAwayRules } from './decentralised.ts';
import { handOverRules } from './hand-over-rules.ts';
import { postCopyRules } from './post-copy-rules.ts';
import { sourceReportRules } from './source-report-rules.ts';
import { sourceRunningRules } from './source-running-rules.ts';
import { sourceStartRules } from './source-start-rules.ts';
import { hasSwitched, sourceView } from './source-view.ts';

/** Streams without a user: of another migration, of one that is over, or of a guest that is to end here. */
function hasLeftProxies(facts: Facts): boolean {
  const { migrationProxies, memory } = facts.observation;
  if (!migrationProxies.hasSource) return false;
  const view = sourceView(facts);
  if (!view || view.reported?.EndTimestamp) return true;
  // An earlier agent may have opened them: this one remembers nothing of it, and a running migration would break.
  if (!isOfMigration(memory, view.migrationUid) && migrationProxies.sourceMigration !== view.migrationUid) return true;
  // In post-copy the guest's memory is on both nodes: it can only end where it arrives.
  const isEnding = facts.final || facts.ending !== undefined;
  return isEnding && facts.domainState.kind === 'alive' && !hasSwitched(view);
}

/**
 * A VMI that is to leave this node, or whose streams are still open. What ends the guest is left to the default rules, which
 * come after these; while it moves they do not see it, so that nothing is synced.
 */
export const sourceRules: readonly Rule[] = [
  {
    name: 'source-proxies-left',
    why: 'Streams of a migration are open that nobody needs any more; they are closed.',
    when: hasLeftProxies,
    plan: ({ uid }) => ({ steps: [{ step: 'closeSourceProxies', uid }], requeueAfterMs: 0 }),
  },
  ...sentAwayRules,
  ...sourceReportRules,
  ...handOverRules,
  ...sourceStartRules,
  ...postCopyRules,
  ...sourceRunningRules,
];
