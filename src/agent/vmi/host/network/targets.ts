import type { Domain, Interface, Network, VirtualMachineInstance } from '../../../../api/index.ts';
import { HostError } from '../errors.ts';
import { hasSource } from './queues.ts';

/** An interface with its network. */
export interface Target {
  readonly iface: Interface;
  readonly network: Network;
  /** Among all interfaces of the VMI. */
  readonly position: number;
}

export interface Targets {
  readonly wanted: readonly Target[];
  readonly unplugged: readonly Target[];
}

const isAbsent = ({ iface }: Target) => iface.state === 'absent';

/** Which interfaces are looked at (pkg/network/setup/filters.go). Throws HostError CRITICAL_NETWORK for what cannot be told apart. */
export function targetsOf(
  vmi: VirtualMachineInstance,
  purpose: 'start' | 'incoming' | 'running',
  domain?: Domain,
): Targets {
  const all = allTargets(vmi).filter(({ iface }) => !iface.sriov);
  if (purpose !== 'running') return { wanted: all.filter((target) => !isAbsent(target)), unplugged: [] };
  const sourceOf = ({ iface }: Target) => vmi.status?.interfaces?.find(({ name }) => name === iface.name)?.infoSource;
  const isReported = (target: Target) => hasSource(sourceOf(target), 'domain');
  return {
    wanted: all.filter(
      (target) => !isAbsent(target) && hasSource(sourceOf(target), 'multus-status') && !isReported(target),
    ),
    // Its entry may be gone before its links are: what was set up is known from the files of the networks.
    unplugged: all.filter((target) => isAbsent(target) && !isReported(target) && !isInDomain(target, domain)),
  };
}

function isInDomain({ iface }: Target, domain: Domain | undefined): boolean {
  return domain?.Spec?.Devices?.Interfaces?.some(({ Alias: alias }) => alias?.Name === iface.name) ?? false;
}

export function allTargets({ spec }: VirtualMachineInstance): Target[] {
  const interfaces = spec.domain.devices?.interfaces ?? [];
  refuseDoubles('interfaces', interfaces);
  refuseDoubles('networks', spec.networks ?? []);
  return (spec.networks ?? []).map((network) => {
    const position = interfaces.findIndex(({ name }) => name === network.name);
    const iface = interfaces[position];
    if (iface) return { iface, network, position };
    throw new HostError(
      'CRITICAL_NETWORK',
      `no iface matching with network ${network.name}: add one or remove the network`,
    );
  });
}

function refuseDoubles(what: string, list: readonly { readonly name: string }[]): void {
  const double = list.find(({ name }, at) => list.findIndex((other) => other.name === name) !== at);
  if (double) throw new HostError('CRITICAL_NETWORK', `two ${what} are called ${double.name}: rename one of them`);
}
