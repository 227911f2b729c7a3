import {
  type Domain,
  findCondition,
  isFinal,
  type VirtualMachineInstance,
  type VmiPhase,
  type VmiStatus,
} from '../../api/index.ts';
import { rfc3339 } from '../../base/index.ts';
import type { Decision, StepOutcome, VmiPatch } from '../decide/index.ts';
import { dropUnusable, type Observation } from '../observe/index.ts';
import type { VmiEvent } from '../ports.ts';
import {
  removeCondition,
  setAccessCredentials,
  setAgentConnected,
  setNothingToBoot,
  setNotMigratable,
  setPaused,
  setSyncFailed,
} from './conditions.ts';
import { projectDomainFields } from './domain-fields.ts';
import { projectInterfaces } from './interfaces.ts';
import { migrationMethodOf } from './migration-method.ts';
import { semanticEqual } from './semantic-equal.ts';
import { applyPatch } from './vmi-patch.ts';

export interface Pass {
  readonly observation: Observation;
  readonly decision: Decision;
  readonly outcomes: readonly StepOutcome[];
}

export interface Projection {
  /** The whole object to PUT; undefined: nothing has to be written. */
  readonly vmi: VirtualMachineInstance | undefined;
  /** To be recorded when the write went through, or at once when there is nothing to write. */
  readonly events: readonly VmiEvent[];
  /** What is wrong, in words for the user. */
  readonly problem: string | undefined;
}

const nothing = { vmi: undefined, events: [] } as const;

/**
 * The VMI as it should be after this pass, also after a failed step. Pure. Unknown fields are kept: `stored` is copied and
 * changed in place, never rebuilt. Nothing is written to a final VMI, to another node's, or without a difference.
 */
export function project(stored: VirtualMachineInstance, pass: Pass): Projection {
  const { observation, decision } = pass;
  const problem = problemOf(pass);
  const isOurs = decision.route === 'default' || decision.route === 'migration-source';
  if (!isOurs || isFinal(stored)) return projectPatch(stored, decision.patch, rfc3339(observation.now));
  const vmi = structuredClone(stored);
  if (dropUnusable(structuredClone(stored)).some(({ part }) => part !== 'spec')) {
    return { vmi: undefined, events: syncFailed(problem, undefined, observation), problem };
  }
  vmi.status ??= {};
  const { status } = vmi;
  const now = rfc3339(observation.now);
  const before = status.phase ?? '';
  const phase = phaseOf(pass) ?? before;
  const domain = observation.domain.kind === 'present' ? observation.domain.domain : undefined;
  const noticed = projectStatus(vmi, status, domain, observation, now);
  const failedBefore = findCondition(stored.status?.conditions, 'Synchronized')?.message;
  if (problem !== undefined) setSyncFailed(status, problem, now);
  else if (decision.healthy || hasSynced(pass)) removeCondition(status, 'Synchronized');
  applyPatch(vmi, decision.patch, now);
  setPhase(status, phase, now);
  const isPatched = decision.patch !== undefined && !semanticEqual(stored, vmi);
  const isWorth =
    phase !== before || isPatched || (isNoticeable(phase, stored, vmi) && !semanticEqual(stored.status, status));
  // What is not written yet is noticed again in the next pass: its event waits for the write.
  const written = isWorth
    ? [...noticed, ...(phase === before ? [] : phaseEvents(phase)), ...(decision.patch?.events ?? [])]
    : [];
  const events = [...syncFailed(problem, failedBefore, observation), ...written];
  return { vmi: isWorth ? vmi : undefined, events, problem };
}

/** Of a VMI that is final or another node's only what a rule decided on is written. */
function projectPatch(stored: VirtualMachineInstance, patch: VmiPatch | undefined, now: string): Projection {
  if (!patch) return { ...nothing, problem: undefined };
  const vmi = structuredClone(stored);
  applyPatch(vmi, patch, now);
  if (semanticEqual(stored, vmi)) return { ...nothing, problem: undefined };
  return { vmi, events: patch.events ?? [], problem: undefined };
}

/** Parts of the safe reading are enough: what has a wrong type was refused above or belongs to the spec. */
function projectStatus(
  vmi: VirtualMachineInstance,
  status: VmiStatus,
  domain: Domain | undefined,
  observation: Observation,
  now: string,
): VmiEvent[] {
  const readable = structuredClone(vmi);
  dropUnusable(readable);
  if (domain) {
    projectDomainFields(status, domain);
    status.interfaces = projectInterfaces(readable, domain);
  }
  status.selinuxContext = observation.selinuxContext;
  if (readable.spec?.domain) status.migrationMethod = migrationMethodOf(readable);
  const events = setAccessCredentials(status, domain, now) ? [credentialsEvent(domain)] : [];
  setNotMigratable(status);
  if (domain || observation.domain.kind === 'gone') {
    setAgentConnected(status, domain, now);
    setPaused(status, domain, now);
  }
  return domain ? [...events, ...setNothingToBoot(status, readable.spec)] : events;
}

function phaseOf({ decision, outcomes }: Pass): VmiPhase | undefined {
  const isCritical = outcomes.some(({ outcome }) => outcome.kind === 'failed' && outcome.error.severity === 'critical');
  return isCritical ? 'Failed' : decision.phase;
}

/** A VMI that was replaced or vanished under the step is no failure to tell of. */
const silentCodes = new Set(['STALE', 'NO_VMI']);

function problemOf({ observation, decision, outcomes }: Pass): string | undefined {
  for (const { outcome } of outcomes) {
    if (outcome.kind === 'failed' && !silentCodes.has(outcome.error.code)) return outcome.error.message;
  }
  return decision.problem ?? observation.recordProblem;
}

function hasSynced({ outcomes }: Pass): boolean {
  return outcomes.some(({ step, outcome }) => step === 'syncVirtualMachine' && outcome.kind === 'done');
}

function setPhase(status: VmiStatus, phase: VmiPhase, now: string): void {
  if ((status.phase ?? '') === phase) return;
  status.phase = phase;
  const times = status.phaseTransitionTimestamps ?? [];
  if (times.some((entry) => entry.phase === phase)) return;
  status.phaseTransitionTimestamps = [...times, { phase, phaseTransitionTimestamp: now }];
}

/**
 * Before a guest runs only a new problem is worth a write of its own; the rest travels with the phase Running. So a start costs
 * one PUT where upstream needs two.
 */
function isNoticeable(phase: VmiPhase, stored: VirtualMachineInstance, vmi: VirtualMachineInstance): boolean {
  if (phase === 'Running') return true;
  const [before, after] = [stored, vmi].map((each) => findCondition(each.status?.conditions, 'Synchronized'));
  return after !== undefined && (before?.message !== after.message || before?.status !== after.status);
}

function phaseEvents(phase: VmiPhase): VmiEvent[] {
  switch (phase) {
    case 'Running':
      return [{ type: 'Normal', reason: 'Started', message: 'VirtualMachineInstance started.' }];
    case 'Succeeded':
      return [{ type: 'Normal', reason: 'Stopped', message: 'The VirtualMachineInstance was shut down.' }];
    case 'Failed':
      return [{ type: 'Warning', reason: 'Stopped', message: 'The VirtualMachineInstance crashed.' }];
    default:
      return [];
  }
}

/** Once per text: upstream repeats it on every retry and uses up the event budget of the object. */
function syncFailed(problem: string | undefined, told: string | undefined, observation: Observation): VmiEvent[] {
  if (problem === undefined || problem === told || problem === observation.memory.toldProblem) return [];
  return [{ type: 'Warning', reason: 'SyncFailed', message: problem }];
}

function credentialsEvent(domain: Domain | undefined): VmiEvent {
  const metadata = domain?.Spec?.Metadata?.KubeVirt?.AccessCredential;
  const text = metadata?.Message ? `: ${metadata.Message}` : '.';
  return metadata?.Succeeded
    ? { type: 'Normal', reason: 'AccessCredentialsSyncSuccess', message: `Access credentials sync successful${text}` }
    : { type: 'Warning', reason: 'AccessCredentialsSyncFailed', message: `Access credentials sync failed${text}` };
}
