import { clientError } from './error.ts';

/** REMOTE_CPUMAP_MAX of the protocol. */
const maxCpus = 2048 * 8;

/** CPU indexes to libvirt's bitmap: CPU `8k + b` is bit `b` of byte `k` (remote_protocol.x of libvirt). */
export function cpumapOf(cpus: readonly number[]): Buffer {
  if (cpus.length === 0) throw clientError('INVALID_ARGUMENT', 'a CPU list must name at least one CPU');
  const highest = cpus.reduce((high, cpu) => Math.max(high, cpu), 0);
  if (highest >= maxCpus || cpus.some((cpu) => !Number.isInteger(cpu) || cpu < 0)) {
    throw clientError('INVALID_ARGUMENT', `CPU indexes must be integers from 0 to ${maxCpus - 1}`);
  }
  const map = Buffer.alloc(Math.floor(highest / 8) + 1);
  for (const cpu of cpus) map[cpu >> 3] = (map[cpu >> 3] ?? 0) | (1 << (cpu & 7));
  return map;
}

/** The inverse: CPU indexes in rising order. */
export function cpuIndexes(map: Uint8Array): readonly number[] {
  const cpus: number[] = [];
  for (const [k, byte] of map.entries()) {
    for (let bit = 0; bit < 8; bit++) if (byte & (1 << bit)) cpus.push(8 * k + bit);
  }
  return cpus;
}
