/** kubelet's part for launcher pods: sandboxes, volumes, images, pod status. */
export { accountFiles, qemuUser } from './accounts.ts';
export * from './decide.ts';
export { HostDisks } from './host-disks.ts';
export * from './images.ts';
export * from './kube-pods.ts';
export * from './pod-runner.ts';
export * from './sandbox.ts';
export * from './sandbox-script.ts';
export { shellQuote } from './shell-quote.ts';
export * from './status.ts';
export { prepareVolumes } from './volumes.ts';
