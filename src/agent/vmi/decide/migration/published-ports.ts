import { isIP } from 'node:net';
import type { MigrationState } from '../../../../api/index.ts';
import { isRecord } from '../../../../base/index.ts';
import { type ProxyPorts, type ProxyRole, proxyRoles } from '../../../migration-proxy/ports.ts';

/** What the target node has published of its listeners (pkg/virt-handler/migration-proxy). */
export type PublishedPorts =
  | { readonly kind: 'none' }
  | { readonly kind: 'ready'; readonly address: string; readonly ports: ProxyPorts }
  /** Another node wrote what no client can connect to. */
  | { readonly kind: 'unusable'; readonly why: string };

const roles: readonly number[] = Object.values(proxyRoles);

export function publishedPorts(state: MigrationState): PublishedPorts {
  const { targetNodeAddress: address, targetDirectMigrationNodePorts: given } = state;
  if (!address || !isRecord(given) || Object.keys(given).length === 0) return { kind: 'none' };
  if (typeof address !== 'string' || isIP(address) === 0) {
    return { kind: 'unusable', why: `the target node's address ${JSON.stringify(address)} is no IP address` };
  }
  const ports = Object.entries(given).filter((entry): entry is [string, ProxyRole] => isPort(entry));
  const [libvirt, direct, block] = roles.map((role) => ports.filter(([, each]) => each === role).length);
  const isWhole = ports.length === Object.keys(given).length && libvirt === 1 && direct === 1 && (block ?? 0) <= 1;
  if (isWhole) return { kind: 'ready', address, ports: Object.fromEntries(ports) };
  const text = JSON.stringify(given);
  return { kind: 'unusable', why: `the target node's ports ${text.slice(0, 200)} are not one for each kind of stream` };
}

function isPort([port, role]: [string, unknown]): boolean {
  return /^[1-9]\d{0,4}$/.test(port) && Number(port) <= 65_535 && typeof role === 'number' && roles.includes(role);
}
