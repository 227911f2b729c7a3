import type { DomainView, ExplainSeen, LauncherState } from '../../../api/index.ts';
import {
  type Attempt,
  clip,
  type DecisionRecord,
  decisionRecord,
  faultRule,
  memoryInWords,
} from '../../../reconcile/index.ts';
import { type Decision, explainRule, type Route, type VmiPatch } from '../decide/index.ts';
import { type KeyMemory, memoryFields, type Observation } from '../observe/index.ts';
import { lackingCommands } from '../status/index.ts';

/** One reconcile of a VMI as it is kept for "explain". */
export type VmiRecord = DecisionRecord<ExplainSeen>;

export function recordOf({ observation, decision, outcomes }: Attempt<Observation, Decision>): VmiRecord {
  const problem = decision.problem ?? observation.recordProblem;
  const record = decisionRecord(observation, decision, outcomes, { seen: seenOf(observation), problem });
  if (decision.phase) record.newPhase = decision.phase;
  const patch = patchParts(decision.patch);
  if (patch.length > 0) record.patch = patch;
  return record;
}

/** The sentence for people that belongs to the record's rule. */
export function explanationOf({ route, rule }: VmiRecord): string {
  return rule === faultRule ? explainFault : explainRule(route as Route, rule);
}

const explainFault = 'This agent itself failed over the VMI, which is a bug of the agent; the VMI is tried again.';

/** Of a reconcile that failed before anything was observed. */
const nothingSeen: ExplainSeen = {
  vmi: { kind: 'unclear' },
  domain: { kind: 'absent' },
  launcher: { kind: 'unclear' },
  memory: {},
};

export function seenOf(observation: Observation | undefined): ExplainSeen {
  if (!observation) return nothingSeen;
  const { ghost, predecessor, migrationProxies, recordProblem, memory, nowMs } = observation;
  const hasProxies = migrationProxies.targetPorts !== undefined || migrationProxies.hasSource;
  return {
    vmi: vmiOf(observation),
    domain: domainOf(observation.domain, nowMs),
    launcher: launcherOf(observation.launcher),
    ...(ghost && { ghost: ghost.uid }),
    ...(predecessor && {
      predecessor: {
        uid: predecessor.uid,
        domain: domainText(domainOf(predecessor.domain, nowMs)),
        launcher: predecessor.launcher.kind,
      },
    }),
    ...(hasProxies && {
      relays: { target: migrationProxies.targetPorts !== undefined, source: migrationProxies.hasSource },
    }),
    ...(recordProblem !== undefined && { recordProblem: clip(recordProblem) }),
    ...guestAgentOf(observation),
    ...hostWorkOf(observation),
    memory: memoryOf(memory, nowMs),
  };
}

/** Two observations that are one line of the story: a guest that is paused and one that runs are two. */
export function isSameSeen(one: ExplainSeen, two: ExplainSeen): boolean {
  return (
    one.vmi.kind === two.vmi.kind &&
    one.vmi.phase === two.vmi.phase &&
    one.domain.kind === two.domain.kind &&
    one.domain.status === two.domain.status &&
    one.domain.reason === two.domain.reason &&
    one.launcher.kind === two.launcher.kind
  );
}

/** Of the log line of a decision. */
export function logFieldsOf({ vmi, domain, launcher }: ExplainSeen): Readonly<Record<string, unknown>> {
  return { domain: domainText(domain), launcher: launcher.kind, phase: vmi.phase ?? '' };
}

/** `Running/Unknown`, `gone`, `unknown`. */
export function domainText({ kind, status, reason }: ExplainSeen['domain']): string {
  return kind === 'present' ? `${status}/${reason}` : kind;
}

function vmiOf({ vmi }: Observation): ExplainSeen['vmi'] {
  if (vmi.kind === 'deleted') return vmi.moved ? { kind: 'moved', moved: vmi.moved } : { kind: 'deleted' };
  if (vmi.kind === 'unclear') return { kind: 'unclear', because: clip(vmi.reason) };
  const { metadata, status } = vmi.vmi;
  const unusable = vmi.kind === 'present' ? vmi.problems.slice(0, 8).map(({ path }) => clip(path, 100)) : [];
  return {
    kind: vmi.kind,
    phase: status?.phase ?? '',
    ...(metadata.deletionTimestamp && { deletionTimestamp: String(metadata.deletionTimestamp) }),
    ...(metadata.resourceVersion && { resourceVersion: metadata.resourceVersion }),
    ...(unusable.length > 0 && { unusable }),
  };
}

function domainOf(domain: DomainView, nowMs: number): ExplainSeen['domain'] {
  if (domain.kind === 'absent') return { kind: 'absent' };
  const ageMs = Math.max(0, Math.round(nowMs - domain.seenMs));
  switch (domain.kind) {
    case 'present': {
      const { Status: status, Reason: reason } = domain.domain.Status;
      return { kind: 'present', status, reason, ageMs };
    }
    case 'gone':
      return { kind: 'gone', proof: domain.proof, ageMs };
    case 'unknown':
      return { kind: 'unknown', because: clip(domain.reason), ageMs };
  }
}

function launcherOf(launcher: LauncherState): ExplainSeen['launcher'] {
  switch (launcher.kind) {
    case 'ready':
      return { kind: 'ready', connected: launcher.connected };
    case 'not-ready':
      return { kind: 'not-ready', because: `no socket for ${Math.round(launcher.forMs / 1000)} s` };
    case 'dead':
    case 'unclear':
      return { kind: launcher.kind, because: clip(launcher.reason) };
  }
}

function memoryOf(memory: KeyMemory, nowMs: number): Record<string, unknown> {
  return memoryInWords(memoryFields(memory), nowMs);
}

function patchParts(patch: VmiPatch | undefined): string[] {
  if (!patch) return [];
  const { labels = {}, annotations = {}, status = {}, removeConditions = [], setConditions = [] } = patch;
  return [
    ...Object.keys(labels).map((name) => `label ${name}`),
    ...Object.keys(annotations).map((name) => `annotation ${name}`),
    ...Object.keys(status).map((name) => `status.${name}`),
    ...removeConditions.map((type) => `condition ${type} removed`),
    ...setConditions.map(({ type, status: value }) => `condition ${type}=${value}`),
  ].slice(0, 32);
}

/** What the condition AgentVersionNotSupported does not name. */
function guestAgentOf({ vmi, statusFacts }: Observation): Pick<ExplainSeen, 'guestAgentLacks'> {
  if (!statusFacts.guestAgent || vmi.kind !== 'present') return {};
  const lacking = lackingCommands(statusFacts.guestAgent, vmi.vmi.spec);
  return lacking ? { guestAgentLacks: lacking.names.slice(0, 16) } : {};
}

const hostWorkLimit = 16;

/** What hooks gave, also under an earlier process of the agent. */
function hostWorkOf({ hostFacts }: Observation): Pick<ExplainSeen, 'hostWork'> {
  const given = Object.entries(hostFacts).filter(([, facts]) => facts !== null);
  if (given.length === 0) return {};
  const texts = given.slice(0, hostWorkLimit).map(([hook, facts]) => [hook, clip(JSON.stringify(facts), 200)]);
  return { hostWork: Object.fromEntries(texts) };
}
