/**
 * Owns: a VirtualMachineExport: whether its source is free, its exporter pod with service, token, certificate and manifests, where clients find them.
 * Must not know: how a pod serves what it has, how snapshots are taken.
 */
export { ExportController } from './controller.ts';
export { exportRules } from './decide.ts';
