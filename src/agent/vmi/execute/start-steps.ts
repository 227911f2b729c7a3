import { errorCode, errorMessage } from '../../../base/index.ts';
import type { Outcome, Step } from '../decide/index.ts';
import { syncedOf } from '../observe/index.ts';
import type { VmiEvent } from '../ports.ts';
import type { ExecuteContext } from './context.ts';
import { replaceClaimsByHostDisks } from './host-disks.ts';
import { syncOptionsFor } from './host-steps.ts';
import { connect, currentVmi } from './launcher-steps.ts';

export async function syncVirtualMachine(step: Step<'syncVirtualMachine'>, context: ExecuteContext): Promise<Outcome> {
  const { observation, ports, signal } = context;
  const vmi = replaceClaimsByHostDisks(currentVmi(step.uid, context));
  const calls = await connect(step.uid, context);
  const atMs = ports.clock.monotonicMs();
  await calls.syncVirtualMachine(vmi, syncOptionsFor(step.uid, context), signal);
  const isFirst = step.firstStart && syncedOf(observation.memory) === undefined;
  const created: VmiEvent = { type: 'Normal', reason: 'Created', message: 'VirtualMachineInstance defined.' };
  return {
    kind: 'done',
    events: isFirst ? [created] : [],
    remember: {
      sync: { kind: 'synced', synced: { fingerprint: step.fingerprint, atMs, endedMs: ports.clock.monotonicMs() } },
    },
  };
}

/** Where the launcher sees plugged volumes (pkg/hotplug-disk). */
const pluggedDirectory = '/var/run/kubevirt/hotplug-disks';

export async function dumpMemory(step: Step<'dumpMemory'>, context: ExecuteContext): Promise<Outcome> {
  const vmi = currentVmi(step.uid, context);
  const calls = await connect(step.uid, context);
  await calls.dumpMemory(vmi, `${pluggedDirectory}/${step.volume}/${step.file}`, context.signal);
  return { kind: 'done' };
}

/** A launcher that says no, or that it is at it already, holds up nothing else of the guest: it is told with the next decisions. */
export async function hotplugHostDevices(
  { uid }: Step<'hotplugHostDevices'>,
  context: ExecuteContext,
): Promise<Outcome> {
  const vmi = currentVmi(uid, context);
  const calls = await connect(uid, context);
  try {
    await calls.hotplugHostDevices(vmi, context.signal);
    return { kind: 'done', remember: { hostDevices: { plugRefusal: undefined } } };
  } catch (error) {
    if (errorCode(error) !== 'REFUSED') throw error;
    return { kind: 'done', remember: { hostDevices: { plugRefusal: errorMessage(error) } } };
  }
}
