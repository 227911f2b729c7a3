/**
 * Owns: images of container disks and kernel boot that come by side containers: waiting for them, mounting them into the
 * launcher, upstream's record of it, unmounting.
 * Must not know: images that the kubelet mounts as volumes.
 */
export { type ContainerDiskDeps, type ContainerDiskOptions, containerDisks } from './container-disks.ts';
