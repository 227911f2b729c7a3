/**
 * Owns: kubelet's part for launcher pods: what is done about a pod (observe, decide, execute, project), sandboxes, volumes, images,
 * the files of the host that pods have, and what of a pod is on disk.
 * Must not know: programs of the node, its supervisor and its commands, what a launcher does inside its sandbox.
 */
export { accountFiles, qemuUser } from './accounts.ts';
export { ClaimDirectories, type ClaimParts } from './claims.ts';
export * from './decide.ts';
export { HostDisks } from './host-disks.ts';
export { putImageDisk } from './image-disk.ts';
export * from './images.ts';
export * from './kube-pods.ts';
export type { PodObservation } from './observe.ts';
export { pageImages } from './page-images.ts';
export * from './pod-log.ts';
export type { ProbeState } from './pod-probes.ts';
export * from './pod-runner.ts';
export { mountsBelow, shareMounts, unshareMounts } from './pods-mount.ts';
export * from './project.ts';
export * from './sandbox.ts';
export { endCommand } from './sandbox-exec.ts';
export type * from './sandbox-plan.ts';
export * from './sandbox-script.ts';
export { readSandboxTimes, type SandboxTimes } from './sandbox-times.ts';
export { shellQuote } from './shell-quote.ts';
export { virtTail } from './virt-tail.ts';
export { prepareVolumes } from './volumes.ts';
