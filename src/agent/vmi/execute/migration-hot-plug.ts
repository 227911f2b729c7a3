import {
  findCondition,
  hasDedicatedCpus,
  labels,
  parseQuantity,
  type VirtualMachineInstance,
} from '../../../api/index.ts';
import { errorMessage } from '../../../base/index.ts';
import type { LauncherCalls, SyncOptions, VmiEvent } from '../ports.ts';

/**
 * `done`: the launcher did it. `failed`: it did not. `refused`: not asked, the pod is too small. Undefined: nothing was
 * waiting.
 */
export type HotPlugResult = 'done' | 'failed' | 'refused';

export interface HotPlugged {
  readonly cpus?: HotPlugResult;
  readonly memory?: HotPlugResult;
  readonly events: readonly VmiEvent[];
}

type Attempt = () => Promise<void>;

/**
 * CPUs and memory that waited for a migration to a larger pod (pkg/virt-handler/migration-target.go). What fails here is told
 * and not repeated: the guest runs on with what it has. Upstream puts the error's text into the event's reason; here the reason
 * is fixed.
 */
export async function hotPlug(
  vmi: VirtualMachineInstance,
  calls: LauncherCalls,
  options: SyncOptions,
  signal: AbortSignal,
): Promise<HotPlugged> {
  const events: VmiEvent[] = [];
  const conditions = vmi.status?.conditions;
  const attempt = async (what: string, refusal: string | undefined, call: Attempt): Promise<HotPlugResult> => {
    try {
      if (refusal === undefined) await call();
      else events.push(failure(what, refusal));
      return refusal === undefined ? 'done' : 'refused';
    } catch (error) {
      events.push(failure(what, errorMessage(error)));
      return 'failed';
    }
  };
  const cpus =
    findCondition(conditions, 'HotVCPUChange') &&
    (await attempt('failed to change vCPUs', tooManyCpus(vmi), () =>
      calls.syncVirtualMachineCpus(vmi, options, signal),
    ));
  const memory =
    findCondition(conditions, 'HotMemoryChange') &&
    (await attempt('failed to update guest memory', tooMuchMemory(vmi), () =>
      calls.syncVirtualMachineMemory(vmi, options, signal),
    ));
  return { ...(cpus && { cpus }), ...(memory && { memory }), events };
}

function failure(what: string, why: string): VmiEvent {
  return { type: 'Warning', reason: 'HotPlugFailed', message: `${what}: ${why}` };
}

function tooManyCpus(vmi: VirtualMachineInstance): string | undefined {
  if (!hasDedicatedCpus(vmi)) return undefined;
  const { cpu } = vmi.spec.domain;
  const wanted = (cpu?.sockets ?? 1) * (cpu?.cores ?? 1) * (cpu?.threads ?? 1);
  const limit = parseQuantity(vmi.metadata.labels?.[labels.podCpuLimit]);
  if (limit === undefined) return `label ${labels.podCpuLimit} is missing or no quantity`;
  return wanted <= limit ? undefined : `${wanted} dedicated CPUs are wanted and the pod has ${limit}`;
}

function tooMuchMemory(vmi: VirtualMachineInstance): string | undefined {
  const wanted = parseQuantity(vmi.spec?.domain?.memory?.guest);
  const request = parseQuantity(vmi.metadata.labels?.[labels.podMemoryRequest]);
  if (wanted === undefined) return 'spec.domain.memory.guest is missing or no quantity';
  if (request === undefined) return `label ${labels.podMemoryRequest} is missing or no quantity`;
  const overhead = parseQuantity(vmi.status?.memory?.memoryOverhead) ?? 0;
  if (wanted + overhead <= request) return undefined;
  return `the guest wants ${wanted} bytes and ${overhead} bytes overhead, and the pod has ${request}`;
}
