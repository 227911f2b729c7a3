import type { Outcome, Step } from '../decide/index.ts';
import type { ExecuteContext } from './context.ts';
import { done, targetFor } from './launcher-steps.ts';

/** The launcher's process, whose pod holds this end of the streams. */
function launcherPid(uid: string, context: ExecuteContext): Promise<number> {
  return context.ports.launchers.launcherPid(targetFor(uid, context), context.signal);
}

export async function openTargetRelays(step: Step<'openTargetRelays'>, context: ExecuteContext): Promise<Outcome> {
  const { observation, ports, signal } = context;
  const { uid, roles } = step;
  const pid = await launcherPid(uid, context);
  await ports.relays.openTarget({ key: observation.key, uid, launcherPid: pid, roles }, signal);
  return done;
}

export async function closeTargetRelays(
  { uid }: Step<'closeTargetRelays'>,
  { ports }: ExecuteContext,
): Promise<Outcome> {
  await ports.relays.closeTarget(uid);
  return done;
}

export async function openSourceRelays(step: Step<'openSourceRelays'>, context: ExecuteContext): Promise<Outcome> {
  const { observation, ports, signal } = context;
  const { uid, address, ports: relayPorts } = step;
  const pid = await launcherPid(uid, context);
  await ports.relays.openSource({ key: observation.key, uid, launcherPid: pid, address, ports: relayPorts }, signal);
  return done;
}

export async function closeSourceRelays(
  { uid }: Step<'closeSourceRelays'>,
  { ports }: ExecuteContext,
): Promise<Outcome> {
  await ports.relays.closeSource(uid);
  return done;
}
