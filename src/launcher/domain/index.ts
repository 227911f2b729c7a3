/**
 * Owns: VMI → libvirt domain XML (spec 72) and libvirt domain XML → Domain JSON (spec 22). Pure functions.
 * Must not know: libvirt connections, files, processes, the command server.
 *
 * `buildDomainXml(vmi, context)` throws `ConvertError`; `context.disks` and `context.kernelBoot` come from
 * `../disks/index.ts`.
 */
export { buildDomainXml } from './build.ts';
export type {
  ConverterContext,
  ConverterOptions,
  DiskCache,
  DiskFormat,
  KernelBootFiles,
  ResolvedDisk,
} from './context.ts';
export { type DomainParts, domainFromXml } from './domain-json.ts';
export { ConvertError } from './errors.ts';
export { domainUuid } from './firmware.ts';
export { chooseHypervisor } from './hypervisor.ts';
export { fileNamePart } from './names.ts';
export { parseDomainXml } from './parse.ts';
export { type LauncherPaths, launcherPaths, serialSocket, vncSocket } from './paths.ts';
export { domainStatus, nonExistent, type StatusAndReason } from './status.ts';
export { type DiskEntry, diskEntries, isHotplugged, statusOf } from './volumes.ts';
