import type { VirtualMachineInstance } from '../../../api/index.ts';
import { CodedError } from '../../../base/index.ts';
import type { Outcome, OvertakenCode, Step } from '../decide/index.ts';
import { syncedOf } from '../observe/index.ts';
import type { HostHook, HostHookContext, VmiEvent } from '../ports.ts';
import type { ExecuteContext } from './context.ts';
import { replaceClaimsByHostDisks } from './host-disks.ts';
import { connect, targetFor } from './launcher-steps.ts';

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

export function prepareHost({ uid }: Step<'prepareHost'>, context: ExecuteContext): Promise<Outcome> {
  return runHooks(uid, context, (hook, hookContext) => hook.prepare(hookContext));
}

export function adjustHost({ uid }: Step<'adjustHost'>, context: ExecuteContext): Promise<Outcome> {
  return runHooks(uid, context, async (hook, hookContext) => (await hook.adjust?.(hookContext)) ?? []);
}

type HookCall = (hook: HostHook, context: HostHookContext) => Promise<readonly VmiEvent[]>;

async function runHooks(uid: string, context: ExecuteContext, call: HookCall): Promise<Outcome> {
  const { ports, signal } = context;
  const vmi = replaceClaimsByHostDisks(currentVmi(uid, context));
  if (ports.hooks.length === 0) return { kind: 'done' };
  const launcherPid = await ports.launchers.launcherPid(targetFor(uid, context), signal);
  const events: VmiEvent[] = [];
  for (const hook of ports.hooks) {
    events.push(...(await call(hook, { vmi, launcherPid, config: ports.config.current(), signal })));
  }
  return { kind: 'done', events };
}

export async function syncVirtualMachine(step: Step<'syncVirtualMachine'>, context: ExecuteContext): Promise<Outcome> {
  const { observation, ports, signal } = context;
  const vmi = replaceClaimsByHostDisks(currentVmi(step.uid, context));
  const calls = await connect(step.uid, context);
  const atMs = ports.clock.monotonicMs();
  await calls.syncVirtualMachine(vmi, observation.syncOptions, signal);
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
