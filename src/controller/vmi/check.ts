import type { VirtualMachineInstance } from '../../api/index.ts';
import { isRecord } from '../../base/index.ts';

type Form = 'object' | 'text' | 'number' | 'objects' | 'named';

/**
 * Form of the fields that the controller reads. `[]` steps into each item of a list; `!` marks a field that must be there
 * when what holds it is. Absent and null are the same otherwise.
 */
const forms: readonly (readonly [path: string, form: Form])[] = [
  ['domain!', 'object'],
  ['domain.cpu', 'object'],
  ['domain.cpu.model', 'text'],
  ...['cores', 'sockets', 'threads'].map((name) => [`domain.cpu.${name}`, 'number'] as const),
  ['domain.memory', 'object'],
  ['domain.memory.hugepages', 'object'],
  ['domain.memory.hugepages.pageSize!', 'text'],
  ['domain.machine', 'object'],
  ['domain.machine.type', 'text'],
  ['domain.resources', 'object'],
  ['domain.resources.requests', 'object'],
  ['domain.resources.limits', 'object'],
  ['domain.ioThreads', 'object'],
  ['domain.ioThreads.supplementalPoolThreadCount', 'number'],
  ['domain.launchSecurity', 'object'],
  ['domain.firmware', 'object'],
  ['domain.firmware.uuid', 'text'],
  ['domain.firmware.kernelBoot', 'object'],
  ['domain.firmware.kernelBoot.container', 'object'],
  ['domain.firmware.kernelBoot.container.image!', 'text'],
  ['domain.devices', 'object'],
  ['domain.devices.disks', 'named'],
  ...['disk', 'lun', 'cdrom'].map((name) => [`domain.devices.disks[].${name}`, 'object'] as const),
  ['domain.devices.interfaces', 'named'],
  ['domain.devices.interfaces[].ports', 'objects'],
  ['domain.devices.interfaces[].macAddress', 'text'],
  ['domain.devices.interfaces[].binding', 'object'],
  ['domain.devices.interfaces[].binding.name!', 'text'],
  ['domain.devices.filesystems', 'named'],
  ['domain.devices.gpus', 'objects'],
  ['domain.devices.hostDevices', 'objects'],
  ['domain.devices.tpm', 'object'],
  ['networks', 'named'],
  ['networks[].resourceClaim', 'object'],
  ['networks[].multus', 'object'],
  ['networks[].multus.networkName!', 'text'],
  ['resourceClaims', 'named'],
  ['volumes', 'named'],
  ['volumes[].containerDisk', 'object'],
  ['volumes[].containerDisk.image!', 'text'],
  ['volumes[].hostDisk', 'object'],
  ['volumes[].hostDisk.path!', 'text'],
  ['volumes[].persistentVolumeClaim', 'object'],
  ['volumes[].persistentVolumeClaim.claimName!', 'text'],
  ['volumes[].dataVolume', 'object'],
  ['volumes[].dataVolume.name!', 'text'],
  ['volumes[].ephemeral', 'object'],
  ['volumes[].ephemeral.persistentVolumeClaim', 'object'],
  ['volumes[].configMap', 'object'],
  ['volumes[].secret', 'object'],
  ['volumes[].downwardAPI', 'object'],
  ...['cloudInitNoCloud', 'cloudInitConfigDrive'].flatMap(
    (name) =>
      [
        [`volumes[].${name}`, 'object'],
        [`volumes[].${name}.secretRef`, 'object'],
        [`volumes[].${name}.networkDataSecretRef`, 'object'],
      ] as const,
  ),
  ['utilityVolumes', 'named'],
  ['utilityVolumes[].claimName!', 'text'],
  ['nodeSelector', 'object'],
  ['hostname', 'text'],
  ['subdomain', 'text'],
  ['architecture', 'text'],
  ['terminationGracePeriodSeconds', 'number'],
];

/**
 * What is wrong with the object, in words for a condition, or undefined. An API server with KubeVirt's webhooks (or the
 * embedded one) has refused such objects already; a bare one takes anything.
 */
export function vmiProblem(vmi: VirtualMachineInstance): string | undefined {
  const spec: unknown = vmi.spec;
  if (!isRecord(spec)) return 'spec is missing';
  for (const [path, form] of forms) {
    const problem = formProblem(spec, 'spec', path.split('.'), form);
    if (problem) return problem;
  }
  return referenceProblem(vmi) ?? memoryProblem(vmi);
}

function formProblem(holder: unknown, where: string, steps: readonly string[], form: Form): string | undefined {
  const [step = '', ...rest] = steps;
  const name = step.replace(/!$|\[\]$/, '');
  const path = `${where}.${name}`;
  const value = isRecord(holder) ? (holder[name] ?? undefined) : undefined;
  if (value === undefined) return step.endsWith('!') && isRecord(holder) ? `${path} is missing` : undefined;
  if (step.endsWith('[]')) {
    const problems = (value as unknown[]).map((item, index) => formProblem(item, `${path}[${index}]`, rest, form));
    return problems.find((problem) => problem !== undefined);
  }
  return rest.length > 0 ? formProblem(value, path, rest, form) : valueProblem(value, path, form);
}

function valueProblem(value: unknown, path: string, form: Form): string | undefined {
  switch (form) {
    case 'object':
      return isRecord(value) ? undefined : `${path} must be an object`;
    case 'text':
      return typeof value === 'string' ? undefined : `${path} must be a string`;
    case 'number':
      return Number.isInteger(value) && Number(value) >= 0 ? undefined : `${path} must be a whole number`;
    case 'objects':
      return Array.isArray(value) && value.every(isRecord) ? undefined : `${path} must be a list of objects`;
    case 'named':
      return namesProblem(path, value);
  }
}

function namesProblem(path: string, list: unknown): string | undefined {
  if (!Array.isArray(list)) return `${path} must be a list`;
  const seen = new Set<string>();
  for (const [index, item] of list.entries()) {
    if (!isRecord(item) || typeof item.name !== 'string' || item.name === '') return `${path}[${index}] needs a name`;
    if (seen.has(item.name)) return `${path}: there are two of the name ${item.name}`;
    seen.add(item.name);
  }
  return undefined;
}

function referenceProblem({ spec }: VirtualMachineInstance): string | undefined {
  const volumes = new Set((spec.volumes ?? []).map(({ name }) => name));
  const lost = (spec.domain.devices?.disks ?? []).find(({ name, cdrom }) => !volumes.has(name) && !cdrom);
  if (lost) return `disk ${lost.name}: spec.volumes has no volume of this name`;
  const networks = new Set((spec.networks ?? []).map(({ name }) => name));
  const loose = (spec.domain.devices?.interfaces ?? []).find(({ name }) => !networks.has(name));
  return loose ? `interface ${loose.name}: spec.networks has no network of this name` : claimProblem(spec);
}

/** A request is one of a claim of the pod, and what it gives goes to one device of the guest. */
function claimProblem({ domain, networks, resourceClaims = [] }: VirtualMachineInstance['spec']): string | undefined {
  const { gpus, hostDevices, interfaces } = domain.devices ?? {};
  const ofNetworks = (networks ?? []).map(({ name, resourceClaim }) => ({ ...resourceClaim, name }));
  const seen = new Set<string>();
  for (const { name, claimName, requestName } of [...(gpus ?? []), ...(hostDevices ?? []), ...ofNetworks]) {
    if (requestName && !claimName) return `${name}: requestName ${requestName} is of a claim: give its claimName, too`;
    if (!claimName) continue;
    if (!requestName) return `${name}: claimName ${claimName} has no requestName: say which of its requests is meant`;
    if (!resourceClaims.some((claim) => claim.name === claimName)) {
      return `${name}: spec.resourceClaims has no claim ${claimName}: add it there`;
    }
    const request = `${claimName}/${requestName}`;
    if (seen.has(request)) return `${name}: ${request} is asked for twice: write a request for each device`;
    seen.add(request);
  }
  const claimed = new Set(ofNetworks.flatMap(({ name, claimName }) => (claimName ? [name] : [])));
  const odd = interfaces?.find(({ name, sriov, binding }) => claimed.has(name) && !sriov && !binding);
  return odd && `interface ${odd.name}: a network of a claim is a device of the machine: it needs sriov or a binding`;
}

function memoryProblem({ spec }: VirtualMachineInstance): string | undefined {
  const { memory, resources } = spec.domain;
  const given =
    memory?.guest ?? memory?.hugepages?.pageSize ?? resources?.requests?.memory ?? resources?.limits?.memory;
  const isGiven = given !== undefined && given !== null;
  return isGiven ? undefined : 'spec.domain.memory.guest is missing: say how much memory the guest has';
}
