/**
 * Owns: the streams of live migrations between two nodes, as the VMI loop asks for them: a process of HAProxy per VMI and side, its
 * configuration, record and control socket; the sockets in launchers' pods; certificates for them.
 * Must not know: rules, status, the Kubernetes API.
 */
export { ProxyCredentials } from './credentials.ts';
export { HaproxyProxies } from './haproxy-proxies.ts';
export { migrationAddress, migrationInterface, noMigrationAddress } from './migration-address.ts';
export { noMigrationProxy } from './no-migration-proxy.ts';
export type * from './ports.ts';
