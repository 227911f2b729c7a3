import type { VirtualMachineInstance } from '../../../../api/index.ts';
import { errorMessage, type Logger } from '../../../../base/index.ts';
import type { HostHook, HostSeen, HostView, Json } from './contract.ts';
import type { HookCalls } from './hook-calls.ts';
import type { WorkMemory } from './work-memory.ts';

/** What is seen for the status may not hold up a reconcile. */
const deadlineMs = 1_000;

interface ObserveDeps {
  readonly calls: HookCalls;
  readonly memory: WorkMemory;
  readonly log: Logger;
}

/** Hooks that may see something of this VMI, with what they gave. */
export function observersOf(
  hooks: readonly HostHook[],
  vmi: VirtualMachineInstance,
  given: Readonly<Record<string, Json>>,
): readonly { readonly hook: HostHook; readonly facts: Json | undefined }[] {
  return hooks.flatMap((hook) => {
    const facts = given[hook.name];
    return hook.observe && (hook.mayObserve?.({ vmi, facts }) ?? true) ? [{ hook, facts }] : [];
  });
}

/** What all hooks see, put together. Never rejects: a hook that throws, or takes long, sees nothing. */
export async function observeHost(
  hooks: readonly HostHook[],
  view: HostView,
  { calls, memory, log }: ObserveDeps,
): Promise<HostSeen> {
  const { uid } = view;
  const seen: HostSeen[] = [];
  for (const { hook, facts } of observersOf(hooks, view.vmi, memory.facts(uid))) {
    const look = async (signal: AbortSignal) => hook.observe?.({ ...view, facts, signal });
    const end = await calls.call({ name: `observe ${hook.name}`, deadlineMs }, uid, view.signal, look);
    if (end.kind === 'returned') seen.push(end.value ?? {});
    else log.debug({ uid, hook: hook.name, reason: errorMessage(end.error) }, 'a hook sees nothing');
  }
  const mounted = seen.flatMap(({ mountedVolumes }) => (mountedVolumes ? [mountedVolumes] : []));
  const podIps = seen.flatMap(({ podIps: known }) => (known ? [known] : []));
  const imageChecksums = seen.find((each) => each.imageChecksums)?.imageChecksums;
  return {
    ...(mounted.length > 0 && { mountedVolumes: mounted.flat() }),
    ...(imageChecksums && { imageChecksums }),
    ...(podIps.length > 0 && { podIps: Object.assign({}, ...podIps) }),
  };
}
