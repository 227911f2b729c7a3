/**
 * Owns: what the agent prepares inside a launcher's container before its guest starts and while it runs: devices, disk images, mounts, its pod's network, limits and CPUs of its processes; in `work` the contract
 * that such hooks keep.
 * Must not know: VMI rules, the API server, launchers' calls.
 */
import { type ContainerDiskDeps, type ContainerDiskOptions, containerDisks } from './container-disks/index.ts';
import { type DeviceOwnershipOptions, deviceOwnership } from './device-ownership.ts';
import { hostDiskImages } from './host-disk-images.ts';
import { type HotPlugDeps, type HotPlugOptions, hotPlugVolumes } from './hot-plug/index.ts';
import { guestLimits, type LimitOptions } from './limits/index.ts';
import { type PodNetworkOptions, podNamespaces, podNetwork, type TapLabelOptions, tapLabels } from './network/index.ts';
import { type PluginHookDeps, pluginHooks } from './plugin-hooks.ts';
import { virtiofsSockets } from './virtiofs/index.ts';
import type { HostFactsOf } from './work/index.ts';

export { containerDisks } from './container-disks/index.ts';
export { deviceOwnership } from './device-ownership.ts';
export { HostError } from './errors.ts';
export { launcherFileSizes } from './file-sizes.ts';
export { hostDiskImages } from './host-disk-images.ts';
export { type HotPlugDeps, hotPlugVolumes } from './hot-plug/index.ts';
export { LauncherRoot } from './launcher-root.ts';
export { guestLimits } from './limits/index.ts';
export { podNetwork } from './network/index.ts';
export { pluginHooks } from './plugin-hooks.ts';
export { virtiofsSockets } from './virtiofs/index.ts';
export * from './work/index.ts';

/** All hooks of this build, in the order in which they prepare: what is refused is refused before anything is made. */
export function hostHooks(
  options: DeviceOwnershipOptions &
    ContainerDiskOptions &
    HotPlugOptions &
    PodNetworkOptions &
    TapLabelOptions &
    LimitOptions,
  deps: ContainerDiskDeps & HotPlugDeps & PluginHookDeps,
) {
  return [
    pluginHooks(deps),
    containerDisks(options, deps),
    hostDiskImages(options, deps),
    hotPlugVolumes(options, deps),
    podNetwork(options, podNamespaces(options.procDir, tapLabels(options, deps.log))),
    deviceOwnership(options),
    virtiofsSockets(options),
    guestLimits(options),
  ] as const;
}

/** What hooks of this build give, by hook: for sync options and for the status. */
export type HostWorkFacts = HostFactsOf<ReturnType<typeof hostHooks>>;
