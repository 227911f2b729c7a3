/**
 * Owns: a request's VMI and its checks, VMI → libvirt domain XML, libvirt domain XML → Domain JSON. Pure functions.
 * Must not know: libvirt connections, files, processes, the command server.
 *
 * `buildDomainXml(vmi, context)` throws `ConvertError`; `context.disks` and `context.kernelBoot` come from
 * `../disks/index.ts`.
 */
export {
  type AccessCredential,
  accessCredentialsOf,
  type CloudInitKind,
  credentialDirName,
} from './access-credentials.ts';
export { acpiTables } from './acpi-tables.ts';
export { buildDomainXml } from './build.ts';
export {
  claimedDevice,
  claimRequests,
  deviceMetadataSuffix,
  metadataDirOf,
} from './claimed-devices.ts';
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
export { domainUuid, loaderIn } from './firmware.ts';
export { type ClaimedDevices, type ClaimRequest, claimKey } from './given-devices.ts';
export { ignitionOf } from './ignition.ts';
export { interfaceXml } from './interfaces.ts';
export type { InterfaceContext } from './interfaces-binding.ts';
export { type DeviceChange, interfaceChanges, relinkedInterfaces } from './interfaces-change.ts';
export type { SriovContext } from './interfaces-sriov.ts';
export { launchSecurityKind, launchSecurityNeeds } from './launch-security.ts';
export { wantedCpus } from './live-cpus.ts';
export { driveWithMedium, type LiveDisk, type LiveDomain, liveDiskXml, readLiveDomain } from './live-disks.ts';
export { memoryChange } from './live-memory.ts';
export { machineTypesIn } from './machine-types.ts';
export { type DomainOwner, movedDomainXml } from './moved-domain.ts';
export { fileNamePart, type NetworkDevices, networkDevices, sriovAlias } from './names.ts';
export { networkPciAddresses } from './network-info.ts';
export { parseDomainXml } from './parse.ts';
export { isTrackingRecord, type LauncherPaths, launcherPaths, serialSocket, vncSocket } from './paths.ts';
export { pluggedDiskXml, type WantedDisk, wantedDisks } from './plugged-disks.ts';
export { lackedSriovDevices } from './sriov-change.ts';
export { domainStatus, nonExistent, type StatusAndReason } from './status.ts';
export { decodeVmi, readStandaloneVmi, type VmiIdentity } from './vmi-json.ts';
export { shapedVmi } from './vmi-shape.ts';
export { type DiskEntry, diskEntries, isHotplugged, statusOf } from './volumes.ts';
export { renderXml, type XmlContent } from './xml.ts';
