import { createHash } from 'node:crypto';
import type { Interface, Network, VirtualMachineInstance } from '../../api/index.ts';
import type { ConverterContext } from './context.ts';
import { ConvertError, invalid, unsupported } from './errors.ts';
import { isPrimaryNetwork, podInterfaceName, tapName, userAlias } from './names.ts';
import { pciAddress } from './pci.ts';
import type { XmlContent } from './xml.ts';

const maxQueues = 256;
const models = ['virtio', 'e1000', 'e1000e', 'igb', 'ne2k_pci', 'pcnet', 'rtl8139'];
const macPattern = /^[0-9a-f]{2}([:-][0-9a-f]{2}){5}$/i;
const bindings = ['bridge', 'masquerade', 'sriov', 'passtBinding', 'binding', 'slirp', 'macvtap', 'passt'] as const;

export interface InterfaceSettings {
  readonly context: ConverterContext;
  readonly virtioModel: string;
  readonly cpuCount: number;
}

interface NamedInterface {
  readonly iface: Interface;
  readonly network: Network;
  readonly field: string;
}

/**
 * All network devices (upstream's `converter/network`); interfaces with state `absent` are being unplugged and are left out.
 */
export function interfaceElements(vmi: VirtualMachineInstance, settings: InterfaceSettings): XmlContent[] {
  return namedInterfaces(vmi, settings.context)
    .filter(({ iface }) => iface.state !== 'absent')
    .map((named) => interfaceElement(vmi, named, settings));
}

function namedInterfaces(vmi: VirtualMachineInstance, context: ConverterContext): NamedInterface[] {
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

function interfaceElement(
  vmi: VirtualMachineInstance,
  { iface, network, field }: NamedInterface,
  settings: InterfaceSettings,
): XmlContent {
  refuseBinding(iface, field, settings.context);
  const model = iface.model || 'virtio';
  if (!models.includes(model)) throw invalid(`${field}.model`, `${model} is none of ${models.join(', ')}`);
  const backend =
    settings.context.network === 'user'
      ? userBackend(vmi, { iface, network, field })
      : tapBackend(vmi, { iface, network, field }, settings.context);
  return {
    ...backend,
    model: { '@type': model === 'virtio' ? settings.virtioModel : model },
    ...driverElement(vmi, model, settings),
    ...(iface.bootOrder ? { boot: { '@order': iface.bootOrder } } : { rom: { '@enabled': 'no' } }),
    ...(iface.state === 'down' && { link: { '@state': 'down' } }),
    ...(iface.acpiIndex && { acpi: { '@index': iface.acpiIndex } }),
    alias: userAlias('spec.domain.devices.interfaces[]', iface.name),
    ...(iface.pciAddress && { address: pciAddress(`${field}.pciAddress`, iface.pciAddress) }),
  };
}

function refuseBinding(iface: Interface, field: string, context: ConverterContext): void {
  const used = bindings.filter((name) => (iface as unknown as Record<string, unknown>)[name] !== undefined);
  if (used.length > 1) throw invalid(field, `has ${used.join(' and ')}; exactly one binding is possible`);
  const [binding = 'masquerade'] = used;
  if (binding === 'masquerade' || binding === 'bridge') return;
  const isTap = context.options?.interfaceDomainAttachment?.[iface.name] === 'tap';
  if (binding === 'binding' && isTap && context.network === 'tap') return;
  throw unsupported(`${field}.${binding}`, 'use masquerade or bridge');
}

/** QEMU's own network stack: no rights and no device in the pod needed; nothing can connect to the guest from outside. */
function userBackend(vmi: VirtualMachineInstance, { iface, network, field }: NamedInterface): XmlContent {
  if (!isPrimaryNetwork(network) || network.multus) {
    throw unsupported(`spec.networks[${network.name}].multus`, 'with user networking only the pod network exists');
  }
  if (iface.dhcpOptions)
    throw unsupported(`${field}.dhcpOptions`, 'user networking has its own DHCP server; remove them');
  const ip = [cidrElement(network, 'vmNetworkCIDR', 'ipv4'), cidrElement(network, 'vmIPv6NetworkCIDR', 'ipv6')];
  return {
    '@type': 'user',
    mac: { '@address': macOf(iface, field) ?? generatedMac(vmi, iface.name) },
    ip: ip.flatMap((element) => (element ? [element] : [])),
  };
}

function cidrElement(
  network: Network,
  key: 'vmNetworkCIDR' | 'vmIPv6NetworkCIDR',
  family: 'ipv4' | 'ipv6',
): XmlContent | undefined {
  const cidr = network.pod?.[key];
  if (!cidr) return undefined;
  const [address, prefix, ...rest] = cidr.split('/');
  if (!address || !prefix || rest.length > 0 || !/^\d{1,3}$/.test(prefix)) {
    throw invalid(
      `spec.networks[${network.name}].pod.${key}`,
      `${JSON.stringify(cidr)} is not an address with a prefix`,
    );
  }
  return { '@family': family, '@address': address, '@prefix': prefix };
}

/** The device the agent made in the pod: the tap if it is there, else the pod's own interface. */
function tapBackend(
  vmi: VirtualMachineInstance,
  { iface, network, field }: NamedInterface,
  context: ConverterContext,
): XmlContent {
  const status = vmi.status?.interfaces?.find(({ name }) => name === iface.name);
  const podName = status?.podInterfaceName || podInterfaceName(network);
  const tap = context.links?.get(tapName(podName));
  const pod = context.links?.get(podName);
  const target = tap ?? pod;
  if (!target) {
    const there = [...(context.links?.keys() ?? [])].join(', ') || 'none';
    throw new ConvertError(
      'MISSING_LINK',
      `${field}: the pod has no network device ${tapName(podName)} or ${podName} (there are: ${there}); the agent makes it ` +
        'before the start, look into its log; without an agent set VIRT_LAUNCHER_NETWORK=user',
    );
  }
  const mac = macOf(iface, field) ?? pod?.mac;
  const mtu = pod?.mtu ?? target.mtu;
  return {
    '@type': 'ethernet',
    mac: { '@address': mac ?? generatedMac(vmi, iface.name) },
    ...(mtu !== undefined && { mtu: { '@size': mtu } }),
    target: { '@dev': target.name, '@managed': 'no' },
  };
}

function macOf(iface: Interface, field: string): string | undefined {
  if (!iface.macAddress) return undefined;
  if (macPattern.test(iface.macAddress)) return iface.macAddress.replaceAll('-', ':').toLowerCase();
  throw invalid(`${field}.macAddress`, `${JSON.stringify(iface.macAddress)} is not a MAC address`);
}

/** The same VMI gets the same address at each define; the prefix is QEMU's. */
function generatedMac(vmi: VirtualMachineInstance, name: string): string {
  const seed = `${vmi.metadata.uid ?? ''}/${vmi.metadata.namespace ?? ''}/${vmi.metadata.name}/${name}`;
  const digest = createHash('sha256').update(seed).digest('hex');
  return `52:54:00:${digest.slice(0, 2)}:${digest.slice(2, 4)}:${digest.slice(4, 6)}`;
}

function driverElement(vmi: VirtualMachineInstance, model: string, settings: InterfaceSettings): XmlContent {
  const wanted = vmi.spec.domain.devices?.networkInterfaceMultiqueue;
  // QEMU's user network has one queue; the guest works the same with it.
  if (!wanted || model !== 'virtio' || settings.context.network === 'user') return {};
  return { driver: { '@name': 'vhost', '@queues': Math.min(settings.cpuCount, maxQueues) } };
}
