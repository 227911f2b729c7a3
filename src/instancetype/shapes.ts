import { parseQuantity, type VmiSpec } from '../api/index.ts';
import { isRecord, type JsonShape, memberAt, shapedJson } from '../base/index.ts';
import { InstancetypeError } from './errors.ts';
import { across, topologies } from './topology.ts';
import type { InstancetypeSpec, PreferenceSpec } from './types.ts';

const object = (members: Readonly<Record<string, JsonShape>>, required: readonly string[] = []): JsonShape => ({
  members,
  required,
});
const each = (shape: JsonShape, ...names: readonly string[]) =>
  Object.fromEntries(names.map((name) => [name, shape] as const));
const texts: JsonShape = { map: 'string' };
const quantity = 'string or number';

/** Whatever is below an `object` is handed on as it is, and checked with the VMI. */
const instancetypeShape = object(
  {
    nodeSelector: texts,
    schedulerName: 'string',
    cpu: object(
      {
        ...each('number', 'guest', 'maxSockets'),
        model: 'string',
        ...each('boolean', 'dedicatedCPUPlacement', 'isolateEmulatorThread'),
        ...each('object', 'numa', 'realtime'),
      },
      ['guest'],
    ),
    memory: object({ guest: quantity, hugepages: 'object', overcommitPercent: 'number', maxGuest: quantity }, [
      'guest',
    ]),
    ...each({ list: 'object' }, 'gpus', 'hostDevices'),
    ioThreadsPolicy: 'string',
    ioThreads: object({ supplementalPoolThreadCount: 'number' }),
    launchSecurity: 'object',
    annotations: texts,
  },
  ['cpu', 'memory'],
);

const preferenceShape = object({
  clock: object(each('object', 'preferredClockOffset', 'preferredTimer')),
  cpu: object({
    preferredCPUTopology: 'string',
    spreadOptions: object({ across: 'string', ratio: 'number' }),
    preferredCPUFeatures: { list: object({ ...each('string', 'name', 'policy') }, ['name']) },
  }),
  devices: object({
    ...each(
      'boolean',
      ...['GraphicsDevice', 'MemBalloon', 'PodInterface', 'SerialConsole', 'InputDevice'].map(
        (name) => `preferredAutoattach${name}`,
      ),
      'preferredDisableHotplug',
      'preferredUseVirtioTransitional',
      'preferredBlockMultiQueue',
      'preferredNetworkInterfaceMultiQueue',
      'preferredDiskDedicatedIoThread',
    ),
    ...each(
      'string',
      ...['Sound', 'Interface', 'PanicDevice'].map((name) => `preferred${name}Model`),
      ...['Input', 'Disk', 'Lun', 'Cdrom'].map((name) => `preferred${name}Bus`),
      'preferredInputType',
      'preferredDiskCache',
      'preferredDiskIO',
      'preferredVideoType',
    ),
    ...each(
      'object',
      ...['VirtualGPUOptions', 'DiskBlockSize', 'Rng', 'TPM', 'InterfaceMasquerade'].map((name) => `preferred${name}`),
    ),
  }),
  features: object(each('object', ...['Acpi', 'Apic', 'Hyperv', 'Kvm', 'Pvspinlock', 'Smm'].map(preferred))),
  firmware: object({
    ...each('boolean', ...['UseBios', 'UseBiosSerial', 'UseEfi', 'UseSecureBoot'].map(preferred)),
    preferredEfi: 'object',
  }),
  machine: object({ preferredMachineType: 'string' }),
  volumes: object({ preferredStorageClassName: 'string' }),
  preferredSubdomain: 'string',
  preferredTerminationGracePeriodSeconds: 'number',
  requirements: object({
    cpu: object({ guest: 'number' }, ['guest']),
    memory: object({ guest: quantity }, ['guest']),
    architecture: 'string',
  }),
  annotations: texts,
  preferSpreadSocketToCoreRatio: 'number',
  preferredArchitecture: 'string',
  preferredLaunchSecurity: 'object',
});

function preferred(name: string): string {
  return `preferred${name}`;
}

/** What is read or changed of a template. */
const templateShape = object({
  nodeSelector: texts,
  ...each('string', 'schedulerName', 'subdomain', 'architecture'),
  domain: object({
    cpu: object({
      ...each('number', 'sockets', 'cores', 'threads', 'maxSockets'),
      model: 'string',
      features: { list: object({ name: 'string' }, ['name']) },
    }),
    memory: object({ guest: quantity, maxGuest: quantity, hugepages: 'object' }),
    resources: object(each({ map: quantity }, 'requests', 'limits')),
    ioThreads: 'object',
    machine: object({ type: 'string' }),
    clock: 'object',
    features: object({ hyperv: 'object' }),
    firmware: object({ bootloader: object(each('object', 'bios', 'efi')) }),
    launchSecurity: 'object',
    devices: object({
      disks: { list: object({ name: 'string', ...each('object', 'disk', 'lun', 'cdrom') }, ['name']) },
      interfaces: { list: object({ name: 'string' }, ['name']) },
      filesystems: { list: object({ name: 'string' }, ['name']) },
      ...each({ list: 'object' }, 'gpus', 'hostDevices', 'inputs', 'panicDevices'),
      ...each('object', 'sound', 'video'),
    }),
  }),
  ...each({ list: object({ name: 'string' }, ['name']) }, 'volumes', 'networks'),
});

/** The spec of an instance type that came from outside. Throws InstancetypeError, also for a field that would be lost. */
export function readInstancetype(spec: unknown): InstancetypeSpec {
  const read = shaped(spec, instancetypeShape, 'instance type') as InstancetypeSpec;
  const { cpu, memory } = read;
  const { overcommitPercent = 0 } = memory;
  if (!isCount(cpu.guest)) throw malformed('instance type', 'spec.cpu.guest', 'must be a whole number of 1 or more');
  for (const name of ['guest', 'maxGuest'] as const) {
    const bytes = memory[name] === undefined ? 1 : parseQuantity(memory[name]);
    if (!bytes || bytes < 0) throw malformed('instance type', `spec.memory.${name}`, 'must be a quantity such as 2Gi');
  }
  if (!Number.isInteger(overcommitPercent) || overcommitPercent < 0 || overcommitPercent > 100) {
    throw malformed('instance type', 'spec.memory.overcommitPercent', 'must be in range between 0 and 100');
  }
  if (overcommitPercent > 0 && memory.hugepages) {
    throw malformed('instance type', 'spec.memory.overcommitPercent', 'cannot be with spec.memory.hugepages');
  }
  return read;
}

/** The same for a preference. */
export function readPreference(spec: unknown): PreferenceSpec {
  const read = shaped(spec, preferenceShape, 'preference') as PreferenceSpec;
  const { preferredCPUTopology: topology, spreadOptions } = read.cpu ?? {};
  if (topology !== undefined && !topologies.has(topology)) {
    throw malformed('preference', 'spec.cpu.preferredCPUTopology', `cannot be ${topology}`);
  }
  if (spreadOptions?.across !== undefined && !across.has(spreadOptions.across)) {
    throw malformed('preference', 'spec.cpu.spreadOptions.across', `cannot be ${spreadOptions.across}`);
  }
  if (spreadOptions?.ratio !== undefined && !isCount(spreadOptions.ratio)) {
    throw malformed('preference', 'spec.cpu.spreadOptions.ratio', 'must be a whole number of 1 or more');
  }
  const ratio = read.preferSpreadSocketToCoreRatio ?? 0;
  if (ratio !== 0 && !isCount(ratio)) {
    throw malformed('preference', 'spec.preferSpreadSocketToCoreRatio', 'must be a whole number');
  }
  const wanted = read.requirements?.memory?.guest;
  if (wanted !== undefined && parseQuantity(wanted) === undefined) {
    throw malformed('preference', 'spec.requirements.memory.guest', 'must be a quantity such as 2Gi');
  }
  return read;
}

/** A copy of a template's spec without members that are null. Throws InstancetypeError where it cannot be read. */
export function readTemplate(spec: unknown): VmiSpec {
  const misfit = (path: string, problem: string) => new InstancetypeError('MALFORMED', `${path} ${problem}`);
  const read = shapedJson(structuredClone(spec), templateShape, 'spec.template.spec', misfit) as VmiSpec;
  read.domain ??= {};
  return read;
}

const isCount = (value: number) => Number.isSafeInteger(value) && value >= 1;

function shaped(spec: unknown, shape: JsonShape, what: string): unknown {
  const read = shapedJson(spec ?? {}, shape, 'spec', (path, problem) => malformed(what, path, problem));
  const unknown = unknownMember(read, shape, 'spec');
  if (unknown === undefined) return structuredClone(read);
  throw malformed(what, unknown, 'is a field that this controller does not know, and would be lost: remove it');
}

function malformed(what: string, path: string, problem: string): InstancetypeError {
  return new InstancetypeError('MALFORMED', `the ${what} cannot be used: ${path} ${problem}`);
}

/** The path of a member that no shape names. */
function unknownMember(value: unknown, shape: JsonShape, path: string): string | undefined {
  if (typeof shape === 'string' || !('members' in shape) || !isRecord(value)) return undefined;
  const { members } = shape;
  for (const name of Object.keys(value)) {
    const member = Object.hasOwn(members, name) ? members[name] : undefined;
    if (member === undefined) {
      if (memberAt(value, name) === undefined) continue;
      return `${path}.${name}`;
    }
    const found = unknownMember(value[name], member, `${path}.${name}`);
    if (found !== undefined) return found;
  }
  return undefined;
}
