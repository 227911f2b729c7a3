/**
 * Owns: probes and facts of this machine: does KVM really run guests, EFI firmware files, network devices of this network
 * namespace with their addresses, CPUs that a process may use, UDP sockets on one of them, paths without following links, plain files read, replaced as a whole, kept as
 * records or watched, logs kept from growing and when they grew, files in memory, the process behind a Unix socket, descriptors that were inherited, network namespaces of other processes, terminals, mounts in the
 * machine's namespace, threads for storage that may not answer, device rules of cgroups.
 * Must not know: KubeVirt, Kubernetes, VMIs, who asks.
 */

export { architectures, machineArchitecture } from './architecture.ts';
export {
  type BlockDevice,
  CgroupError,
  type CgroupOptions,
  cpusetCgroupOf,
  type DeviceCgroup,
  deviceCgroupOf,
  keepHouse,
  type StandardRule,
  setBlockDevices,
} from './cgroups/index.ts';
export { containerLabeller, hasSelinux, type LabelForContainers } from './container-label.ts';
export { cpuSetOf } from './cpu-set.ts';
export { type DeviceAddress, readDeviceAddresses } from './device-addresses.ts';
export { deviceNodeMaker, deviceNumbersOf } from './device-nodes.ts';
export { type DeviceSocketOptions, openDeviceSocket } from './device-socket.ts';
export { type EfiFirmware, type EfiPair, findEfiFirmware } from './efi.ts';
export { environmentValue } from './environment.ts';
export { findSystemProgram, isExecutable } from './executable.ts';
export { readFirstLine } from './first-line.ts';
export { connectGuestSocket, GuestSocketError, oneElement, qemuId } from './guest-sockets.ts';
export { closeInheritedDescriptors } from './inherited-descriptors.ts';
export { type KernelFigures, readKernelFigures } from './kernel-figures.ts';
export { type KvmProbeResult, probeKvm } from './kvm-probe.ts';
export { hasNetworkLink, type NetworkLink, readNetworkLinks } from './links.ts';
export { LogKeeper, parseLogStart, rotateLog } from './log-keeper.ts';
export { type LogTime, readLogTimes, timeAt } from './log-times.ts';
export { loadMemoryFiles } from './memory-file.ts';
export { type HostMounts, KernelMounts } from './mounts/index.ts';
export {
  linkNamesIn,
  readNetworkSetting,
  runInNamespace,
  writeNetworkSetting,
} from './namespace-program.ts';
export { type NamespaceOwner, NetNamespace } from './net-namespace.ts';
export type { NewFile } from './new-file.ts';
export { entryIdentity, PathWatch } from './path-watch.ts';
export {
  type AgeFacts,
  cgroupsOf,
  clockStepMs,
  isProcessAlive,
  isYoungerThan,
  listenerOf,
  type Peer,
  type ProcessId,
  peerOf,
  preparePeers,
  processIdOf,
  type ReportedPeer,
  startedMs,
} from './peer.ts';
export { lastBytes, openPlainFile, PlainFileError, readPlainFile, readPlainFileSync, readText } from './plain-file.ts';
export { PresenceSocket } from './presence-socket.ts';
export { hasEnded, type ProcessStat, parseProcessStat, readProcessStat } from './process-stat.ts';
export { userOf } from './process-table.ts';
export { openPty } from './pty.ts';
export { findDaemon, findPitThread, findQemu, isVcpu, vcpuThreads } from './qemu-processes.ts';
export { type RecordFiles, recordDirectory, type SharedRecordFiles } from './record-files.ts';
export { draftFile, type FileDraft, replaceFile, replaceFileSync, syncDirectory, syncTree } from './replace-file.ts';
export { openBelow, openInRoot, openNoFollow, openTrusted, SafePath, SafePathError } from './safe-path.ts';
export { loadScheduling, type Scheduling, SchedulingError } from './scheduling.ts';
export { isPlainFile, isSameFile, Storage, StorageError, type StorageUser } from './storage.ts';
export { xattrReader, xattrWriter } from './xattr.ts';
