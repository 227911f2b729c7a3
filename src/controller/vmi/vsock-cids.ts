import { type Key, keyOf, type VirtualMachineInstance } from '../../api/index.ts';

/** 0 to 2 are those of hypervisor and host, the last one means any. */
const [first, last] = [3, 0xffff_fffe];

export interface VsockCidsDeps {
  /** All of the cluster, with this process's own writes. */
  readonly vmis: { list(): readonly VirtualMachineInstance[] };
  /** 0 up to 1. */
  readonly random: () => number;
}

/**
 * Addresses of guests on VSOCK, no two of the cluster the same: a guest keeps its own when it migrates (upstream:
 * pkg/virt-controller/watch/vsock). What is given is kept in the status of the VMI, and here until the watch shows that.
 */
export class VsockCids {
  readonly #deps: VsockCidsDeps;
  readonly #given = new Map<Key, number>();

  constructor(deps: VsockCidsDeps) {
    this.#deps = deps;
  }

  /** The same each time until the VMI is gone. */
  give(vmi: VirtualMachineInstance): number {
    const key = keyOf(vmi);
    const known = this.#given.get(key) ?? this.#free();
    this.#given.set(key, known);
    return known;
  }

  /** The VMI is no more. */
  forget(key: Key): void {
    this.#given.delete(key);
  }

  /** From a random one on, so that a new leader with an old view is unlikely to meet one just given. */
  #free(): number {
    const taken = new Set<unknown>([
      ...this.#deps.vmis.list().map(({ status }) => status?.VSOCKCID),
      ...this.#given.values(),
    ]);
    let cid = first + Math.floor(this.#deps.random() * (last - first + 1));
    while (taken.has(cid)) cid = cid >= last ? first : cid + 1;
    return cid;
  }
}
