import { isOwnedByNode, labels } from '../../../api/index.ts';
import { type RuleTable, ruleTable, explainRule as sentenceOf } from '../../../reconcile/index.ts';
import type { Observation } from '../observe/index.ts';
import { type Facts, factsOf } from './facts.ts';
import { finishRules, movedRule, neverRanRules, nothingLeftRule } from './finish-rules.ts';
import { lookRules, probeRules } from './look-rules.ts';
import { arrivedRules, waitingRules } from './migration/arrived-rules.ts';
import { endOf, isReceiving } from './migration/decentralised.ts';
import { orphanedRules } from './migration/orphaned-rules.ts';
import { sourceRules } from './migration/source-rules.ts';
import { targetRules } from './migration/target-rules.ts';
import { phaseRules } from './phase-rules.ts';
import { type Decision, type Plan, type Route, type Rule, rest, wait } from './rule.ts';
import { shutdownRules } from './shutdown-rules.ts';
import { syncRules, unreadableRule } from './sync-rules.ts';

/** Before any route: without an answer from the API server a missing VMI is neither deleted nor moved. */
const lookupRule: Rule = {
  name: 'vmi-lookup-failed',
  why: 'The API server gave no answer on whether this VMI still exists, so nothing is done until it does.',
  when: ({ observation }) => observation.vmi.kind === 'unclear',
  plan: () => wait(5_000),
};

/** Total: there is a decision for every state. */
const nothingMatches = {
  name: 'nothing-to-do',
  why: 'Nothing about this VMI asks for anything at the moment.',
  plan: () => rest,
};

const defaultRules: readonly Rule[] = [
  ...lookRules,
  movedRule,
  nothingLeftRule,
  ...probeRules,
  ...shutdownRules,
  ...finishRules,
  unreadableRule,
  ...neverRanRules,
  ...waitingRules,
  ...phaseRules,
  ...syncRules,
];

export const rulesByRoute: Readonly<Record<Route, readonly Rule[]>> = {
  'migration-target': targetRules,
  'migration-arrived': [...arrivedRules, ...defaultRules],
  'orphaned-source': orphanedRules,
  'migration-source': [...sourceRules, ...defaultRules],
  default: defaultRules,
};

const tableOf = (route: Route): RuleTable<Facts, Plan> =>
  ruleTable([lookupRule, ...rulesByRoute[route]], nothingMatches);

const tables: Readonly<Record<Route, RuleTable<Facts, Plan>>> = {
  'migration-target': tableOf('migration-target'),
  'migration-arrived': tableOf('migration-arrived'),
  'orphaned-source': tableOf('orphaned-source'),
  'migration-source': tableOf('migration-source'),
  default: tableOf('default'),
};

/** One decision from one observation: pure, total, no clock, never throws on anything `observe` can deliver. */
export function decide(observation: Observation): Decision {
  const facts = factsOf(observation);
  const route = routeOf(facts);
  const rule = tables[route].ruleFor(facts);
  return { route, rule: rule.name, ...rule.plan(facts) };
}

/** The sentence for people that belongs to a decision; empty for a rule this build does not have. */
export function explainRule(route: Route, name: string): string {
  return sentenceOf(tables[route], name);
}

/** Upstream has one controller per route (pkg/virt-handler: vm.go, migration-source.go, migration-target.go). The first that fits. */
function routeOf(facts: Facts): Route {
  const { vmi, observation } = facts;
  if (!vmi) return 'default';
  const { nodeName } = observation;
  const isOwner = isOwnedByNode(vmi, nodeName);
  if (isAskedToReceive(facts) && (!isOwner || isReceiving(facts))) return 'migration-target';
  if (observation.vmi.kind === 'elsewhere' || !isOwner) return 'orphaned-source';
  // Also when the label went without this agent: its streams are still to be closed.
  const hasArrived = isAskedToReceive(facts) || observation.migrationProxies.targetPorts !== undefined;
  const state = vmi.status?.migrationState;
  const end = endOf(facts);
  // Nodes of two clusters may have the same name.
  if (hasArrived && (state?.sourceNode !== nodeName || end === 'target')) return 'migration-arrived';
  const isOpen = !state?.endTimestamp || (end === 'source' && state.failed !== true);
  const isSource = state?.sourceNode === nodeName && state.migrationUid && isOpen && end !== 'target';
  // Also when it is over: its streams are still to be closed.
  return isSource || observation.migrationProxies.hasSource ? 'migration-source' : 'default';
}

/** The migration controller's label; it stays until the migration is over, also when the VMI is this node's already. */
function isAskedToReceive({ vmi, observation }: Facts): boolean {
  return vmi?.metadata.labels?.[labels.migrationTargetNodeName] === observation.nodeName;
}
