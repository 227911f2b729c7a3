import { parseQuantity, type Quantity, type VirtualMachineInstance, virtiofsNames } from '../../api/index.ts';
import type { CpuShape } from './cpu.ts';
import { invalid } from './errors.ts';
import type { XmlContent } from './xml.ts';

const mebibyte = 2 ** 20;
/** For memory plugged in later. libvirt before 10 refuses upstream's 0. */
const memorySlots = 1;
const memfdAnnotation = 'kubevirt.io/memfd';

export interface MemoryShape {
  readonly guestBytes: number;
  readonly maxBytes?: number;
  readonly hugePageBytes?: number;
  readonly memfd: boolean;
  /** Other processes than QEMU read and write it: those of vhost-user devices. */
  readonly shared: boolean;
  /** The host may not merge its pages with those of others: that would cost time when it writes them. */
  readonly noSharing: boolean;
}

/** Sizes in bytes. */
export function memoryShape(vmi: VirtualMachineInstance): MemoryShape {
  const { memory, resources } = vmi.spec.domain;
  const guest = firstSize([
    ['spec.domain.memory.guest', memory?.guest],
    ['spec.domain.resources.requests.memory', resources?.requests?.memory],
    ['spec.domain.resources.limits.memory', resources?.limits?.memory],
  ]);
  if (guest === undefined)
    throw invalid('spec.domain.memory.guest', 'no memory size is given; set it, for example "128Mi"');
  const max = firstSize([['spec.domain.memory.maxGuest', memory?.maxGuest]]);
  if (max !== undefined && max < guest) throw invalid('spec.domain.memory.maxGuest', 'is less than the guest memory');
  const hugePages = memory?.hugepages;
  const pageBytes = hugePages && hugePageSize(hugePages.pageSize, guest);
  const isPasst = vmi.spec.domain.devices?.interfaces?.some(({ passtBinding }) => passtBinding) ?? false;
  const shared = isPasst || virtiofsNames(vmi).length > 0;
  return {
    guestBytes: guest,
    ...(max !== undefined && max !== guest && { maxBytes: max }),
    ...(pageBytes !== undefined && { hugePageBytes: pageBytes }),
    memfd: shared || (pageBytes !== undefined && vmi.metadata.annotations?.[memfdAnnotation] !== 'false'),
    shared,
    noSharing: Boolean(vmi.spec.domain.cpu?.realtime),
  };
}

function firstSize(candidates: readonly (readonly [string, Quantity | undefined])[]): number | undefined {
  for (const [field, quantity] of candidates) {
    if (quantity === undefined || quantity === null) continue;
    const bytes = parseQuantity(quantity);
    if (bytes !== undefined && bytes >= mebibyte && bytes <= Number.MAX_SAFE_INTEGER) return Math.floor(bytes);
    throw invalid(field, `${JSON.stringify(quantity)} is not a memory size of at least 1Mi`);
  }
  return undefined;
}

function hugePageSize(pageSize: string | undefined, guestBytes: number): number {
  const field = 'spec.domain.memory.hugepages.pageSize';
  const bytes = parseQuantity(pageSize);
  if (bytes === undefined || bytes < 4096 || !Number.isInteger(Math.log2(bytes))) {
    throw invalid(field, `${JSON.stringify(pageSize)} is not a page size such as "2Mi" or "1Gi"`);
  }
  if (guestBytes % bytes !== 0)
    throw invalid(field, `the guest memory of ${guestBytes} bytes is no multiple of ${pageSize}`);
  return bytes;
}

/** `memory`, `currentMemory`, `maxMemory`, `memoryBacking`; `cellPages` are the huge pages of each NUMA cell. */
export function memoryElements(shape: MemoryShape, cellPages?: readonly XmlContent[]): XmlContent {
  const size = { '@unit': 'b', '#text': shape.guestBytes };
  return {
    ...(shape.maxBytes !== undefined && {
      maxMemory: { '@slots': memorySlots, '@unit': 'b', '#text': shape.maxBytes },
    }),
    memory: size,
    currentMemory: size,
    ...((shape.hugePageBytes !== undefined || shape.memfd) && {
      memoryBacking: backingElement(shape, cellPages),
    }),
  };
}

function backingElement(shape: MemoryShape, cellPages: readonly XmlContent[] | undefined): XmlContent {
  return {
    ...(shape.hugePageBytes !== undefined && {
      hugepages: { page: cellPages ?? { '@size': shape.hugePageBytes, '@unit': 'b' } },
    }),
    ...(cellPages && shape.noSharing && { nosharepages: {} }),
    ...(cellPages && { allocation: { '@mode': 'immediate' } }),
    ...(shape.memfd && { source: { '@type': 'memfd' } }),
    ...(shape.shared && { access: { '@mode': 'shared' } }),
  };
}

/** One NUMA cell with everything: libvirt wants it for memory on memfd and for memory that may grow. */
export function numaElement(shape: MemoryShape, cpu: CpuShape): XmlContent | undefined {
  if (!shape.memfd && shape.maxBytes === undefined) return undefined;
  const cpus = cpu.maxCount === 1 ? '0' : `0-${cpu.maxCount - 1}`;
  return { cell: { '@id': 0, '@cpus': cpus, '@memory': Math.floor(shape.guestBytes / 1024), '@unit': 'KiB' } };
}
