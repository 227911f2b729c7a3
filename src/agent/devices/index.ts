/**
 * Owns: which devices of this node the kubelet may give to launchers, what there is of them, and what a container gets:
 * kvm, tun, vhost-net and others as tokens, PCI, mediated and USB devices as the KubeVirt object permits them.
 * Must not know: how the kubelet is spoken to, VMIs, Kubernetes, who asks for problems.
 */
export { NodeDevices, type NodeDevicesOptions } from './node-devices.ts';
