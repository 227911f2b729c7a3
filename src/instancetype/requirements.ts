import { parseQuantity, type VmiSpec } from '../api/index.ts';
import { InstancetypeError } from './errors.ts';
import { spreadOf, topologyOf } from './topology.ts';
import type { InstancetypeAndPreference, PreferenceSpec } from './types.ts';

/**
 * Whether a machine is as large as a preference requires (upstream: pkg/instancetype/preference/requirements). `spec`: the template with
 * everything applied. Throws InstancetypeError REQUIREMENT, with the path of what is too small.
 */
export function checkRequirements(
  { instancetype, preference }: InstancetypeAndPreference,
  spec: VmiSpec,
  architecture: string,
): void {
  const { cpu, memory, architecture: required } = preference?.requirements ?? {};
  if (cpu && preference) {
    const { path, has } = instancetype
      ? { path: 'spec.instancetype', has: instancetype.cpu.guest }
      : countedVcpus(spec, preference);
    if (has < cpu.guest) throw tooLittle(path, `${has} vCPU`, `${cpu.guest} vCPU`);
  }
  if (memory) {
    const path = instancetype ? 'spec.instancetype' : 'spec.template.spec.domain.memory';
    const { requests, limits } = spec.domain.resources ?? {};
    const has = spec.domain.memory?.guest ?? requests?.memory ?? limits?.memory ?? '0Mi';
    if ((parseQuantity(has) ?? 0) < (parseQuantity(memory.guest) ?? 0)) {
      throw tooLittle(path, `memory of ${has}`, String(memory.guest));
    }
  }
  const has = spec.architecture ?? architecture;
  if (required !== undefined && has !== required) {
    const text = `preference requires architecture ${required} but ${has} is being requested`;
    throw new InstancetypeError('REQUIREMENT', `spec.template.spec.architecture: ${text}`);
  }
}

function tooLittle(path: string, has: string, required: string): InstancetypeError {
  return new InstancetypeError('REQUIREMENT', `${path}: insufficient ${has}, preference requires ${required}`);
}

const parts = ['sockets', 'cores', 'threads'] as const;

/** A VM says its vCPUs where its preference wants them; one that says none gets as many sockets as the CPUs that it asks for. */
function countedVcpus({ domain: { cpu, resources } }: VmiSpec, preference: PreferenceSpec) {
  const counted = partsOf(preference);
  const isSilent = parts.every((part) => !cpu?.[part]);
  const asked = Math.ceil(parseQuantity(resources?.limits?.cpu ?? resources?.requests?.cpu) ?? 1);
  const count = (part: (typeof parts)[number]) => (isSilent && part === 'sockets' ? asked : cpu?.[part]) || 1;
  const path = counted.map((part) => `spec.template.spec.domain.cpu.${part}`).join(', ');
  return { path, has: counted.reduce((product, part) => product * count(part), 1) };
}

function partsOf(preference: PreferenceSpec): readonly (typeof parts)[number][] {
  const topology = topologyOf(preference);
  if (topology === 'any') return parts;
  if (topology !== 'spread') return [topology];
  const { across } = spreadOf(preference);
  return parts.filter((part) => across.toLowerCase().includes(part));
}
