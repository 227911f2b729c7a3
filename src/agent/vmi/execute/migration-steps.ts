import type { Outcome, Step } from '../decide/index.ts';
import type { ExecuteContext } from './context.ts';
import { done, targetFor } from './launcher-steps.ts';

/** The launcher's process, whose pod holds this end of the streams. */
function launcherPid(uid: string, context: ExecuteContext): Promise<number> {
  return context.ports.launchers.launcherPid(targetFor(uid, context), context.signal);
}

export async function openTargetProxies(step: Step<'openTargetProxies'>, context: ExecuteContext): Promise<Outcome> {
  const { observation, ports, signal } = context;
  const { uid, roles } = step;
  const pid = await launcherPid(uid, context);
  await ports.migrationProxies.openTarget({ key: observation.key, uid, launcherPid: pid, roles }, signal);
  return done;
}

export async function closeTargetProxies(
  { uid }: Step<'closeTargetProxies'>,
  { ports }: ExecuteContext,
): Promise<Outcome> {
  await ports.migrationProxies.closeTarget(uid);
  return done;
}

export async function openSourceProxies(step: Step<'openSourceProxies'>, context: ExecuteContext): Promise<Outcome> {
  const { observation, ports, signal } = context;
  const { uid, address, ports: proxyPorts } = step;
  const pid = await launcherPid(uid, context);
  await ports.migrationProxies.openSource(
    { key: observation.key, uid, launcherPid: pid, address, ports: proxyPorts },
    signal,
  );
  return done;
}

export async function closeSourceProxies(
  { uid }: Step<'closeSourceProxies'>,
  { ports }: ExecuteContext,
): Promise<Outcome> {
  await ports.migrationProxies.closeSource(uid);
  return done;
}
