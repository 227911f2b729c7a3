import type { HostCell } from './cpu-pool.ts';
import { ConvertError, invalid } from './errors.ts';
import type { MemoryShape } from './memory.ts';
import type { XmlContent } from './xml.ts';

/** Elements of a guest whose NUMA cells are those of the host that its vCPUs are on (upstream: `numaMapping` of converter/vcpu). */
export interface NumaPassthrough {
  readonly numa: XmlContent;
  readonly numatune: XmlContent;
  /** Of each cell of the guest. */
  readonly pages: readonly XmlContent[];
}

interface GuestCell {
  readonly hostCell: number;
  readonly vcpus: readonly number[];
}

/** `vcpus`: the host's CPU of each vCPU. Throws INVALID_FIELD, NO_TOPOLOGY. */
export function numaPassthrough(
  vcpus: readonly number[],
  memory: MemoryShape,
  topology: readonly HostCell[] | undefined,
): NumaPassthrough {
  const field = 'spec.domain.cpu.numa.guestMappingPassthrough';
  const page = memory.hugePageBytes;
  if (page === undefined) throw invalid(field, 'needs huge pages: set spec.domain.memory.hugepages');
  const cells = guestCells(vcpus, topology ?? []);
  const pages = memory.guestBytes / page;
  if (pages < cells.length) {
    throw invalid(field, `the guest's memory has ${pages} huge pages for ${cells.length} NUMA cells: give it more`);
  }
  const [each, longer] = [Math.floor(pages / cells.length), pages % cells.length];
  return {
    numa: {
      cell: cells.map(({ vcpus }, id) => ({
        '@id': id,
        '@cpus': vcpus.join(','),
        '@memory': (each + (id < longer ? 1 : 0)) * page,
        '@unit': 'b',
      })),
    },
    numatune: {
      memory: { '@mode': 'strict', '@nodeset': cells.map(({ hostCell }) => hostCell).join(',') },
      memnode: cells.map(({ hostCell }, id) => ({ '@cellid': id, '@mode': 'strict', '@nodeset': hostCell })),
    },
    pages: cells.map((_, id) => ({ '@size': page, '@unit': 'b', '@nodeset': id })),
  };
}

/** In the host's order of cells. */
function guestCells(vcpus: readonly number[], topology: readonly HostCell[]): readonly GuestCell[] {
  const cells = topology.map(({ id, cpus }) => {
    const own = new Set(cpus.map((cpu) => cpu.id));
    return { hostCell: id, vcpus: vcpus.flatMap((cpu, vcpu) => (own.has(cpu) ? [vcpu] : [])) };
  });
  const used = cells.filter((cell) => cell.vcpus.length > 0);
  if (used.flatMap((cell) => cell.vcpus).length === vcpus.length) return used;
  const problem = 'the NUMA cells of this node are not known, so the guest cannot have the same ones';
  throw new ConvertError('NO_TOPOLOGY', `${problem}: remove guestMappingPassthrough, or use another node`);
}
