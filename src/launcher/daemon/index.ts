/**
 * Owns: the pod as libvirt and QEMU need it (directories, users, configuration), the libvirt daemon of the pod, kept running, and the
 * connection to it.
 * Must not know: VMIs, what the domain is started or ended for, the agent.
 */
export type { LibvirtHypervisor } from './libvirt-hypervisor.ts';
export { findQemuUser, makePodDirectories, ownSerialLog, type QemuUser, requireOwnPod, serialLogOf } from './pod.ts';
export { type PodPaths, podPaths } from './pod-paths.ts';
export { type CleanUp, connectLibvirt, startDaemon } from './start-libvirt.ts';
