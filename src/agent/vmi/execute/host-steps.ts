import type { VirtualMachineInstance } from '../../../api/index.ts';
import type { Outcome, Step } from '../decide/index.ts';
import { withHostFacts } from '../observe/index.ts';
import type { HostOutcome, HostRequest, SyncOptions } from '../ports.ts';
import type { ExecuteContext } from './context.ts';
import { replaceClaimsByHostDisks } from './host-disks.ts';
import { currentVmi, done, targetFor } from './launcher-steps.ts';
import { stepErrorOf } from './step-error.ts';

export function prepareHost({ uid }: Step<'prepareHost'>, context: ExecuteContext): Promise<Outcome> {
  return runHooks('start', uid, currentVmi(uid, context), context);
}

export function adjustHost({ uid }: Step<'adjustHost'>, context: ExecuteContext): Promise<Outcome> {
  return runHooks('running', uid, currentVmi(uid, context), context);
}

/** What could not be placed is remembered beyond the next sync, after which all threads are to be placed again. */
export async function settleHost({ uid }: Step<'settleHost'>, context: ExecuteContext): Promise<Outcome> {
  const outcome = await runHooks('settling', uid, currentVmi(uid, context), context);
  const { limits } = context.ports.hostWork.facts(uid);
  if (outcome.kind !== 'done' || !limits) return outcome;
  const { isPlaced, unplaced } = limits;
  return { ...outcome, remember: { placement: isPlaced ? { placementTries: undefined, unplaced } : { unplaced } } };
}

/** `vmi`: as it is on this node, with the claims that it has here. */
export async function runHooks(
  purpose: HostRequest['purpose'],
  uid: string,
  vmi: VirtualMachineInstance,
  context: ExecuteContext,
): Promise<Outcome> {
  const { observation, ports, signal } = context;
  const asHostDisks = replaceClaimsByHostDisks(vmi);
  if (ports.hostWork.isEmpty) return done;
  const target = targetFor(uid, context);
  const launcherPid = await ports.launchers.launcherPid(target, signal);
  const { process } = target;
  const config = ports.config.current();
  const request = { key: observation.key, uid, vmi: asHostDisks, launcherPid, purpose, config, signal };
  const domain = observation.domain.kind === 'present' ? observation.domain.domain : undefined;
  return outcomeOf(await ports.hostWork.run({ ...request, ...(process && { process }), ...(domain && { domain }) }));
}

/** Hooks in reverse order, all of them even if one fails. */
export async function releaseHooks(uid: string, { ports, signal }: ExecuteContext): Promise<Outcome> {
  return outcomeOf(await ports.hostWork.release(uid, signal));
}

function outcomeOf(end: HostOutcome): Outcome {
  const reported = { ...(end.events.length > 0 && { events: end.events }), parts: end.parts };
  switch (end.kind) {
    case 'done':
      return { kind: 'done', ...reported };
    case 'wait':
      return { kind: 'wait', afterMs: end.afterMs, reason: end.because, ...reported };
    case 'failed':
      return { kind: 'failed', error: stepErrorOf(end.error), ...reported };
  }
}

/** With what the hooks gave, also a moment ago in the same plan: they run right before each call that carries it. */
export function syncOptionsFor(uid: string, { observation, ports }: ExecuteContext): SyncOptions {
  return withHostFacts(observation.syncOptions, ports.hostWork.syncOptions(uid));
}
