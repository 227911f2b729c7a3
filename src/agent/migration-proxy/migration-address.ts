import { BlockList } from 'node:net';
import type { NetworkInterfaceInfo, networkInterfaces } from 'node:os';

/** Of a network that is for migrations only: `migrations.network` of the KubeVirt object, by Multus. */
export const migrationInterface = 'migration0';

/** What reaches no other node. */
const notGlobal = new BlockList();
notGlobal.addSubnet('127.0.0.0', 8, 'ipv4');
notGlobal.addSubnet('169.254.0.0', 16, 'ipv4');
notGlobal.addSubnet('224.0.0.0', 4, 'ipv4');
notGlobal.addAddress('::1', 'ipv6');
notGlobal.addSubnet('fe80::', 10, 'ipv6');
notGlobal.addSubnet('ff00::', 8, 'ipv6');

export const noMigrationAddress = `${migrationInterface} of this node agent's pod has no address that other nodes could reach`;

/**
 * Under which other nodes reach this one's listeners: an address of `migration0`, or that of the pod where there is no such interface.
 * Undefined: the interface has none. Migrations must not go over the network then that they are to be kept from. `isThere`: the interface is;
 * Node.js lists none without an address.
 */
export function migrationAddress(
  interfaces: ReturnType<typeof networkInterfaces>,
  isThere: boolean,
  podIp: string,
): string | undefined {
  const addresses = interfaces[migrationInterface] ?? (isThere ? [] : undefined);
  return addresses ? addresses.find(isGlobal)?.address : podIp;
}

const isGlobal = ({ address, family }: NetworkInterfaceInfo) =>
  !notGlobal.check(address, family === 'IPv6' ? 'ipv6' : 'ipv4');
