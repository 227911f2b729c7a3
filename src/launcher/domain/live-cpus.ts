import type { VirtualMachineInstance } from '../../api/index.ts';
import { cpuShape } from './cpu.ts';
import { ioThreadPool, noIoThreads } from './io-threads.ts';
import { type CpuPlacement, type PlacementContext, placeCpus } from './placement.ts';

export interface WantedCpus {
  readonly count: number;
  /** Of a guest with dedicated CPUs. */
  readonly placement: CpuPlacement | undefined;
}

/** How many vCPUs a running guest shall have, and where. I/O threads stay where they were put at the start. Throws `ConvertError`. */
export function wantedCpus(vmi: VirtualMachineInstance, context: PlacementContext): WantedCpus {
  const shape = cpuShape(vmi);
  return { count: shape.count, placement: placeCpus(vmi, shape, ioThreadPool(vmi) ?? noIoThreads, context) };
}
