/**
 * Owns: the server of an exporter pod: disks, file systems and manifests of a VM over HTTPS, for whoever shows the token of the export.
 * Must not know: Kubernetes' API, who runs it, why something is exported.
 */
export { ExportServer } from './export-server.ts';
export { type ExportSettings, ExportSettingsError, readExportSettings } from './settings.ts';
