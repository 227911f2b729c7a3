/**
 * Owns: how a launcher gives the disks of a backup to an exporter: the calls of `kubevirt.nbd.NBD` (pkg/storage/cbt/nbd/v1/nbd.proto), as gRPC on
 * HTTP/2, within a stream that the launcher opens by CONNECT and the exporter asks on.
 * Must not know: backups, where disks are, who reads them, certificates.
 */
export { TunnelError } from './errors.ts';
export { askStreaming, openTunnel } from './exporter-side.ts';
export { keepAlive } from './keep-alive.ts';
export { serveTunnel, type TunnelHandlers } from './launcher-side.ts';
export { type Extent, mapCall, readCall } from './messages.ts';
export { tunnelSettings } from './settings.ts';
