import type { Interface, VirtualMachineInstance } from '../../api/index.ts';
import { ConvertError, invalid, unsupported } from './errors.ts';
import { userAlias } from './names.ts';
import { networkInfoFile } from './network-info.ts';
import { isPciAddress, passedThrough, pciAddress } from './pci.ts';
import type { XmlContent } from './xml.ts';

/** With it begin the names of passed-through network devices in the domain: the agent looks for it. */
const sriovAliasPrefix = 'sriov-';

/** PCI address by network. */
interface SriovContext {
  readonly networkAddresses?: ReadonlyMap<string, string>;
}

/**
 * Network devices of the machine, virtual functions of a card mostly, that the guest gets as they are (upstream: `hostdevice/sriov`). Their MAC
 * address is set by the CNI plug-in. Throws `ConvertError` MISSING_DEVICE, BAD_DEVICE, INVALID_FIELD.
 */
export function sriovElements(vmi: VirtualMachineInstance, context: SriovContext): XmlContent[] {
  const interfaces = sriovInterfaces(vmi);
  const elements = interfaces.map((iface) => sriovElement(vmi, iface, context));
  const shared = interfaces.find(
    ({ name }, index) =>
      interfaces.findIndex((other) => addressOf(context, other.name) === addressOf(context, name)) !== index,
  );
  if (!shared) return elements;
  const problem = `the network plug-ins gave ${addressOf(context, shared.name)} to two networks of the pod`;
  throw new ConvertError('BAD_DEVICE', `${fieldOf(shared)}: ${problem}: look at their configuration`);
}

export function sriovInterfaces({ spec }: VirtualMachineInstance): Interface[] {
  return (spec.domain.devices?.interfaces ?? []).filter(({ sriov, state }) => sriov && state !== 'absent');
}

const fieldOf = ({ name }: Interface) => `spec.domain.devices.interfaces[${name}]`;
const addressOf = ({ networkAddresses }: SriovContext, name: string) => networkAddresses?.get(name)?.toLowerCase();

function sriovElement(vmi: VirtualMachineInstance, iface: Interface, context: SriovContext): XmlContent {
  const field = fieldOf(iface);
  refuseLost(vmi, iface, field);
  const address = addressOf(context, iface.name);
  if (address === undefined) {
    const problem = `${networkInfoFile} of the pod has no PCI device for this network yet`;
    const advice =
      'the NetworkAttachmentDefinition must name a resource of an SR-IOV device plug-in, and Multus must run';
    throw new ConvertError('MISSING_DEVICE', `${field}: ${problem}: ${advice}`);
  }
  if (!isPciAddress(address)) {
    const problem = `the network plug-in gave ${JSON.stringify(address.slice(0, 64))}, which is no PCI address`;
    throw new ConvertError('BAD_DEVICE', `${field}: ${problem}: look at that plug-in`);
  }
  return {
    ...passedThrough(field, address),
    ...(iface.bootOrder && { boot: { '@order': iface.bootOrder } }),
    alias: userAlias(field, `${sriovAliasPrefix}${iface.name}`),
    ...(iface.pciAddress && { address: pciAddress(`${field}.pciAddress`, iface.pciAddress) }),
  };
}

/** The guest drives the device itself: what QEMU would do to it is not done. */
function refuseLost({ spec }: VirtualMachineInstance, { name, state, acpiIndex }: Interface, field: string): void {
  const network = spec.networks?.find((each) => each.name === name);
  if (network?.resourceClaim) {
    throw unsupported(`spec.networks[${name}].resourceClaim`, 'use multus with a resource of a device plug-in');
  }
  if (state === 'down') throw invalid(`${field}.state`, 'down is not possible with sriov: remove it');
  if (acpiIndex) throw invalid(`${field}.acpiIndex`, 'is not possible with sriov: remove it');
}
