import type { LauncherTarget, VirtualMachineInstance } from '../../../api/index.ts';
import { CodedError } from '../../../base/index.ts';
import type { Outcome, OvertakenCode, Step } from '../decide/index.ts';
import { targetOf } from '../observe/index.ts';
import type { LauncherCalls } from '../ports.ts';
import type { ExecuteContext } from './context.ts';

export const done: Outcome = { kind: 'done' };

export class ExecuteError extends CodedError<OvertakenCode> {}

/** The VMI as observed; refuses to act for a UID that the store has replaced meanwhile. */
export function currentVmi(uid: string, { observation, ports }: ExecuteContext): VirtualMachineInstance {
  if (observation.vmi.kind !== 'present') throw new ExecuteError('NO_VMI', 'the VirtualMachineInstance is gone');
  const stored = ports.vmis.get(observation.key);
  if (observation.vmi.vmi.metadata.uid !== uid || (stored && stored.metadata.uid !== uid)) {
    throw new ExecuteError('STALE', 'another VirtualMachineInstance of this name has taken its place');
  }
  return observation.vmi.vmi;
}

export function targetFor(uid: string, { observation, ports }: ExecuteContext): LauncherTarget {
  const vmi = 'vmi' in observation.vmi ? observation.vmi.vmi : undefined;
  return targetOf(observation.key, uid, vmi, ports.ghosts.byUid(uid));
}

export function connect(uid: string, context: ExecuteContext): Promise<LauncherCalls> {
  return context.ports.launchers.connect(targetFor(uid, context), context.signal);
}

/** The domain cache is filled by the connection's own first question; a launcher that cannot answer makes it `unknown`. */
export async function ensureLauncherConnection(
  { uid }: Step<'ensureLauncherConnection'>,
  context: ExecuteContext,
): Promise<Outcome> {
  const { observation, ports, signal } = context;
  await connect(uid, context);
  const view = ports.domains.view(observation.key, uid);
  const isUnasked = view.kind === 'absent' || (view.kind === 'gone' && view.proof === 'launcher-dead');
  if (isUnasked) await ports.domains.refresh(observation.key, uid, signal);
  // Cleaned up before, and now there is something of it again: a list that was old showed the VMI as it had been.
  const isBack = observation.uid === uid && observation.memory.ending.cleaned;
  return isBack ? { kind: 'done', remember: { ending: { cleaned: false } } } : done;
}

export async function refreshDomain({ uid }: Step<'refreshDomain'>, context: ExecuteContext): Promise<Outcome> {
  const { observation, ports, signal } = context;
  await ports.domains.refresh(observation.key, uid, signal);
  return done;
}
