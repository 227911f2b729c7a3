import { binaryQuantity, type DomainSpecInput, parseQuantity, type VmiSpec } from '../api/index.ts';
import { memberAt } from '../base/index.ts';
import { InstancetypeError } from './errors.ts';
import { spreadVcpus } from './topology.ts';
import type { InstancetypeSpec, PreferenceSpec } from './types.ts';

/** What a template may not say beside an instance type that says it, too: its path, and where the instance type says it. */
const exclusive: readonly (readonly [template: string, instancetype: string])[] = [
  ['nodeSelector', 'nodeSelector'],
  ['schedulerName', 'schedulerName'],
  ['domain.resources.requests.cpu', 'cpu'],
  ['domain.resources.limits.cpu', 'cpu'],
  ['domain.cpu.sockets', 'cpu'],
  ['domain.cpu.cores', 'cpu'],
  ['domain.cpu.threads', 'cpu'],
  ['domain.cpu.model', 'cpu.model'],
  ['domain.cpu.dedicatedCpuPlacement', 'cpu.dedicatedCPUPlacement'],
  ['domain.cpu.isolateEmulatorThread', 'cpu.isolateEmulatorThread'],
  ['domain.cpu.numa', 'cpu.numa'],
  ['domain.cpu.realtime', 'cpu.realtime'],
  ['domain.memory.guest', 'memory'],
  ['domain.memory.hugepages', 'memory.hugepages'],
  ['domain.memory.maxGuest', 'memory.maxGuest'],
  ['domain.resources.requests.memory', 'memory'],
  ['domain.resources.limits.memory', 'memory'],
  ['domain.ioThreads.supplementalPoolThreadCount', 'ioThreads.supplementalPoolThreadCount'],
  ['domain.ioThreadsPolicy', 'ioThreadsPolicy'],
  ['domain.launchSecurity', 'launchSecurity'],
  ['domain.devices.gpus', 'gpus'],
  ['domain.devices.hostDevices', 'hostDevices'],
];

/**
 * What an instance type says, put into a template's spec and annotations (upstream: pkg/instancetype/apply). Changes both. Throws
 * InstancetypeError CONFLICT with the paths of all fields that are said twice.
 */
export function applyInstancetype(
  instancetype: InstancetypeSpec,
  preference: PreferenceSpec | undefined,
  spec: VmiSpec,
  annotations: Record<string, string>,
): void {
  const conflicts = conflictsOf(instancetype, spec, annotations);
  if (conflicts.length > 0) {
    throw new InstancetypeError(
      'CONFLICT',
      `VM field(s) ${conflicts.join(', ')} conflicts with selected instance type`,
    );
  }
  const { nodeSelector, schedulerName, gpus = [], hostDevices = [], ioThreads } = structuredClone(instancetype);
  const { domain } = spec;
  if (nodeSelector) spec.nodeSelector = nodeSelector;
  if (schedulerName) spec.schedulerName = schedulerName;
  applyCpu(instancetype, preference, domain);
  applyMemory(instancetype, domain);
  const threads = ioThreads?.supplementalPoolThreadCount;
  if (threads !== undefined) domain.ioThreads = { ...domain.ioThreads, supplementalPoolThreadCount: threads };
  if (instancetype.ioThreadsPolicy !== undefined) domain.ioThreadsPolicy = instancetype.ioThreadsPolicy;
  if (instancetype.launchSecurity) domain.launchSecurity = structuredClone(instancetype.launchSecurity);
  if (gpus.length > 0) domain.devices = { ...domain.devices, gpus };
  if (hostDevices.length > 0) domain.devices = { ...domain.devices, hostDevices };
  Object.assign(annotations, instancetype.annotations);
}

function conflictsOf(
  instancetype: InstancetypeSpec,
  spec: VmiSpec,
  annotations: Readonly<Record<string, string>>,
): string[] {
  const said = exclusive
    .filter(([path, other]) => isSaidByTemplate(spec, path) && isSaid(memberAt(instancetype, ...other.split('.'))))
    .map(([path]) => `spec.template.spec.${path}`);
  const other = Object.entries(instancetype.annotations ?? {})
    .filter(([name, value]) => Object.hasOwn(annotations, name) && annotations[name] !== value)
    .map(([name]) => `spec.template.metadata.annotations.${name}`);
  return [...said, ...other];
}

function isSaid(value: unknown): boolean {
  return Array.isArray(value) ? value.length > 0 : value !== undefined && value !== '';
}

/** As Go has it: false, and 0 of what is no quantity, are what is not said. */
function isSaidByTemplate(spec: VmiSpec, path: string): boolean {
  const value = memberAt(spec, ...path.split('.'));
  const isQuantity = path.startsWith('domain.resources.') || path.startsWith('domain.memory.');
  return isSaid(value) && (isQuantity || Boolean(value));
}

function applyCpu(
  instancetype: InstancetypeSpec,
  preference: PreferenceSpec | undefined,
  domain: DomainSpecInput,
): void {
  const { model, dedicatedCPUPlacement, isolateEmulatorThread, numa, realtime, maxSockets } = instancetype.cpu;
  domain.cpu = {
    ...domain.cpu,
    ...(model !== undefined && { model }),
    ...(dedicatedCPUPlacement !== undefined && { dedicatedCpuPlacement: dedicatedCPUPlacement }),
    ...(isolateEmulatorThread !== undefined && { isolateEmulatorThread }),
    ...(numa && { numa: structuredClone(numa) }),
    ...(realtime && { realtime: structuredClone(realtime) }),
    ...(maxSockets !== undefined && { maxSockets }),
    ...spreadVcpus(instancetype, preference),
  };
}

function applyMemory({ memory }: InstancetypeSpec, domain: DomainSpecInput): void {
  const { guest, hugepages, maxGuest, overcommitPercent = 0 } = memory;
  domain.memory = {
    ...domain.memory,
    guest,
    ...(hugepages && { hugepages: structuredClone(hugepages) }),
    ...(maxGuest !== undefined && { maxGuest }),
  };
  if (overcommitPercent === 0) return;
  const requests = { ...domain.resources?.requests, memory: lessThan(guest, overcommitPercent) };
  domain.resources = { ...domain.resources, requests };
}

/** With Go's arithmetic of 32 bits, so that both controllers ask for the same. */
function lessThan(guest: string | number, percent: number): string {
  const f = Math.fround;
  const share = f(1 - f(f(percent) / 100));
  return binaryQuantity(Math.trunc(f(f(parseQuantity(guest) ?? 0) * share)));
}
