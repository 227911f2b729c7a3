import { parseQuantity, type Quantity, type VirtualMachineInstance } from '../../api/index.ts';
import { invalid } from './errors.ts';
import { child, childrenOf, contentOf, parseXml, renderXml, type XmlContent } from './xml.ts';

/** What makes the memory of a running guest that of its VMI. */
export interface MemoryChange {
  readonly kind: 'attach' | 'update';
  /** The `memory` device. */
  readonly xml: string;
}

const mebibyte = 2 ** 20;
const model = 'virtio-mem';

interface WantedMemory {
  readonly pluggableBytes: number;
  readonly requestedBytes: number;
  readonly blockBytes: number;
}

/**
 * The guest gets memory above what it was started with from one virtio-mem device (upstream: pkg/liveupdate/memory), which is
 * plugged in at the first change. `xml` is libvirt's live document. Throws `ConvertError`.
 */
export function memoryChange(vmi: VirtualMachineInstance, xml: string): MemoryChange {
  const wanted = wantedMemory(vmi);
  const devices = child(parseXml(xml, 'domain'), 'devices');
  const device = devices && childrenOf(devices, 'memory').find(({ attributes }) => attributes.model === model);
  if (!device) return { kind: 'attach', xml: renderXml('memory', newDevice(wanted)) };
  const target = child(device, 'target');
  const { current, ...rest } = target ? contentOf(target) : {};
  const changed = { ...contentOf(device), target: { ...rest, requested: size(wanted.requestedBytes) } };
  return { kind: 'update', xml: renderXml('memory', changed) };
}

function newDevice({ pluggableBytes, requestedBytes, blockBytes }: WantedMemory): XmlContent {
  const target = {
    size: size(pluggableBytes),
    node: 0,
    block: size(blockBytes),
    requested: size(requestedBytes),
  };
  return { '@model': model, target };
}

function size(bytes: number): XmlContent {
  return { '@unit': 'b', '#text': bytes };
}

function wantedMemory(vmi: VirtualMachineInstance): WantedMemory {
  const { memory } = vmi.spec.domain;
  const atBoot = bytesOf('status.memory.guestAtBoot', vmi.status?.memory?.guestAtBoot);
  const guest = bytesOf('spec.domain.memory.guest', memory?.guest);
  const max = bytesOf('spec.domain.memory.maxGuest', memory?.maxGuest);
  const blockBytes = memory?.hugepages?.pageSize === '1Gi' ? 1024 * mebibyte : 2 * mebibyte;
  const field = 'spec.domain.memory.guest';
  if (guest < atBoot) throw invalid(field, 'is less than the guest was started with: restart the VM for less memory');
  if (guest > max) throw invalid(field, 'is more than maxGuest');
  if ((guest - atBoot) % blockBytes !== 0 || (max - atBoot) % blockBytes !== 0) {
    throw invalid(field, `it and maxGuest must differ from the memory at start by a multiple of ${blockBytes} bytes`);
  }
  return { pluggableBytes: max - atBoot, requestedBytes: guest - atBoot, blockBytes };
}

function bytesOf(field: string, quantity: Quantity | undefined): number {
  const bytes = parseQuantity(quantity);
  if (bytes !== undefined && Number.isSafeInteger(bytes) && bytes > 0) return bytes;
  throw invalid(field, `memory can only be plugged in with a size here, not ${JSON.stringify(quantity) ?? 'without'}`);
}
