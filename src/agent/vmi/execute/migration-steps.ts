import type { Outcome, Step } from '../decide/index.ts';
import type { ExecuteContext } from './context.ts';
import { done, targetFor } from './launcher-steps.ts';

/** The launcher's process, whose pod holds this end of the streams. */
function launcherPid(uid: string, context: ExecuteContext): Promise<number> {
  return context.ports.launchers.launcherPid(targetFor(uid, context), context.signal);
}

/** Of the VMI that the streams were decided for. */
function migrationUidOf({ observation }: ExecuteContext): string {
  const { vmi } = observation;
  return vmi.kind === 'present' ? (vmi.vmi.status?.migrationState?.migrationUid ?? '') : '';
}

export async function openTargetProxies(step: Step<'openTargetProxies'>, context: ExecuteContext): Promise<Outcome> {
  const { observation, ports, signal } = context;
  const { step: _, ...wanted } = step;
  const pid = await launcherPid(step.uid, context);
  const proxy = { ...wanted, key: observation.key, migrationUid: migrationUidOf(context), launcherPid: pid };
  await ports.migrationProxies.openTarget(proxy, signal);
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
  const end = { key: observation.key, uid, migrationUid: migrationUidOf(context), launcherPid: pid };
  await ports.migrationProxies.openSource({ ...end, address, ports: proxyPorts }, signal);
  return done;
}

export async function closeSourceProxies(
  { uid }: Step<'closeSourceProxies'>,
  { ports }: ExecuteContext,
): Promise<Outcome> {
  await ports.migrationProxies.closeSource(uid);
  return done;
}
