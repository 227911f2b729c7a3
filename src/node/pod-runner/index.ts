/** kubelet's part for launcher pods: sandboxes, volumes, images, pod status. */
export * from './images.ts';
export * from './sandbox.ts';
export * from './sandbox-script.ts';
