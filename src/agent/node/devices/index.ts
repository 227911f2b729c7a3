/**
 * Owns: which devices of this node the kubelet may give to launchers, what there is of them, and what a container gets:
 * kvm, tun, vhost-net and others as tokens, PCI, mediated and USB devices as the KubeVirt object permits them; making the mediated
 * ones that it asks for.
 * Must not know: how the kubelet is spoken to, VMIs, Kubernetes, who asks for problems.
 */
export { MediatedDevices } from './mediated-devices.ts';
export { NodeDevices, type NodeDevicesOptions } from './node-devices.ts';
