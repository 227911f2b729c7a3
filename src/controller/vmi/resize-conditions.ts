import {
  type ConditionState,
  cpuChangeFailed,
  findCondition,
  parseQuantity,
  type VirtualMachineInstance,
  type VmiStatus,
  withCondition,
} from '../../api/index.ts';

/**
 * CPUs and memory of the spec that the guest does not have yet: the conditions ask for a migration to a pod with room for them,
 * whose node then takes them away (requireCPUHotplug, requireMemoryHotplug of pkg/virt-controller/watch/vmi/lifecycle.go). A
 * condition that is there stays as it is, also one that says that memory could not be plugged in; CPUs that could not are not asked for again.
 */
export function setResizeConditions(vmi: VirtualMachineInstance, status: VmiStatus, time: string): void {
  if (differsInCpus(vmi, status) && !findCondition(status.conditions, cpuChangeFailed))
    addOnce(status, 'HotVCPUChange', time);
  if (differsInMemory(vmi, status)) addOnce(status, 'HotMemoryChange', time);
}

function addOnce(status: VmiStatus, type: string, time: string): void {
  const conditions = status.conditions ?? [];
  const state: ConditionState = { type, status: 'True' };
  if (!findCondition(conditions, type)) status.conditions = withCondition(conditions, state, time);
}

interface Topology {
  readonly sockets?: number;
  readonly cores?: number;
  readonly threads?: number;
}

function vcpus({ sockets, cores, threads }: Topology): number {
  return (sockets || 1) * (cores || 1) * (threads || 1);
}

function differsInCpus({ spec }: VirtualMachineInstance, { currentCPUTopology }: VmiStatus): boolean {
  const cpu = spec.domain?.cpu;
  return Boolean(currentCPUTopology && cpu?.maxSockets) && vcpus(cpu ?? {}) !== vcpus(currentCPUTopology ?? {});
}

function differsInMemory({ spec }: VirtualMachineInstance, { memory }: VmiStatus): boolean {
  const { guest, maxGuest } = spec.domain?.memory ?? {};
  if (memory?.guestRequested === undefined || guest === undefined || maxGuest === undefined) return false;
  return parseQuantity(guest) !== parseQuantity(memory.guestRequested);
}
