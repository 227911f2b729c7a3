import {
  type Interface,
  isBeingDeleted,
  isSecondaryNetwork,
  type Network,
  type VirtualMachine,
  type VirtualMachineInstance,
} from '../../api/index.ts';
import { sameJson } from '../../base/index.ts';
import { listed, named } from './by-name.ts';

/** Interfaces and networks that a VMI shall have. */
export interface PluggedInterfaces {
  readonly interfaces: readonly Interface[];
  readonly networks: readonly Network[];
}

/**
 * What a VM's template says of its interfaces, applied to its running VMI (upstream: pkg/network/controllers/vm.go). Undefined: the VMI is as it shall
 * be. One is plugged in when it is new and takes a link of its own in the pod; it is unplugged by its state, and leaves the VMI when nothing of it is
 * reported any more.
 */
export function pluggedInterfaces(
  vm: VirtualMachine,
  vmi: VirtualMachineInstance | undefined,
): PluggedInterfaces | undefined {
  if (vmi?.status?.phase !== 'Running' || isBeingDeleted(vmi)) return undefined;
  const template = vm.spec.template?.spec;
  const old = { interfaces: listed(vmi.spec.domain?.devices?.interfaces), networks: listed(vmi.spec.networks) };
  const wanted = { interfaces: listed(template?.domain?.devices?.interfaces), networks: listed(template?.networks) };
  const interfaces = old.interfaces.flatMap((iface) => kept(iface, wanted.interfaces, vmi));
  const added = newInterfaces(old.interfaces, wanted);
  const left = old.interfaces.filter(({ name }) => !named(interfaces, name));
  const after = {
    interfaces: [...interfaces, ...added.map(({ iface }) => iface)],
    networks: [
      ...old.networks.filter(({ name }) => !named(left, name)),
      ...added.flatMap(({ network }) => (named(old.networks, network.name) ? [] : [network])),
    ],
  };
  return sameJson(after, old) ? undefined : after;
}

/** With the state that the template gives it. One that is on its way out does not come back. */
function kept(iface: Interface, wanted: readonly Interface[], vmi: VirtualMachineInstance): Interface[] {
  const want = named(wanted, iface.name);
  if (iface.state === 'absent') {
    const isReported = vmi.status?.interfaces?.some(({ name }) => name === iface.name);
    return isReported ? [iface] : [];
  }
  if (!want || want.state === iface.state || (want.state === 'absent' && hasNumberedLinks(vmi))) return [iface];
  const { state: _, ...others } = iface;
  return [{ ...others, ...(want.state !== undefined && { state: want.state }) }];
}

function newInterfaces(old: readonly Interface[], wanted: PluggedInterfaces) {
  return wanted.interfaces.flatMap((iface) => {
    const network = named(wanted.networks, iface.name);
    const isPluggable = iface.state !== 'absent' && Boolean(iface.bridge || iface.sriov);
    return network && isPluggable && !named(old, iface.name) ? [{ iface, network }] : [];
  });
}

/** Which network a numbered link of an old pod belongs to changes with the list: none of them is unplugged. Neither is one whose link is not known. */
function hasNumberedLinks({ spec, status }: VirtualMachineInstance): boolean {
  const secondary = (spec.networks ?? []).filter(isSecondaryNetwork);
  const links = secondary.map(({ name }) => status?.interfaces?.find((one) => one.name === name)?.podInterfaceName);
  const first = links.find(Boolean);
  return secondary.length > 0 && (first === undefined || /^net\d+$/.test(first));
}
