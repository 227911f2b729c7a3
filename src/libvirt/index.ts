/**
 * Owns: libvirt's RPC protocol over a Unix socket (remote_protocol.x of libvirt): packets, XDR, calls, errors, events, streams, keepalive,
 * reconnecting. Bytes from the daemon are bounded and checked; nothing here starts or configures a daemon.
 * Must not know: KubeVirt, Kubernetes, the launcher, what a domain is for.
 */
export type { DomainCapabilitiesQuery, LibvirtCallOptions, NodeInfo } from './calls/connection-calls.ts';
export type { BlockInfo, DiskErrorInfo } from './calls/device-calls.ts';
export type { DomainInfo, DomainStateInfo, DomainStatsRecord, JobStats } from './calls/domain-calls.ts';
export type { GuestFileSystem, GuestInterface, SendKeyOptions } from './calls/guest-calls.ts';
export { LibvirtCalls, type Screenshot, type SubscribeOptions } from './calls/libvirt-calls.ts';
export type { MigrationTarget } from './calls/migration-calls.ts';
export { driverUri, LibvirtClient, type LibvirtClientDeps, type LibvirtConnectOptions } from './client.ts';
export { LibvirtConnector, type LibvirtConnectorDeps, type LibvirtConnectorOptions } from './connector.ts';
export * from './constants.ts';
export type { DomainRef } from './domain.ts';
export {
  type ClientErrorCode,
  formatLibvirtError,
  isLibvirtError,
  LibvirtError,
  type LibvirtErrorCode,
  type LibvirtErrorFields,
} from './error.ts';
export type { EventCallback, EventKind, LibvirtEvent } from './events.ts';
export type { KeepaliveOptions } from './keepalive.ts';
export type { RpcLimits } from './rpc-connection.ts';
export type { RpcStream } from './stream.ts';
export type { TypedParam, TypedParams, TypedValue } from './typed-params.ts';
