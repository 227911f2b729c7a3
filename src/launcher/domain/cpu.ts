import { parseQuantity, type VirtualMachineInstance } from '../../api/index.ts';
import { architectureOf } from './architecture.ts';
import type { ConverterContext } from './context.ts';
import { invalid } from './errors.ts';
import type { XmlContent } from './xml.ts';

export interface CpuShape {
  readonly sockets: number;
  readonly cores: number;
  readonly threads: number;
  /** Sockets of the topology: `maxSockets` when more can be plugged in later, or as many of them as a machine has. */
  readonly topologySockets: number;
  /** CPUs at start and at most. */
  readonly count: number;
  readonly maxCount: number;
}

/** QEMU's limit for q35. */
const maxCpus = 288;
/** More cost an IOMMU with extended interrupts, which is not bought for CPUs that may never come. */
const maxCpusWithRoom = 255;

/**
 * Sockets, cores and threads with their defaults (upstream's `converter/vcpu`); without any, the CPU request decides the
 * sockets.
 */
export function cpuShape(vmi: VirtualMachineInstance): CpuShape {
  const { cpu, resources } = vmi.spec.domain;
  const given = Boolean(cpu?.sockets || cpu?.cores || cpu?.threads);
  const request = resources?.limits?.cpu ?? resources?.requests?.cpu;
  const sockets = given || request === undefined ? countOf(cpu?.sockets, 'sockets') : requestedCpus(request);
  const cores = countOf(cpu?.cores, 'cores');
  const threads = countOf(cpu?.threads, 'threads');
  const wanted = cpu?.maxSockets && architectureOf(vmi).canPlugCpus ? countOf(cpu.maxSockets, 'maxSockets') : sockets;
  if (wanted < sockets) {
    throw invalid('spec.domain.cpu.maxSockets', `${wanted} is less than the ${sockets} sockets at start`);
  }
  // Most of them were reckoned by a controller, for up to 512 CPUs: a guest does not fail to start for that.
  const topologySockets = Math.max(sockets, Math.min(wanted, Math.floor(maxCpusWithRoom / (cores * threads))));
  const maxCount = topologySockets * cores * threads;
  if (maxCount > maxCpus) {
    throw invalid('spec.domain.cpu', `sockets * cores * threads gives ${maxCount} CPUs, ${maxCpus} are possible`);
  }
  return { sockets, cores, threads, topologySockets, count: sockets * cores * threads, maxCount };
}

function countOf(value: number | undefined, field: string): number {
  if (value === undefined || value === null || value === 0) return 1;
  if (Number.isInteger(value) && value > 0) return value;
  throw invalid(`spec.domain.cpu.${field}`, `${JSON.stringify(value)} is not a positive whole number`);
}

function requestedCpus(request: string | number): number {
  const cpus = parseQuantity(request);
  if (cpus !== undefined && cpus > 0) return Math.ceil(cpus);
  throw invalid('spec.domain.resources', `cpu ${JSON.stringify(request)} is not a positive quantity`);
}

/** `vcpu`, and with hotplug room `vcpus`: whole sockets above the first can be plugged. */
export function vcpuElements(shape: CpuShape): XmlContent {
  const vcpu = { '@placement': 'static', '#text': shape.maxCount };
  if (shape.maxCount === shape.count) return { vcpu };
  const perSocket = shape.cores * shape.threads;
  const list = Array.from({ length: shape.maxCount }, (_, id) => ({
    '@id': id,
    '@enabled': id < shape.count ? 'yes' : 'no',
    '@hotpluggable': id >= perSocket ? 'yes' : 'no',
  }));
  return { vcpu: { ...vcpu, '@current': shape.count }, vcpus: { vcpu: list } };
}

const policies = ['force', 'require', 'optional', 'disable', 'forbid'];

export function cpuElement(vmi: VirtualMachineInstance, shape: CpuShape, context: ConverterContext): XmlContent {
  const { cpu } = vmi.spec.domain;
  const model = cpu?.model || 'host-model';
  const feature = (cpu?.features ?? []).map(({ name, policy = 'require' }) => {
    if (!policies.includes(policy)) {
      throw invalid(`spec.domain.cpu.features[${name}].policy`, `${policy} is none of ${policies.join(', ')}`);
    }
    return { '@name': name, '@policy': policy || 'require' };
  });
  const topology = { '@sockets': shape.topologySockets, '@cores': shape.cores, '@threads': shape.threads };
  if (model === 'host-model') return { '@mode': 'host-model', topology, feature };
  if (model === 'host-passthrough') return { '@mode': passthroughMode(context), topology, feature };
  // Models from before 2019 name mpx, which no current processor has.
  if (architectureOf(vmi).isPc && !feature.some((one) => one['@name'] === 'mpx'))
    feature.push({ '@name': 'mpx', '@policy': 'disable' });
  return { '@mode': 'custom', model, topology, feature };
}

/** Emulation has no host CPU to pass through: the guest gets everything the emulator can do, which is what was asked for. */
function passthroughMode(context: ConverterContext): string {
  return context.hypervisor === 'kvm' ? 'host-passthrough' : 'maximum';
}
