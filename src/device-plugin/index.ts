/**
 * Owns: the plugin's side of the kubelet's device plugin API v1beta1: one socket per resource, registration with the kubelet
 * that runs now, lists of devices, allocation; everything again after a restart of the kubelet.
 * Must not know: which devices there are, KubeVirt, how health is found out.
 */
export type { Allocation, PluginDevice } from './device.ts';
export { DevicePlugins, type PluginHandle, type PluginReport } from './device-plugins.ts';
export { DevicePluginError } from './errors.ts';
