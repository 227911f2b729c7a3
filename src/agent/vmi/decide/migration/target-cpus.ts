import { hasDedicatedCpus, type NumaCell } from '../../../../api/index.ts';
import type { Facts } from '../facts.ts';
import { stageOf, stateOf } from './target-view.ts';

type Json = Readonly<Record<string, unknown>>;

/**
 * What the source must know to pin the guest's CPUs for this node (pkg/virt-handler/migration-target.go): fields of
 * `migrationState`; none when the guest has no CPUs of its own or all is written.
 */
export function cpuFields(facts: Facts): Json {
  const stage = stageOf(facts);
  const cpuSet = stage?.kind === 'prepared' ? stage.cpuSet : undefined;
  if (!hasDedicatedCpus(facts.vmi) || !cpuSet) return {};
  const state = stateOf(facts);
  const topology = JSON.stringify(goTopology(facts.observation.syncOptions.topology ?? []));
  const isWritten =
    state?.targetNodeTopology === topology && JSON.stringify(state.targetCPUSet) === JSON.stringify(cpuSet);
  return isWritten ? {} : { targetCPUSet: [...cpuSet], targetNodeTopology: topology };
}

/**
 * As Go writes the message `Topology` (pkg/handler-launcher-com/cmd/v1/cmd.proto): names of the proto file, nothing that is
 * zero or empty.
 */
function goTopology(cells: readonly NumaCell[]): Json {
  return withoutZeros({
    numa_cells: cells.map(({ id, memory, pages, distances, cpus }) =>
      withoutZeros({
        id,
        memory: memory && withoutZeros({ amount: memory.amount, unit: memory.unit }),
        pages: pages.map(({ count, unit, size }) => withoutZeros({ count, unit, size })),
        distances: distances.map((distance) => withoutZeros({ id: distance.id, value: distance.value })),
        cpus: cpus.map((cpu) => withoutZeros({ id: cpu.id, siblings: cpu.siblings })),
      }),
    ),
  });
}

function withoutZeros(fields: Json): Json {
  const isZero = (value: unknown) => !value || (Array.isArray(value) && value.length === 0);
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => !isZero(value)));
}
