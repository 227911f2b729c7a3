import type { VirtualMachineInstance } from '../../api/index.ts';

/**
 * Whether the object has the form that everything after relies on, or what is wrong with it. An API server with KubeVirt's
 * webhooks (or the embedded one) has refused such objects already; a bare one takes anything.
 */
export function vmiProblem(vmi: VirtualMachineInstance): string | undefined {
  const spec: unknown = vmi.spec;
  if (!isObject(spec)) return 'spec is missing';
  if (!isObject(spec.domain)) return 'spec.domain must be an object';
  const devices = spec.domain.devices ?? {};
  if (!isObject(devices)) return 'spec.domain.devices must be an object';
  const lists = [
    ['spec.volumes', spec.volumes],
    ['spec.networks', spec.networks],
    ['spec.domain.devices.disks', devices.disks],
    ['spec.domain.devices.interfaces', devices.interfaces],
  ] as const;
  for (const [path, list] of lists) {
    const problem = namesProblem(path, list ?? []);
    if (problem) return problem;
  }
  return referenceProblem(vmi) ?? memoryProblem(vmi);
}

function namesProblem(path: string, list: unknown): string | undefined {
  if (!Array.isArray(list)) return `${path} must be a list`;
  const seen = new Set<string>();
  for (const [index, item] of list.entries()) {
    if (!isObject(item) || typeof item.name !== 'string' || item.name === '') return `${path}[${index}] needs a name`;
    if (seen.has(item.name)) return `${path}: there are two of the name ${item.name}`;
    seen.add(item.name);
  }
  return undefined;
}

function referenceProblem({ spec }: VirtualMachineInstance): string | undefined {
  const volumes = new Set((spec.volumes ?? []).map(({ name }) => name));
  const lost = (spec.domain.devices?.disks ?? []).find(({ name, cdrom }) => !volumes.has(name) && !cdrom);
  if (lost) return `disk ${lost.name}: spec.volumes has no volume of this name`;
  for (const { name, containerDisk } of spec.volumes ?? []) {
    if (containerDisk && typeof containerDisk.image !== 'string') return `volume ${name}: containerDisk needs an image`;
  }
  const networks = new Set((spec.networks ?? []).map(({ name }) => name));
  const loose = (spec.domain.devices?.interfaces ?? []).find(({ name }) => !networks.has(name));
  return loose ? `interface ${loose.name}: spec.networks has no network of this name` : undefined;
}

function memoryProblem({ spec }: VirtualMachineInstance): string | undefined {
  const { memory, resources } = spec.domain;
  const given =
    memory?.guest ?? memory?.hugepages?.pageSize ?? resources?.requests?.memory ?? resources?.limits?.memory;
  return given === undefined ? 'spec.domain.memory.guest is missing: say how much memory the guest has' : undefined;
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
