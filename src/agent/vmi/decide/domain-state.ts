import type { Domain, GoneProof, VmiPhase } from '../../../api/index.ts';
import type { KeyMemory, Observation } from '../observe/index.ts';

export interface FinalPhase {
  readonly phase: 'Succeeded' | 'Failed';
  readonly because: string;
  /** The end was not observed: in a live migration the guest may have left instead. */
  readonly guessed?: true;
}

/**
 * What the domain's status and reason mean for its VMI (pkg/virt-handler/vm.go). Only `stopped` and `gone` are proof of an end.
 */
export type DomainState =
  | { readonly kind: 'alive'; readonly domain: Domain; readonly runs: boolean }
  /** Defined and never started: define comes before start, so this is no dead domain. */
  | { readonly kind: 'not-started'; readonly domain: Domain }
  | { readonly kind: 'stopped'; readonly domain: Domain; readonly finalPhase: FinalPhase }
  /** Shut off without a reason although it ran: asked once more before anybody believes it. */
  | { readonly kind: 'shutoff-unexplained'; readonly domain: Domain }
  | { readonly kind: 'migrated'; readonly domain: Domain }
  | { readonly kind: 'gone'; readonly proof: GoneProof; readonly finalPhase: FinalPhase }
  | { readonly kind: 'unknown'; readonly reason: string }
  | { readonly kind: 'absent' };

export function classifyDomain(observation: Observation, phase: VmiPhase, graceSeconds: number): DomainState {
  const { domain: view, launcher, memory } = observation;
  const context: EndContext = { phase, graceSeconds, memory, postCopyFailed: hasPostCopyFailed(observation) };
  switch (view.kind) {
    case 'present':
      return classifyPresent(view.domain, context);
    case 'gone':
      if (isContradicted(observation)) return { kind: 'absent' };
      return { kind: 'gone', proof: view.proof, finalPhase: finalPhaseWhenGone(context, view.lastDomain) };
    case 'unknown':
      if (launcher.kind === 'dead') return launcherDead(context, view.lastDomain);
      return { kind: 'unknown', reason: view.reason };
    case 'absent':
      return launcher.kind === 'dead' ? launcherDead(context) : view;
  }
}

/**
 * A process listens where the VMI's pods have their socket: the launcher that ended was another, at another path (a record of
 * an earlier stay, or with paths of another agent), and this one has not been asked.
 */
function isContradicted({ domain, launcher }: Observation): boolean {
  return domain.kind === 'gone' && domain.proof === 'launcher-dead' && launcher.kind === 'ready';
}

function launcherDead(context: EndContext, lastDomain?: Domain): DomainState {
  return { kind: 'gone', proof: 'launcher-dead', finalPhase: finalPhaseWhenGone(context, lastDomain) };
}

interface EndContext {
  readonly phase: VmiPhase;
  readonly graceSeconds: number;
  readonly memory: KeyMemory;
  readonly postCopyFailed: boolean;
}

function classifyPresent(domain: Domain, context: EndContext): DomainState {
  const { Status: status, Reason: reason } = domain.Status;
  if (domain.ObjectMeta.deletionTimestamp || reason === 'NonExistent') {
    return { kind: 'gone', proof: 'launcher-says-none', finalPhase: finalPhaseWhenGone(context) };
  }
  switch (status) {
    case 'Running':
    case 'Blocked':
    case 'PMSuspended':
      return { kind: 'alive', domain, runs: true };
    case 'Paused':
      // StartingUp is how every domain begins: Running follows in a moment, and one write is enough.
      return { kind: 'alive', domain, runs: reason !== 'PostcopyFailed' && reason !== 'StartingUp' };
    case 'NoState':
    case 'ShuttingDown':
      return { kind: 'alive', domain, runs: false };
    case 'Shutoff':
    case 'Crashed':
      return classifyStopped(domain, context);
    default:
      return { kind: 'unknown', reason: `the launcher reports the domain status "${status}"` };
  }
}

function classifyStopped(domain: Domain, context: EndContext): DomainState {
  if (domain.Status.Reason === 'Migrated') return { kind: 'migrated', domain };
  const finalPhase = finalPhaseOf(domain, context) ?? decidedBefore(context);
  if (finalPhase) return { kind: 'stopped', domain, finalPhase };
  return context.phase === 'Running' ? { kind: 'shutoff-unexplained', domain } : { kind: 'not-started', domain };
}

/** What it showed before it lost its reason. A failure before the guest ran may have been a start that came late after all. */
function decidedBefore({ phase, memory }: EndContext): FinalPhase | undefined {
  const { finalPhase } = memory.ending;
  return phase === 'Running' || finalPhase?.phase === 'Succeeded' ? finalPhase : undefined;
}

/** Undefined: the reason says nothing about how it ended. */
function finalPhaseOf(domain: Domain, context: EndContext): FinalPhase | undefined {
  switch (domain.Status.Reason) {
    case 'Crashed':
    case 'Panicked':
      return { phase: 'Failed', because: 'the guest crashed' };
    case 'Destroyed':
      return finalPhaseWhenDestroyed(context, Boolean(domain.Spec?.Features?.ACPI));
    case 'Shutdown':
    case 'Saved':
    case 'FromSnapshot':
      return { phase: 'Succeeded', because: 'the guest was shut down' };
    default:
      return undefined;
  }
}

/** A kill of a guest that could have been shut down is a failure; one that could not is its normal end. */
function finalPhaseWhenDestroyed(context: EndContext, hasAcpi: boolean): FinalPhase {
  if (hasAcpi && context.graceSeconds > 0) return { phase: 'Failed', because: 'the guest was killed' };
  if (context.postCopyFailed) return { phase: 'Failed', because: 'the post-copy migration failed' };
  return { phase: 'Succeeded', because: 'the guest was stopped without a grace period' };
}

/** The best evidence that is left: what was decided before, the last sight of the domain, what this agent did to it. */
function finalPhaseWhenGone(context: EndContext, lastDomain?: Domain): FinalPhase {
  const { memory } = context;
  if (memory.ending.finalPhase) return memory.ending.finalPhase;
  const seen = lastDomain && !isAliveStatus(lastDomain) ? finalPhaseOf(lastDomain, context) : undefined;
  if (seen) return seen;
  if (memory.ending.killedMs !== undefined) return { ...finalPhaseWhenDestroyed(context, true), guessed: true };
  if (memory.ending.shutdown)
    return { phase: 'Succeeded', because: 'the guest was shut down on request', guessed: true };
  return { phase: 'Failed', because: 'the domain is gone', guessed: true };
}

function isAliveStatus(domain: Domain): boolean {
  return domain.Status.Status !== 'Shutoff' && domain.Status.Status !== 'Crashed';
}

/** It failed, or is under way: what ends the source then takes a part of the guest's memory with it. */
function hasPostCopyFailed(observation: Observation): boolean {
  const state = observation.vmi.kind === 'present' ? observation.vmi.vmi.status?.migrationState : undefined;
  return state?.mode === 'PostCopy' && (state.failed === true || !state.endTimestamp);
}
