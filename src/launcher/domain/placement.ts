import type { VirtualMachineInstance } from '../../api/index.ts';
import type { ConverterContext } from './context.ts';
import type { CpuShape } from './cpu.ts';
import { CpuPool } from './cpu-pool.ts';
import { ConvertError, invalid } from './errors.ts';
import type { IoThreadPlan } from './io-threads.ts';
import type { XmlContent } from './xml.ts';

/** Which CPU of the host each thread of a guest with dedicated CPUs has. */
export interface CpuPlacement {
  /** By vCPU. */
  readonly vcpus: readonly number[];
  /** Absent: the emulator's threads run on all CPUs of the pod. */
  readonly emulator?: readonly number[];
  /** By I/O thread, from the first. */
  readonly ioThreads: readonly (readonly number[])[];
}

const evenParityAnnotation = 'alpha.kubevirt.io/EmulatorThreadCompleteToEvenParity';

export type PlacementContext = Pick<ConverterContext, 'cpuSet'> & {
  readonly options?: Pick<NonNullable<ConverterContext['options']>, 'topology'>;
};

/**
 * Undefined without dedicated CPUs. Throws INVALID_FIELD for what only they can give, and NOT_ENOUGH_CPUS
 * (upstream: `AdjustDomainForTopologyAndCPUSet` of converter/vcpu).
 */
export function placeCpus(
  vmi: VirtualMachineInstance,
  shape: CpuShape,
  threads: IoThreadPlan,
  { cpuSet, options }: PlacementContext,
): CpuPlacement | undefined {
  const { cpu } = vmi.spec.domain;
  if (!cpu?.dedicatedCpuPlacement) {
    refuseWithoutDedication(cpu);
    return undefined;
  }
  const pool = new CpuPool({ cpus: cpuSet, topology: options?.topology ?? [], threads: shape.threads });
  const crossesCells = !cpu.numa?.guestMappingPassthrough;
  const vcpus = pool.takeCores(shape.sockets * shape.cores, { crossesCells });
  if (!vcpus) throw tooFew(shape, cpuSet, crossesCells);
  const own = threads.isPool ? Array.from({ length: threads.count }, () => [poolCpu(pool, threads.count)]) : undefined;
  const pinned = shape.count + (own?.length ?? 0);
  const emulator = cpu.isolateEmulatorThread ? emulatorCpus(vmi, pool, pinned) : undefined;
  const ioThreads = own ?? ioThreadCpus(threads.count, cpuSet.slice(0, shape.count), emulator);
  return { vcpus, ...(emulator && { emulator }), ioThreads };
}

function refuseWithoutDedication(cpu: VirtualMachineInstance['spec']['domain']['cpu']): void {
  const wants: readonly (readonly [string, unknown])[] = [
    ['isolateEmulatorThread', cpu?.isolateEmulatorThread],
    ['realtime', cpu?.realtime],
    ['numa.guestMappingPassthrough', cpu?.numa?.guestMappingPassthrough],
  ];
  for (const [field, value] of wants) {
    if (value) throw invalid(`spec.domain.cpu.${field}`, 'needs dedicatedCpuPlacement: set it, or remove this field');
  }
}

function tooFew({ count, threads }: CpuShape, cpuSet: readonly number[], crossesCells: boolean): ConvertError {
  const has = `the launcher pod has ${cpuSet.length} CPUs (${cpuSet.slice(0, 64).join(',')})`;
  if (crossesCells || cpuSet.length < count) {
    return new ConvertError('NOT_ENOUGH_CPUS', `${count} dedicated CPUs are needed, ${has}: lower the CPUs of the VMI`);
  }
  const fit = `cores of ${threads} threads do not fit into single NUMA cells`;
  return new ConvertError('NOT_ENOUGH_CPUS', `${fit}, ${has}: use fewer threads per core`);
}

/** The pod has a CPU for each thread of the pool, besides those of the vCPUs. */
function poolCpu(pool: CpuPool, count: number): number {
  const cpu = pool.takeThread();
  if (cpu !== undefined) return cpu;
  const problem = `ioThreads.supplementalPoolThreadCount ${count} needs as many CPUs besides those of the vCPUs, and the launcher pod has not`;
  throw new ConvertError('NOT_ENOUGH_CPUS', `${problem}: lower it`);
}

/** `pinned`: vCPUs and I/O threads that have a CPU. */
function emulatorCpus(vmi: VirtualMachineInstance, pool: CpuPool, pinned: number): readonly number[] {
  const isEven = vmi.metadata.annotations?.[evenParityAnnotation] !== undefined && pinned % 2 === 0;
  return Array.from({ length: isEven ? 2 : 1 }, () => {
    const cpu = pool.takeThread();
    if (cpu !== undefined) return cpu;
    const problem = `isolateEmulatorThread needs a CPU besides the ${pinned} of vCPUs and I/O threads, and the launcher pod has no more`;
    throw new ConvertError('NOT_ENOUGH_CPUS', `${problem}: remove isolateEmulatorThread`);
  });
}

/** Beside the emulator if that has CPUs of its own; else the CPUs of the guest are dealt out, in runs of nearly equal length. */
function ioThreadCpus(
  count: number,
  cpus: readonly number[],
  emulator: readonly number[] | undefined,
): readonly (readonly number[])[] {
  if (emulator) return Array.from({ length: count }, () => emulator);
  if (count >= cpus.length) {
    return Array.from({ length: count }, (_, index) => cpus.slice((index + 1) % cpus.length).slice(0, 1));
  }
  const [each, longer] = [Math.floor(cpus.length / count), cpus.length % count];
  return Array.from({ length: count }, (_, index) => {
    const from = index * each + Math.min(index, longer);
    return cpus.slice(from, from + each + (index < longer ? 1 : 0));
  });
}

export function cpuTuneElement({ vcpus, emulator, ioThreads }: CpuPlacement): XmlContent {
  return {
    vcpupin: vcpus.map((cpu, vcpu) => ({ '@vcpu': vcpu, '@cpuset': cpu })),
    ...(emulator && { emulatorpin: { '@cpuset': emulator.join(',') } }),
    ...(ioThreads.length > 0 && {
      iothreadpin: ioThreads.map((cpus, index) => ({ '@iothread': index + 1, '@cpuset': cpus.join(',') })),
    }),
  };
}
