import { InstancetypeError } from './errors.ts';
import type { InstancetypeSpec, PreferenceSpec } from './types.ts';

/** Where the vCPUs of a guest are. `any` is sockets for an instance type, and any of them for a VM that says its own. */
export type Topology = 'sockets' | 'cores' | 'threads' | 'spread' | 'any';

/** Also by their names of old preferences. */
export const topologies: ReadonlyMap<string, Topology> = new Map(
  (['sockets', 'cores', 'threads', 'spread', 'any'] as const).flatMap((topology) => [
    [topology, topology] as const,
    [`prefer${topology.charAt(0).toUpperCase()}${topology.slice(1)}`, topology] as const,
  ]),
);

export type Across = 'SocketsCores' | 'CoresThreads' | 'SocketsCoresThreads';

export const across: ReadonlyMap<string, Across> = new Map(
  (['SocketsCores', 'CoresThreads', 'SocketsCoresThreads'] as const).map((each) => [each, each] as const),
);

export function topologyOf(preference: PreferenceSpec | undefined): Topology {
  return topologies.get(preference?.cpu?.preferredCPUTopology ?? 'sockets') ?? 'sockets';
}

export function spreadOf({ cpu, preferSpreadSocketToCoreRatio }: PreferenceSpec): { across: Across; ratio: number } {
  const { across: over = 'SocketsCores', ratio } = cpu?.spreadOptions ?? {};
  return { across: across.get(over) ?? 'SocketsCores', ratio: ratio ?? (preferSpreadSocketToCoreRatio || 2) };
}

interface Vcpus {
  readonly sockets: number;
  readonly cores: number;
  readonly threads: number;
}

const threadsPerCore = 2;

/** Sockets, cores and threads of a guest with the vCPUs of an instance type. Throws InstancetypeError where they cannot be spread. */
export function spreadVcpus({ cpu: { guest } }: InstancetypeSpec, preference: PreferenceSpec | undefined): Vcpus {
  const one = { sockets: 1, cores: 1, threads: 1 };
  switch (topologyOf(preference)) {
    case 'sockets':
    case 'any':
      return { ...one, sockets: guest };
    case 'cores':
      return { ...one, cores: guest };
    case 'threads':
      return { ...one, threads: guest };
    case 'spread':
      return spread(guest, spreadOf(preference ?? {}));
  }
}

function spread(guest: number, { across: over, ratio }: { across: Across; ratio: number }): Vcpus {
  switch (over) {
    case 'SocketsCores':
      return { sockets: share(guest, ratio), cores: ratio, threads: 1 };
    case 'CoresThreads':
      if (ratio !== threadsPerCore) {
        const why = 'only a ratio of 2 (1 core 2 threads) is allowed when spreading vCPUs over cores and threads';
        throw new InstancetypeError('MALFORMED', `the preference cannot be used: spec.cpu.spreadOptions.ratio: ${why}`);
      }
      return { sockets: 1, cores: share(guest, ratio), threads: ratio };
    case 'SocketsCoresThreads':
      return { sockets: share(guest, threadsPerCore * ratio), cores: ratio, threads: threadsPerCore };
  }
}

/** As upstream's webhook says it, with its path (`pkg/instancetype/preference/validation/cpu.go`). */
function share(guest: number, parts: number): number {
  if (guest % parts === 0) return guest / parts;
  const text = `instancetype.spec.cpu.guest: ${guest} vCPUs of the instance type cannot be spread as the preference wants them: they are no multiple of ${parts}`;
  throw new InstancetypeError('CONFLICT', text);
}
