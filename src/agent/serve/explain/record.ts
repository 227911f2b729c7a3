import type { DomainView, ExplainDecision, ExplainSeen, ExplainStep, LauncherState } from '../../../api/index.ts';
import { errorMessage, isRecord, shortened } from '../../../base/index.ts';
import type { Decision, StepOutcome, VmiPatch } from '../../vmi/decide/index.ts';
import type { KeyMemory, Observation } from '../../vmi/observe/index.ts';

/** One pass over a VMI as it is kept; what rarely changes within the same decision is written over. */
export type DecisionRecord = { -readonly [Part in keyof Omit<ExplainDecision, 'why'>]: ExplainDecision[Part] };

const textLimit = 600;

/** Nobody's message makes the ring large. */
export function clip(text: string, limit = textLimit): string {
  return shortened(text, limit);
}

export function recordOf(
  observation: Observation,
  decision: Decision,
  outcomes: readonly StepOutcome[],
): DecisionRecord {
  const at = observation.now.toISOString();
  const patch = patchParts(decision.patch);
  const problem = problemOf(observation, decision, outcomes);
  return {
    firstAt: at,
    lastAt: at,
    times: 1,
    uid: observation.uid,
    route: decision.route,
    rule: decision.rule,
    seen: seenOf(observation),
    steps: stepsOf(decision, outcomes),
    ...(decision.phase && { newPhase: decision.phase }),
    ...(patch.length > 0 && { patch }),
    write: { outcome: 'not-reached' },
    ...(problem !== undefined && { problem: clip(problem) }),
    ...(decision.healthy && { healthy: true }),
  };
}

function problemOf(
  { recordProblem }: Observation,
  decision: Decision,
  outcomes: readonly StepOutcome[],
): string | undefined {
  const failed = outcomes.find(({ outcome }) => outcome.kind === 'failed')?.outcome;
  return failed?.kind === 'failed' ? failed.error.message : (decision.problem ?? recordProblem);
}

/** A pass that threw is a fault of this agent, told like any other trouble of the VMI. */
export function faultRecord(at: Date, uid: string, error: unknown, seen: ExplainSeen): DecisionRecord {
  const time = at.toISOString();
  return {
    firstAt: time,
    lastAt: time,
    times: 1,
    uid,
    route: '',
    rule: faultRule,
    seen,
    steps: [],
    write: { outcome: 'not-reached' },
    problem: clip(errorMessage(error)),
  };
}

/** In place of a rule's name when the pass itself failed. */
export const faultRule = 'pass-failed';
export const explainFault =
  'This agent itself failed over the VMI, which is a bug of the agent; the VMI is tried again.';

export const nothingSeen: ExplainSeen = {
  vmi: { kind: 'unclear' },
  domain: { kind: 'absent' },
  launcher: { kind: 'unclear' },
  memory: {},
};

export function seenOf(observation: Observation): ExplainSeen {
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
    memory: memoryOf(memory, nowMs),
  };
}

/** `Running/Unknown`, `gone`, `unknown`. */
export function domainText({ kind, status, reason }: ExplainSeen['domain']): string {
  return kind === 'present' ? `${status}/${reason}` : kind;
}

function vmiOf({ vmi }: Observation): ExplainSeen['vmi'] {
  if (vmi.kind === 'deleted') return { kind: 'deleted' };
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

const durations = new Set(['waitMs']);

/** Monotonic times mean nothing outside this process: they become milliseconds ago, or still to come (negative). */
function memoryOf(memory: KeyMemory, nowMs: number): Record<string, unknown> {
  const { uid: _uid, ...rest } = memory;
  return inWords(rest, nowMs);
}

function inWords(values: object, nowMs: number): Record<string, unknown> {
  const words: [string, unknown][] = [];
  for (const [name, value] of Object.entries(values)) {
    if (value === undefined || value === '') continue;
    if (typeof value === 'number' && name.endsWith('Ms') && !durations.has(name)) {
      words.push([`${name.slice(0, -2)}MsAgo`, Math.round(nowMs - value)]);
    } else if (typeof value === 'string') words.push([name, clip(value, 200)]);
    else if (isRecord(value)) words.push([name, inWords(value, nowMs)]);
    else if (typeof value === 'number' || typeof value === 'boolean') words.push([name, value]);
  }
  return Object.fromEntries(words);
}

function stepsOf(decision: Decision, outcomes: readonly StepOutcome[]): ExplainStep[] {
  return decision.steps.map(({ step }, index) => stepOf(step, outcomes[index]));
}

function stepOf(step: string, reached: StepOutcome | undefined): ExplainStep {
  if (!reached) return { step, outcome: 'not-reached' };
  const tookMs = Math.round(reached.tookMs * 10) / 10;
  const { outcome } = reached;
  switch (outcome.kind) {
    case 'done':
      return { step, outcome: 'done', tookMs };
    case 'wait':
      return { step, outcome: 'waits', tookMs, because: clip(outcome.reason) };
    case 'failed':
      return { step, outcome: 'failed', tookMs, because: clip(`${outcome.error.code}: ${outcome.error.message}`) };
  }
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
