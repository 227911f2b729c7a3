/**
 * Owns: the streams of live migrations between two nodes, as the VMI loop asks for them: a process of HAProxy per VMI and side, its
 * configuration, record and control socket; the sockets in launchers' pods; certificates for them; the relay that keeps those processes in a pod of its own, and
 * what it and the agent say to each other.
 * Must not know: rules, status, the Kubernetes API.
 */

export { AgentProxies } from './agent-proxies.ts';
export { ProxyCredentials } from './credentials.ts';
export { HaproxyProxies } from './haproxy-proxies.ts';
export { migrationAddress, migrationInterface, noMigrationAddress } from './migration-address.ts';
export { noMigrationProxy } from './no-migration-proxy.ts';
export type * from './ports.ts';
export type { ProxyKeeper } from './proxy-keeper.ts';
export { makeRelay, parseRelayOptions, type RelayOptions, relayDirectory, relayUsage } from './relay-options.ts';
export { RelayedProxies } from './relayed-proxies.ts';
