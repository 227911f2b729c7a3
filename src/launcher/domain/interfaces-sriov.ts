import {
  type Interface,
  type Network,
  sriovAliasPrefix,
  sriovInterfaces,
  type VirtualMachineInstance,
} from '../../api/index.ts';
import { ConvertError, invalid } from './errors.ts';
import { type ClaimedDevices, claimedIn, type GivenDevice } from './given-devices.ts';
import { userAlias } from './names.ts';
import { networkInfoFile } from './network-info.ts';
import { isPciAddress, passedThrough, pciAddress } from './pci.ts';
import type { XmlContent } from './xml.ts';

/** Which devices of the machine the pod has. */
export interface SriovContext {
  /** PCI address by network. */
  readonly networkAddresses?: ReadonlyMap<string, string>;
  readonly claimedDevices?: ClaimedDevices;
}

export interface SriovDevice extends GivenDevice {
  readonly field: string;
  readonly iface: Interface;
}

/**
 * Network devices of the machine, virtual functions of a card mostly, that the guest gets as they are (upstream: `hostdevice/sriov`). Their MAC
 * address is set by the CNI plug-in, or by the driver of their claim. Throws `ConvertError` MISSING_DEVICE, BAD_DEVICE.
 */
export function sriovDevices(
  vmi: VirtualMachineInstance,
  context: SriovContext,
  interfaces: readonly Interface[] = sriovInterfaces(vmi),
): SriovDevice[] {
  return interfaces.map((iface) => {
    return { iface, field: fieldOf(iface), kind: 'pci', addresses: [addressOf(vmi, iface, context)] };
  });
}

const fieldOf = ({ name }: Interface) => `spec.domain.devices.interfaces[${name}]`;

function addressOf(vmi: VirtualMachineInstance, iface: Interface, context: SriovContext): string {
  const claim = vmi.spec.networks?.find(({ name }) => name === iface.name)?.resourceClaim;
  return claim ? ofClaim(iface, claim, context) : ofNetwork(iface, context);
}

function ofNetwork(iface: Interface, { networkAddresses }: SriovContext): string {
  const field = fieldOf(iface);
  const address = networkAddresses?.get(iface.name);
  if (address === undefined) {
    const problem = `${networkInfoFile} of the pod has no PCI device for this network yet`;
    const advice =
      'the NetworkAttachmentDefinition must name a resource of an SR-IOV device plug-in, and Multus must run';
    throw new ConvertError('MISSING_DEVICE', `${field}: ${problem}: ${advice}`);
  }
  if (isPciAddress(address)) return address;
  const problem = `the network plug-in gave ${JSON.stringify(address.slice(0, 64))}, which is no PCI address`;
  throw new ConvertError('BAD_DEVICE', `${field}: ${problem}: look at that plug-in`);
}

function ofClaim(
  iface: Interface,
  { claimName = '', requestName = '' }: NonNullable<Network['resourceClaim']>,
  { claimedDevices }: SriovContext,
): string {
  const field = fieldOf(iface);
  const { kind, addresses } = claimedIn(claimedDevices, { field, claimName, requestName });
  const [address] = kind === 'pci' ? addresses : [];
  if (address !== undefined) return address;
  const problem = `the request ${requestName} of the claim ${claimName} gave no PCI device`;
  throw new ConvertError('BAD_DEVICE', `${field}: ${problem}: let it ask for a virtual function of a card`);
}

/** Throws `ConvertError` INVALID_FIELD. */
export function sriovElements({ iface, field, addresses }: SriovDevice): XmlContent[] {
  refuseLost(iface, field);
  return addresses.map((address) => ({
    ...passedThrough(field, address),
    ...(iface.bootOrder && { boot: { '@order': iface.bootOrder } }),
    alias: userAlias(field, `${sriovAliasPrefix}${iface.name}`),
    ...(iface.pciAddress && { address: pciAddress(`${field}.pciAddress`, iface.pciAddress) }),
  }));
}

/** The guest drives the device itself: what QEMU would do to it is not done. */
function refuseLost({ state, acpiIndex }: Interface, field: string): void {
  if (state === 'down') throw invalid(`${field}.state`, 'down is not possible with sriov: remove it');
  if (acpiIndex) throw invalid(`${field}.acpiIndex`, 'is not possible with sriov: remove it');
}
