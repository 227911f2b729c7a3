import { placeholderVmi, type VirtualMachineInstance } from '../../../api/index.ts';
import { errorCode } from '../../../base/index.ts';
import type { Outcome, Step } from '../decide/index.ts';
import type { LauncherCalls, VmiEvent } from '../ports.ts';
import type { ExecuteContext } from './context.ts';
import { releaseHooks } from './host-steps.ts';
import { connect } from './launcher-steps.ts';

const shuttingDown: VmiEvent = { type: 'Normal', reason: 'ShuttingDown', message: 'Signaled Graceful Shutdown' };
const stopping: VmiEvent = { type: 'Normal', reason: 'Deleted', message: 'VirtualMachineInstance stopping' };
const deleting: VmiEvent = { type: 'Normal', reason: 'Deleted', message: 'Signaled Deletion' };

export async function shutdownDomain(step: Step<'shutdownDomain'>, context: ExecuteContext): Promise<Outcome> {
  await call(step.uid, context, (calls, vmi) => calls.shutdownVirtualMachine(vmi, context.signal));
  return { kind: 'done', events: step.firstSignal ? [shuttingDown] : [] };
}

export async function killDomain(step: Step<'killDomain'>, context: ExecuteContext): Promise<Outcome> {
  await call(step.uid, context, (calls, vmi) => calls.killVirtualMachine(vmi, context.signal));
  const { memory, vmi } = context.observation;
  // Of a VMI that lives on another node nothing ends but what it left behind.
  const isNews = memory.ending.killedMs === undefined && vmi.kind !== 'elsewhere';
  const killedMs = context.ports.clock.monotonicMs();
  return { kind: 'done', events: isNews ? [stopping] : [], remember: { ending: { killedMs } } };
}

export async function deleteDomain(step: Step<'deleteDomain'>, context: ExecuteContext): Promise<Outcome> {
  await call(step.uid, context, (calls, vmi) => calls.deleteVirtualMachine(vmi, context.signal));
  const deletedMs = context.ports.clock.monotonicMs();
  return { kind: 'done', events: [deleting], remember: { ending: { deletedMs } } };
}

/** A launcher that is gone has done what was asked: there is no domain without it. */
async function call(
  uid: string,
  context: ExecuteContext,
  send: (calls: LauncherCalls, vmi: VirtualMachineInstance) => Promise<void>,
): Promise<void> {
  try {
    await send(await connect(uid, context), vmiOrPlaceholder(uid, context));
  } catch (error) {
    if (errorCode(error) !== 'DISCONNECTED') throw error;
  }
}

function vmiOrPlaceholder(uid: string, { observation }: ExecuteContext): VirtualMachineInstance {
  if ('vmi' in observation.vmi && observation.vmi.vmi.metadata.uid === uid) return observation.vmi.vmi;
  return placeholderVmi(observation.key, uid);
}

/**
 * Everything of `uid` on this host, host hooks in reverse order, all of them even if one fails, then their checkpoint; the
 * connection with its ghost record and the cached domain last, so that a failure is met again.
 */
export async function cleanUp({ uid }: Step<'cleanUp'>, context: ExecuteContext): Promise<Outcome> {
  const { observation, ports } = context;
  // Streams first: nothing of a VMI that is cleaned up may still be reached from another node.
  await ports.migrationProxies.closeTarget(uid);
  await ports.migrationProxies.closeSource(uid);
  const released = await releaseHooks(uid, context);
  if (released.kind !== 'done') return released;
  await ports.launchers.close(observation.key, uid);
  ports.domains.forget(observation.key, uid);
  const parts = released.parts ?? [];
  return observation.uid === uid
    ? { kind: 'done', parts, remember: { ending: { cleaned: true } } }
    : { kind: 'done', parts };
}
