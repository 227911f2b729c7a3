import type { NumaCell } from '../../api/index.ts';

/** A NUMA cell of the host, as far as CPUs are placed by it. */
export type HostCell = Pick<NumaCell, 'id' | 'cpus'>;

/** CPUs of the host that nothing uses yet, per NUMA cell and core. */
interface FreeCell {
  /** Cores that still hold all threads of a guest's core. */
  readonly whole: number[][];
  /** CPUs of cores that no longer do. */
  readonly single: number[];
}

export interface CpuPoolOptions {
  /** CPUs that the pod may use. */
  readonly cpus: readonly number[];
  /** The host's cells; without them every CPU is a core of its own, and all are in one cell. */
  readonly topology: readonly HostCell[];
  /** Threads of one core of the guest. */
  readonly threads: number;
}

/**
 * Gives the CPUs of a pod to the threads of its guest so that threads of one core of the guest are siblings on the host where that is
 * possible (upstream: pkg/virt-launcher/virtwrap/converter/vcpu). The order of cells and cores is the host's.
 */
export class CpuPool {
  readonly #threads: number;
  readonly #cells: readonly FreeCell[];

  constructor({ cpus, topology, threads }: CpuPoolOptions) {
    this.#threads = threads;
    const free = new Set(cpus);
    const known = topology.map((cell) => this.#split(freeCores(cell, free)));
    const rest = [...free];
    this.#cells = rest.length > 0 ? [...known, this.#split(rest.map((cpu) => [cpu]))] : known;
  }

  /**
   * The CPUs of `count` cores of the guest, thread by thread: first of cores of the host, then of one cell of it, and with
   * `crossesCells` of anywhere. Undefined when there are not enough.
   */
  takeCores(count: number, { crossesCells }: { readonly crossesCells: boolean }): readonly number[] | undefined {
    const wanted = count * this.#threads;
    const taken: number[] = [];
    for (const cell of this.#cells) this.#takeWhole(cell, wanted, taken);
    for (const { single } of this.#cells) {
      while (taken.length < wanted && single.length >= this.#threads) taken.push(...single.splice(0, this.#threads));
    }
    if (crossesCells) for (const { single } of this.#cells) taken.push(...single.splice(0, wanted - taken.length));
    return taken.length === wanted ? taken : undefined;
  }

  /** One more CPU, of a core that is in use already if there is one. */
  takeThread(): number | undefined {
    const cell = this.#cells.find(({ whole, single }) => whole.length > 0 || single.length > 0);
    if (!cell) return undefined;
    if (cell.single.length > 0) return cell.single.shift();
    const [cpu, ...rest] = cell.whole.shift() ?? [];
    this.#putBack(cell, rest);
    return cpu;
  }

  #takeWhole(cell: FreeCell, wanted: number, taken: number[]): void {
    while (taken.length < wanted) {
      const core = cell.whole.shift();
      if (!core) return;
      taken.push(...core.splice(0, this.#threads));
      this.#putBack(cell, core);
    }
  }

  #putBack({ whole, single }: FreeCell, core: number[]): void {
    if (core.length >= this.#threads) whole.unshift(core);
    else single.push(...core);
  }

  #split(cores: readonly (readonly number[])[]): FreeCell {
    const isWhole = (core: readonly number[]) => core.length >= this.#threads;
    return {
      whole: cores.filter(isWhole).map((core) => [...core]),
      single: cores.filter((core) => !isWhole(core)).flat(),
    };
  }
}

/** Takes the CPUs of the cell out of `free`, core by core. */
function freeCores({ cpus }: HostCell, free: Set<number>): number[][] {
  return cpus
    .map(({ id, siblings }) => (siblings.length > 0 ? siblings : [id]).filter((cpu) => free.delete(cpu)))
    .filter((core) => core.length > 0);
}
