import { isOwnedByNode, labels } from '../../../api/index.ts';
import type { Observation } from '../observe/index.ts';
import { type Facts, factsOf } from './facts.ts';
import { finishRules, neverRanRules, nothingLeftRule } from './finish-rules.ts';
import { lookRules, probeRules } from './look-rules.ts';
import { arrivedRules, waitingRules } from './migration/arrived-rules.ts';
import { orphanedRules } from './migration/orphaned-rules.ts';
import { sourceRules } from './migration/source-rules.ts';
import { targetRules } from './migration/target-rules.ts';
import { phaseRules } from './phase-rules.ts';
import { type Decision, type Route, type Rule, rest, wait } from './rule.ts';
import { shutdownRules } from './shutdown-rules.ts';
import { syncRules, unreadableRule } from './sync-rules.ts';

/** Before any route: without an answer from the API server a missing VMI is neither deleted nor moved. */
const lookupRule: Rule = {
  name: 'vmi-lookup-failed',
  why: 'The API server gave no answer on whether this VMI still exists, so nothing is done until it does.',
  when: ({ observation }) => observation.vmi.kind === 'unclear',
  plan: () => wait(5_000),
};

/** Total: there is a decision for every situation. */
const nothingMatches: Rule = {
  name: 'nothing-to-do',
  why: 'Nothing about this VMI asks for anything at the moment.',
  when: () => true,
  plan: () => rest,
};

const defaultRules: readonly Rule[] = [
  ...lookRules,
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

/** One decision from one observation: pure, total, no clock, never throws on anything `observe` can deliver. */
export function decide(observation: Observation): Decision {
  const facts = factsOf(observation);
  const route = routeOf(facts);
  const rules = [lookupRule, ...rulesByRoute[route], nothingMatches];
  const rule = rules.find(({ when }) => when(facts)) ?? nothingMatches;
  return { route, rule: rule.name, ...rule.plan(facts) };
}

/** The sentence for people that belongs to a decision; empty for a rule this build does not have. */
export function explainRule(route: Route, name: string): string {
  const rules = [lookupRule, ...rulesByRoute[route], nothingMatches];
  return rules.find((rule) => rule.name === name)?.why ?? '';
}

/** Spec 10 §6.1; the first that fits. */
function routeOf(facts: Facts): Route {
  const { vmi, observation } = facts;
  if (!vmi) return 'default';
  const { nodeName } = observation;
  const isOwner = isOwnedByNode(vmi, nodeName);
  if (isAskedToReceive(facts) && !isOwner) return 'migration-target';
  if (observation.vmi.kind === 'elsewhere' || !isOwner) return 'orphaned-source';
  // Also when the label went without this agent: its streams are still to be closed.
  const hasArrived = isAskedToReceive(facts) || observation.migrationProxies.targetPorts !== undefined;
  if (hasArrived && vmi.status?.migrationState?.sourceNode !== nodeName) return 'migration-arrived';
  const state = vmi.status?.migrationState;
  const isSource = state?.sourceNode === nodeName && state.migrationUid && !state.endTimestamp;
  // Also when it is over: its streams are still to be closed.
  return isSource || observation.migrationProxies.hasSource ? 'migration-source' : 'default';
}

/** The migration controller's label; it stays until the migration is over, also when the VMI is this node's already. */
function isAskedToReceive({ vmi, observation }: Facts): boolean {
  return vmi?.metadata.labels?.[labels.migrationTargetNodeName] === observation.nodeName;
}
