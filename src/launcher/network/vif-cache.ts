import path from 'node:path';
import { type Cidr, errorCode, errorMessage, ipv4Bytes, isRecord, maskPrefix } from '../../base/index.ts';
import { readPlainFile } from '../../host/index.ts';
import type { Route4 } from './dhcp4/classless-routes.ts';
import { NetworkError } from './errors.ts';

/** What the agent found on the pod's device before a bridge took it over (upstream's `pkg/network/cache/dhcpconfig.go`). */
export type VifCache =
  /** The pod has no IPv4 address: the guest's own network gives it one. */
  | { readonly kind: 'no-ipam' }
  | {
      readonly kind: 'address';
      readonly address: Cidr;
      /** The client that is answered; without it any. */
      readonly mac?: string;
      readonly gateway?: string;
      readonly routes: readonly Route4[];
    };

const maxBytes = 256 * 1024;
const maxRoutes = 256;

/** Rejects with `NetworkError` NO_HANDOVER or BAD_HANDOVER. */
export async function readVifCache(privateDir: string, podInterface: string): Promise<VifCache> {
  const file = path.join(privateDir, `vif-cache-${podInterface}.json`);
  try {
    return parseVifCache(JSON.parse(await readPlainFile(file, maxBytes)));
  } catch (cause) {
    if (errorCode(cause) === 'ENOENT') {
      throw new NetworkError(
        'NO_HANDOVER',
        `${file} is missing, in which the node agent leaves the address of the bridge binding: it has not set up this network, look into its log`,
        { cause },
      );
    }
    throw new NetworkError(
      'BAD_HANDOVER',
      `${file}, which the node agent wrote, cannot be used: ${errorMessage(cause)}`,
      {
        cause,
      },
    );
  }
}

/** Go's encoding of the structure. Throws an `Error` that names what is wrong. */
export function parseVifCache(json: unknown): VifCache {
  if (!isRecord(json)) throw new Error('it is no object');
  if (json.IPAMDisabled === true) return { kind: 'no-ipam' };
  const address = cidrOf(json.IP);
  if (!address) throw new Error('IP is no IPv4 address with its mask');
  const mac = macOf(json.MAC);
  return {
    kind: 'address',
    address,
    ...(mac && { mac }),
    ...(isIpv4(json.Gateway) && { gateway: json.Gateway }),
    routes: routesOf(json.Routes),
  };
}

const isIpv4 = (value: unknown): value is string => typeof value === 'string' && ipv4Bytes(value) !== undefined;

function cidrOf(value: unknown): Cidr | undefined {
  if (!isRecord(value) || !isIpv4(value.IP) || typeof value.Mask !== 'string') return undefined;
  const mask = Buffer.from(value.Mask, 'base64');
  const prefix = mask.length === 4 ? maskPrefix(mask) : undefined;
  return prefix === undefined ? undefined : { address: value.IP, prefix };
}

function macOf(value: unknown): string | undefined {
  if (value === undefined || value === null) return undefined;
  const bytes = typeof value === 'string' ? Buffer.from(value, 'base64') : Buffer.alloc(0);
  if (bytes.length !== 6) throw new Error('MAC has not six bytes');
  return bytes.toString('hex').match(/../g)?.join(':');
}

/** A route of another family has no place in DHCPv4. */
function routesOf(value: unknown): Route4[] {
  if (value === undefined || value === null) return [];
  if (!Array.isArray(value)) throw new Error('Routes is no list');
  if (value.length > maxRoutes) throw new Error(`it has ${value.length} routes, ${maxRoutes} are possible`);
  return value.flatMap((route: unknown) => {
    if (!isRecord(route)) throw new Error('a route is no object');
    const isDefault = route.Dst === null || route.Dst === undefined;
    const destination = isDefault ? { address: '0.0.0.0', prefix: 0 } : cidrOf(route.Dst);
    if (!destination) return [];
    return [{ destination, ...(isIpv4(route.Gw) && { gateway: route.Gw }) }];
  });
}
