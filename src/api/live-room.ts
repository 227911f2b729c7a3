import { memoryProblem } from './live-memory.ts';
import { binaryQuantity, parseQuantity } from './quantity.ts';
import type { Quantity, VmiSpec } from './vmi.ts';

/** What a cluster says of changes of a guest that runs. */
export interface LiveUpdateSettings {
  /** `Stage`: changes of a VM's template wait for its next start. */
  readonly rolloutStrategy: 'LiveUpdate' | 'Stage';
  /** How much more CPUs and memory than at its start a guest can get. */
  readonly liveUpdateRatio: number;
  /** In place of what the ratio gives; 0: none is said. */
  readonly maxCpuSockets: number;
  readonly maxGuest: Quantity | undefined;
}

/** Upstream's: what a machine can have at most differs by its type. */
const maxVcpus = 512;

/**
 * Up to what a guest that runs can get more CPUs and memory (setupHotplug of pkg/defaults/defaults.go): that much is part of the machine that it
 * starts with. Changes `spec`; what is set already stays. Guests of ARM take no more while they run.
 */
export function fillRoom(spec: VmiSpec, settings: LiveUpdateSettings): void {
  if (settings.rolloutStrategy !== 'LiveUpdate' || spec.architecture === 'arm64') return;
  const { cpu, memory } = spec.domain;
  const sockets = cpu?.sockets ?? 0;
  if (cpu && sockets > 0 && !cpu.maxSockets) {
    const perSocket = (cpu.cores || 1) * (cpu.threads || 1);
    const most = Math.min(sockets * settings.liveUpdateRatio, Math.floor(maxVcpus / perSocket));
    cpu.maxSockets = Math.max(settings.maxCpuSockets || most, sockets);
  }
  const guest = parseQuantity(memory?.guest);
  if (!memory || guest === undefined || (memory.maxGuest ?? undefined) !== undefined) return;
  const maxGuest = settings.maxGuest ?? binaryQuantity(guest * settings.liveUpdateRatio);
  if (memoryProblem(spec, maxGuest) === undefined) memory.maxGuest = maxGuest;
}
