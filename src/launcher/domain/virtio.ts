import type { VirtualMachineInstance } from '../../api/index.ts';
import { architectureOf } from './architecture.ts';
import { sharesItsMemory } from './launch-security.ts';
import type { XmlContent } from './xml.ts';

/** How the guest's virtio devices are made, all of them alike. */
export interface VirtioStyle {
  /** Where there is PCI, drivers of one generation or of both. */
  readonly model: string;
  /** Of those that only a controller drives. */
  readonly scsiModel: string;
  /** Attributes of each device's driver: a guest whose memory is encrypted shows devices what it wants them to see. */
  readonly driver: XmlContent;
}

export function virtioStyle(vmi: VirtualMachineInstance): VirtioStyle {
  const driver = sharesItsMemory(vmi) ? { '@iommu': 'on' } : {};
  if (!architectureOf(vmi).hasPci) return { model: 'virtio', scsiModel: 'virtio-scsi', driver };
  const both = vmi.spec.domain.devices?.useVirtioTransitional;
  const model = both ? 'virtio-transitional' : 'virtio-non-transitional';
  return { model, scsiModel: model, driver };
}
