/**
 * Owns: the privileged half of a pod's network: what links, addresses, settings and address translation each interface of a VMI needs, bringing them about in
 * the launcher's network namespace, and upstream's files of it.
 * Must not know: what libvirt and DHCP servers make of it; when it is done.
 */
export { podNamespaces } from './pod-namespace.ts';
export { type PodNetworkOptions, podNetwork } from './pod-network.ts';
export { type TapLabelOptions, tapLabels } from './tap-labels.ts';
