import { createHash } from 'node:crypto';
import { type Network, sriovAliasPrefix, type VirtualMachineInstance } from '../../api/index.ts';
import { invalid } from './errors.ts';

/** libvirt keeps aliases that start with this and hands them back. */
export const userAliasPrefix = 'ua-';

const primaryDevice = 'eth0';
const digestPrefix = 'pod';

/** libvirt allows no more in an alias; the API server's names are DNS labels, so this is only for hostile input. */
const aliasPattern = /^[A-Za-z0-9_-]+$/;

export function userAlias(field: string, name: string | undefined): { '@name': string } {
  if (!name || !aliasPattern.test(name)) {
    throw invalid(`${field}.name`, `${JSON.stringify(name)} may only have letters, digits, "-" and "_"`);
  }
  return { '@name': userAliasPrefix + name };
}

/** Of the device of an interface with `sriov`. */
export const sriovAlias = (name: string) => `${userAliasPrefix}${sriovAliasPrefix}${name}`;

/** `value` as one component of a file path; refuses what would lead elsewhere. */
export function fileNamePart(field: string, value: string | undefined): string {
  if (value && value !== '.' && value !== '..' && !/[/\0]/.test(value)) return value;
  throw invalid(field, `${JSON.stringify(value)} cannot be part of a file name`);
}

export function isPrimaryNetwork(network: Network): boolean {
  return Boolean(network.pod) || network.multus?.default === true;
}

export interface NetworkDevices {
  /** Made by the pod's network plugin; with a bridge the device that took its name. */
  readonly pod: string;
  readonly tap: string;
  readonly bridge: string;
  /** What the pod's device was renamed to when a bridge took it over. */
  readonly podNic: string;
}

/**
 * The devices of a VMI's network in the pod (`pkg/network/namescheme` and `link/names.go`). Older pods count their secondary devices
 * (`net1`); newer ones have a digest of the network's name, which is what is taken when neither is there.
 */
export function networkDevices(
  network: Network,
  vmi: VirtualMachineInstance,
  links: { has(name: string): boolean },
): NetworkDevices {
  const candidates = podDeviceNames(network, vmi);
  const pod = candidates.find((name) => links.has(name)) ?? candidates[0];
  const bare = pod.startsWith(digestPrefix) ? pod.slice(digestPrefix.length) : pod;
  return { pod, tap: tapName(network, pod), bridge: `k6t-${bare}`, podNic: `${bare}-nic` };
}

function podDeviceNames(network: Network, vmi: VirtualMachineInstance): readonly [string, ...string[]] {
  if (isPrimaryNetwork(network)) {
    const status = vmi.status?.interfaces?.find(({ name }) => name === network.name);
    return [status?.podInterfaceName || primaryDevice, primaryDevice];
  }
  const secondary = (vmi.spec.networks ?? []).filter((each) => !isPrimaryNetwork(each));
  const position = secondary.findIndex(({ name }) => name === network.name) + 1;
  return [digestName(network.name), `net${position}`];
}

function digestName(networkName: string): string {
  return `${digestPrefix}${createHash('sha256').update(networkName).digest('hex').slice(0, 11)}`;
}

function tapName(network: Network, pod: string): string {
  return isPrimaryNetwork(network) ? 'tap0' : `tap${pod.slice(digestPrefix.length)}`;
}

/** The tap of a secondary network whose name is a digest: only such devices can be unplugged. */
export function digestTapName(network: Network): string {
  return tapName(network, digestName(network.name));
}
