import type { VirtualMachineInstance } from '../../api/index.ts';
import { invalid } from './errors.ts';
import type { XmlContent } from './xml.ts';

const annotation = 'kubevirt.io/placePCIDevicesOnRootComplex';
/** 0 is the host bridge, 1 the screen, 0x1b the sound card, 0x1f what the chip set has itself. */
const reservedSlots = [0x1b, 0x1f];
const [firstSlot, lastSlot] = [2, 0x1f];

export function isPlacedOnRootComplex({ metadata }: VirtualMachineInstance): boolean {
  return metadata.annotations?.[annotation] === 'true';
}

/** Which elements are PCI devices, in upstream's order: it decides where in the guest each is. */
const pciDevices: readonly (readonly [kind: string, isPci: (element: XmlContent) => boolean])[] = [
  ['interface', () => true],
  ['hostdev', (one) => one['@type'] === 'pci'],
  ['controller', (one) => !String(one['@model']).startsWith('pci')],
  ['disk', ({ target }) => (target as XmlContent | undefined)?.['@bus'] === 'virtio'],
  ['input', (one) => one['@bus'] === 'virtio'],
  ['watchdog', () => true],
  ['rng', () => true],
  ['memballoon', () => true],
];

/**
 * Devices without a root port each, all on the one bus of the guest, for guests that cannot do with more (upstream: converter/pci-placement.go). What
 * has a place keeps it. Throws `ConvertError` INVALID_FIELD.
 */
export function placedOnRootComplex(devices: XmlContent): XmlContent {
  const taken = takenSlots(devices);
  let slot = firstSlot;
  const place = (element: XmlContent): XmlContent => {
    if (element.address !== undefined) return element;
    while (reservedSlots.includes(slot) || taken.has(slotText(slot))) slot++;
    if (slot > lastSlot) {
      throw invalid(`annotation ${annotation}`, 'the root complex has no slot left: remove devices, or the annotation');
    }
    const address = { '@type': 'pci', '@domain': '0x0000', '@bus': '0x00', '@slot': slotText(slot) };
    slot++;
    return { ...element, address: { ...address, '@function': '0x0' } };
  };
  const placed = pciDevices.map(([kind, isPci]) => {
    const elements = elementsOf(devices[kind]).map((element) => (isPci(element) ? place(element) : element));
    return [kind, elements.length > 0 ? elements : undefined] as const;
  });
  return { ...devices, ...Object.fromEntries(placed) };
}

const slotText = (slot: number) => `0x${slot.toString(16).padStart(2, '0')}`;

/** Those that the VMI itself gives to devices; upstream gives them a second time. */
function takenSlots(devices: XmlContent): ReadonlySet<string> {
  const addresses = pciDevices
    .flatMap(([kind]) => elementsOf(devices[kind]))
    .map(({ address }) => address as XmlContent);
  return new Set(addresses.filter((one) => one?.['@bus'] === '0x00').map((one) => String(one['@slot']).toLowerCase()));
}

function elementsOf(given: XmlContent[string]): readonly XmlContent[] {
  if (typeof given !== 'object') return [];
  return (Array.isArray(given) ? given : [given]) as readonly XmlContent[];
}
