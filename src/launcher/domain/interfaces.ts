import { type Interface, interfaceModels, type VirtualMachineInstance } from '../../api/index.ts';
import { architectureOf } from './architecture.ts';
import { cpuShape } from './cpu.ts';
import { invalid } from './errors.ts';
import { bindingOf, type InterfaceContext, type NamedInterface } from './interfaces-binding.ts';
import { passtBackend } from './interfaces-passt.ts';
import { tapBackend } from './interfaces-tap.ts';
import { userBackend } from './interfaces-user.ts';
import { sharesItsMemory } from './launch-security.ts';
import { userAlias } from './names.ts';
import { pciAddress } from './pci.ts';
import { virtioStyle } from './virtio.ts';
import { renderXml, type XmlContent } from './xml.ts';

const maxQueues = 256;

/**
 * All network devices of QEMU (upstream's `converter/network`); interfaces with state `absent` are being unplugged and are left out.
 */
export function interfaceElements(vmi: VirtualMachineInstance, context: InterfaceContext): XmlContent[] {
  return namedInterfaces(vmi, context)
    .filter(({ iface }) => iface.state !== 'absent')
    .filter((named) => !['sriov', 'sidecar'].includes(bindingOf(named, context)))
    .map((named) => interfaceElement(vmi, named, context));
}

/** The document of one device that is plugged into the running domain. */
export function interfaceXml(vmi: VirtualMachineInstance, name: string, context: InterfaceContext): string {
  const named = namedInterfaces(vmi, context).find(({ iface }) => iface.name === name);
  if (!named) throw invalid(interfaceField(name), 'is not in the VMI');
  return renderXml('interface', interfaceElement(vmi, named, context));
}

function namedInterfaces(vmi: VirtualMachineInstance, context: InterfaceContext): NamedInterface[] {
  const { interfaces = [], autoattachPodInterface } = vmi.spec.domain.devices ?? {};
  const networks = vmi.spec.networks ?? [];
  const wantsDefault = interfaces.length === 0 && networks.length === 0 && autoattachPodInterface !== false;
  if (wantsDefault && context.network === 'user') {
    const name = 'default';
    return [{ iface: { name, masquerade: {} }, network: { name, pod: {} }, field: interfaceField(name) }];
  }
  const unused = networks.find(({ name }) => !interfaces.some((iface) => iface.name === name));
  if (unused) throw invalid(`spec.networks[${unused.name}]`, 'no interface uses it; add one or remove the network');
  return interfaces.map((iface) => {
    const network = networks.find(({ name }) => name === iface.name);
    if (network) return { iface, network, field: interfaceField(iface.name) };
    throw invalid(interfaceField(iface.name), 'there is no network of this name in spec.networks; add it');
  });
}

function interfaceField(name: string): string {
  return `spec.domain.devices.interfaces[${name}]`;
}

function interfaceElement(vmi: VirtualMachineInstance, named: NamedInterface, context: InterfaceContext): XmlContent {
  const { iface, field } = named;
  const backend = backendElement(vmi, named, context);
  const model = iface.model || 'virtio';
  if (!interfaceModels.includes(model)) {
    throw invalid(`${field}.model`, `${model} is none of ${interfaceModels.join(', ')}`);
  }
  return {
    ...backend,
    model: { '@type': model === 'virtio' ? virtioStyle(vmi).model : model },
    ...driverElement(vmi, model, context),
    ...bootElements(vmi, iface),
    ...(iface.state === 'down' && { link: { '@state': 'down' } }),
    ...(iface.acpiIndex && { acpi: { '@index': iface.acpiIndex } }),
    alias: userAlias('spec.domain.devices.interfaces[]', iface.name),
    ...(iface.pciAddress && { address: pciAddress(`${field}.pciAddress`, iface.pciAddress) }),
  };
}

function backendElement(vmi: VirtualMachineInstance, named: NamedInterface, context: InterfaceContext): XmlContent {
  const binding = bindingOf(named, context);
  if (context.network === 'user') return userBackend(vmi, named);
  return binding === 'passtBinding' ? passtBackend(vmi, named) : tapBackend(vmi, named, context);
}

/** Its ROM is of use only where it is started from; one of a guest with encrypted memory could not be read. */
function bootElements(vmi: VirtualMachineInstance, { bootOrder }: Interface): XmlContent {
  const isRead = bootOrder && !sharesItsMemory(vmi);
  return {
    ...(bootOrder && { boot: { '@order': bootOrder } }),
    ...(architectureOf(vmi).hasPci && !isRead && { rom: { '@enabled': 'no' } }),
  };
}

function driverElement(vmi: VirtualMachineInstance, model: string, context: InterfaceContext): XmlContent {
  if (model !== 'virtio') return {};
  const { driver } = virtioStyle(vmi);
  const isAsItIs = Object.keys(driver).length === 0;
  // QEMU's user network has one queue; the guest works the same with it.
  if (context.network === 'user') return isAsItIs ? {} : { driver };
  const wanted = vmi.spec.domain.devices?.networkInterfaceMultiqueue;
  if (!wanted && isAsItIs) return {};
  const queues = wanted ? { '@queues': Math.min(cpuShape(vmi).count, maxQueues) } : {};
  return { driver: { '@name': 'vhost', ...queues, ...driver } };
}
