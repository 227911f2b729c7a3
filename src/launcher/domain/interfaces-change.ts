import { isReportedByMultus, type Network, type VirtualMachineInstance } from '../../api/index.ts';
import type { ConverterOptions } from './context.ts';
import { isWithoutTap } from './interfaces-binding.ts';
import { digestTapName, userAliasPrefix } from './names.ts';
import { child, childrenOf, contentOf, parseXml, renderXml, type XmlNode } from './xml.ts';

/** What a running domain's network devices lack of the VMI (upstream's `virtwrap/network/nichotplug.go`). */
export interface InterfaceChanges {
  /** Interfaces that the domain has already. */
  readonly present: readonly string[];
  readonly plug: readonly string[];
  readonly unplug: readonly DeviceChange[];
  /** With the state of the link that they are to have. */
  readonly relink: readonly DeviceChange[];
}

export interface DeviceChange {
  readonly name: string;
  /** The device's document, from which libvirt finds it. */
  readonly xml: string;
}

/** Pure. `xml` is libvirt's live document of the domain. */
export function interfaceChanges(
  vmi: VirtualMachineInstance,
  xml: string,
  options: ConverterOptions = {},
): InterfaceChanges {
  const devices = devicesByName(xml);
  return {
    present: [...devices.keys()],
    plug: namesToPlug(vmi, options).filter((name) => !devices.has(name)),
    unplug: namesToUnplug(vmi, devices).map((name) => changeOf(devices, name, (device) => device)),
    relink: wantedLinks(vmi)
      .filter(([name, isDown]) => devices.has(name) && isLinkDown(devices.get(name)) !== isDown)
      .map(([name, isDown]) => changeOf(devices, name, (device) => withLink(device, isDown))),
  };
}

/** Of the interfaces with these names: the device as it is, and with its link down. */
export function relinkedInterfaces(xml: string, names: readonly string[]): { up: string; down: string }[] {
  const devices = devicesByName(xml);
  return names
    .filter((name) => devices.has(name))
    .map((name) => ({
      up: changeOf(devices, name, (device) => device).xml,
      down: changeOf(devices, name, (device) => withLink(device, true)).xml,
    }));
}

function devicesByName(xml: string): Map<string, XmlNode> {
  const devices = child(parseXml(xml, 'domain'), 'devices');
  const nodes = devices ? childrenOf(devices, 'interface') : [];
  return new Map(
    nodes.flatMap((node) => {
      const alias = child(node, 'alias')?.attributes.name ?? '';
      return alias.startsWith(userAliasPrefix) ? [[alias.slice(userAliasPrefix.length), node] as const] : [];
    }),
  );
}

const interfacesOf = (vmi: VirtualMachineInstance) => vmi.spec.domain.devices?.interfaces ?? [];

/** The pod has their device: Multus says so, and the agent has set it up. What a sidecar wrote has any name in the domain, or none. */
function namesToPlug(vmi: VirtualMachineInstance, options: ConverterOptions): string[] {
  const arrived = (vmi.status?.interfaces ?? []).filter(isReportedByMultus);
  return interfacesOf(vmi)
    .filter((iface) => iface.state !== 'absent' && !iface.sriov && !isWithoutTap(iface, options))
    .map(({ name }) => name)
    .filter((name) => arrived.some((status) => status.name === name));
}

/** Devices with the counted names of older pods stay: which network such a name belongs to changes with the list. */
function namesToUnplug(vmi: VirtualMachineInstance, devices: ReadonlyMap<string, XmlNode>): string[] {
  const networks = new Map((vmi.spec.networks ?? []).map((network): [string, Network] => [network.name, network]));
  return interfacesOf(vmi)
    .filter(({ state }) => state === 'absent')
    .map(({ name }) => name)
    .filter((name) => {
      const device = devices.get(name);
      const network = networks.get(name);
      const tap = device && child(device, 'target')?.attributes.dev;
      return network !== undefined && tap === digestTapName(network);
    });
}

function wantedLinks(vmi: VirtualMachineInstance): [name: string, isDown: boolean][] {
  return interfacesOf(vmi)
    .filter(({ state }) => state !== 'absent')
    .map(({ name, state }) => [name, state === 'down']);
}

function isLinkDown(device: XmlNode | undefined): boolean {
  return (device && child(device, 'link')?.attributes.state) === 'down';
}

function withLink(device: XmlNode, isDown: boolean): XmlNode {
  const others = device.children.filter(({ name }) => name !== 'link');
  const link: XmlNode = { name: 'link', attributes: { state: 'down' }, text: '', children: [] };
  return { ...device, children: isDown ? [...others, link] : others };
}

function changeOf(
  devices: ReadonlyMap<string, XmlNode>,
  name: string,
  change: (device: XmlNode) => XmlNode,
): DeviceChange {
  const device = devices.get(name) ?? { name: 'interface', attributes: {}, text: '', children: [] };
  return { name, xml: renderXml('interface', contentOf(change(device))) };
}

/** What was read, to be written again. */
