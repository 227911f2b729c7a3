import {
  binaryQuantity,
  cpuChangeFailed,
  isMigrating,
  memoryProblem,
  parseQuantity,
  type VirtualMachine,
  type VirtualMachineInstance,
} from '../../api/index.ts';
import {
  changed,
  hasCondition,
  type JsonPatchOperation,
  type LiveChange,
  type Rollout,
  restart,
  stagedMessage,
} from './live-change.ts';

type Domain = VirtualMachineInstance['spec']['domain'];

/** In upstream's words (handleCPUChangeRequest of pkg/virt-controller/watch/vm/vm.go). */
export function cpuResize(vm: VirtualMachine, vmi: VirtualMachineInstance, rollout: Rollout): LiveChange | undefined {
  const wanted = vm.spec.template?.spec?.domain?.cpu;
  const has = vmi.spec.domain?.cpu;
  if (rollout.strategy !== 'Stage' && hasCondition(vmi, cpuChangeFailed, 'True')) {
    return restart('CPU sockets updated in template spec. CPU-hotplug failed, and the next start brings them');
  }
  // A template that says nothing takes what the cluster's defaults give.
  if (!wanted?.sockets || !has?.sockets || wanted.sockets === has.sockets) return undefined;
  if (rollout.strategy === 'Stage') return restart(stagedMessage);
  if (hasCondition(vmi, 'HotVCPUChange', 'True')) return wait('CPU', 'another CPU hotplug is in progress');
  if (isMigrating(vmi)) return wait('CPU', 'CPU hotplug is not allowed while VMI is migrating');
  if (wanted.sockets > (has.maxSockets ?? 0)) {
    return restart("CPU sockets updated in template spec to a value higher than what's available");
  }
  if (wanted.sockets < has.sockets) return restart('Reduction of CPU socket count requires a restart');
  if (architectureOf(vm, vmi) === 'arm64') return restart("ARM doesn't support CPU hotplug");
  // Upstream asks for a migration all the same, which never comes, and nobody is told.
  if (hasCondition(vmi, 'LiveMigratable', 'False')) {
    return restart('CPU sockets updated in template spec. CPU-hotplug is only available for migratable VMs');
  }
  const vcpus = (wanted.sockets - has.sockets) * (has.cores || 1) * (has.threads || 1);
  const milli = vcpus * Math.floor(1000 / rollout.cpuAllocationRatio);
  return {
    kind: 'live',
    operations: [
      ...changed('/spec/domain/cpu/sockets', has.sockets, wanted.sockets),
      ...moreCpu(vm.spec.template.spec.domain, vmi.spec.domain, milli),
    ],
  };
}

function moreCpu(template: Domain, { resources }: Domain, milli: number): JsonPatchOperation[] {
  return (['requests', 'limits'] as const).flatMap((list) => {
    const old = resources?.[list]?.cpu;
    if (!parseQuantity(template.resources?.[list]?.cpu) || old === undefined) return [];
    const sum = Math.round((parseQuantity(old) ?? 0) * 1000) + milli;
    return changed(`/spec/domain/resources/${list}/cpu`, old, sum % 1000 === 0 ? String(sum / 1000) : `${sum}m`);
  });
}

/** In upstream's words (handleMemoryHotplugRequest, there). */
export function memoryResize(
  vm: VirtualMachine,
  vmi: VirtualMachineInstance,
  rollout: Rollout,
): LiveChange | undefined {
  const template = vm.spec.template?.spec?.domain;
  const [wanted, has] = [template?.memory?.guest, vmi.spec.domain?.memory?.guest];
  const { guestCurrent } = vmi.status?.memory ?? {};
  if (wanted === undefined || has === undefined || guestCurrent === undefined) return undefined;
  const isSame = parseQuantity(wanted) === parseQuantity(has);
  if (rollout.strategy === 'Stage') return isSame ? undefined : restart(stagedMessage);
  if (hasCondition(vmi, 'HotMemoryChange', 'False')) {
    return restart(`${memoryUpdated}. Memory-hotplug failed and is not available for this VM configuration`);
  }
  if (isSame) return undefined;
  return memoryObstacle(vm, vmi) ?? { kind: 'live', operations: moreMemory(vm, vmi) };
}

const memoryUpdated = 'memory updated in template spec';

function memoryObstacle(vm: VirtualMachine, vmi: VirtualMachineInstance): LiveChange | undefined {
  const maxGuest = vmi.spec.domain.memory?.maxGuest;
  if (!hasCondition(vmi, 'LiveMigratable', 'True')) {
    return restart(`${memoryUpdated}. Memory-hotplug is only available for migratable VMs`);
  }
  if (maxGuest === undefined) {
    return restart(`${memoryUpdated}. Memory-hotplug is not available for this VM configuration`);
  }
  if (hasCondition(vmi, 'HotMemoryChange', 'True')) return wait('Memory', 'another memory hotplug is in progress');
  if (isMigrating(vmi)) return wait('Memory', 'memory hotplug is not allowed while VMI is migrating');
  const problem = memoryProblem({ ...vm.spec.template.spec, architecture: architectureOf(vm, vmi) }, maxGuest);
  if (problem !== undefined) return restart(`memory hotplug not supported, ${problem}`);
  const wanted = parseQuantity(vm.spec.template.spec.domain.memory?.guest) ?? 0;
  if (wanted < (parseQuantity(vmi.status?.memory?.guestAtBoot) ?? 0)) {
    return restart(`${memoryUpdated} to a value lower than what the VM started with`);
  }
  return undefined;
}

/** Upstream's webhook writes it into each template; without one the guest says what it runs on. */
function architectureOf(vm: VirtualMachine, vmi: VirtualMachineInstance): string {
  return vm.spec.template.spec.architecture || vmi.spec.architecture || '';
}

/** The request never falls below the guest: a guest that was asked to give memory back may have kept it. */
function moreMemory(vm: VirtualMachine, vmi: VirtualMachineInstance): JsonPatchOperation[] {
  const template = vm.spec.template.spec.domain;
  const { memory, resources } = vmi.spec.domain;
  const guest = parseQuantity(template.memory?.guest) ?? 0;
  const delta = guest - (parseQuantity(vmi.status?.memory?.guestCurrent) ?? guest);
  const operations = changed('/spec/domain/memory/guest', memory?.guest, template.memory?.guest);
  const request = parseQuantity(resources?.requests?.memory);
  const isKept = request !== undefined && request > 0 && request + delta < guest;
  if (request) {
    const path = '/spec/domain/resources/requests/memory';
    operations.push(...changed(path, resources?.requests?.memory, binaryQuantity(Math.max(request + delta, guest))));
  }
  const limit = parseQuantity(resources?.limits?.memory);
  if (parseQuantity(template.resources?.limits?.memory) && limit !== undefined) {
    const path = '/spec/domain/resources/limits/memory';
    operations.push(...changed(path, resources?.limits?.memory, binaryQuantity(limit + (isKept ? 0 : delta))));
  }
  return operations;
}

function wait(what: 'CPU' | 'Memory', cause: string): LiveChange {
  const words = what === 'CPU' ? 'Error encountered while handling CPU change request' : handlingMemory;
  return { kind: 'wait', reason: `HotPlug${what}Error`, message: `${words}: ${cause}` };
}

const handlingMemory = 'error encountered while handling memory hotplug requests';
