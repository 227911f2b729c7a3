import { createHash } from 'node:crypto';
import type { Network } from '../../api/index.ts';
import { invalid } from './errors.ts';

/** libvirt keeps aliases that start with this and hands them back . */
export const userAliasPrefix = 'ua-';

/** libvirt allows no more in an alias; the API server's names are DNS labels, so this is only for hostile input. */
const aliasPattern = /^[A-Za-z0-9_-]+$/;

export function userAlias(field: string, name: string | undefined): { '@name': string } {
  if (!name || !aliasPattern.test(name)) {
    throw invalid(`${field}.name`, `${JSON.stringify(name)} may only have letters, digits, "-" and "_"`);
  }
  return { '@name': userAliasPrefix + name };
}

/** `value` as one component of a file path; refuses what would lead elsewhere. */
export function fileNamePart(field: string, value: string | undefined): string {
  if (value && value !== '.' && value !== '..' && !/[/\0]/.test(value)) return value;
  throw invalid(field, `${JSON.stringify(value)} cannot be part of a file name`);
}

export function isPrimaryNetwork(network: Network): boolean {
  return Boolean(network.pod) || network.multus?.default === true;
}

/** The pod's network device of a VMI network (`pkg/network/namescheme`). */
export function podInterfaceName(network: Network): string {
  if (isPrimaryNetwork(network)) return 'eth0';
  return `pod${createHash('sha256').update(network.name).digest('hex').slice(0, 11)}`;
}

/** The tap device the agent made beside it; older pods have `net1`, `net2`... */
export function tapName(podInterface: string): string {
  return podInterface === 'eth0' ? 'tap0' : `tap${podInterface.slice(3)}`;
}
