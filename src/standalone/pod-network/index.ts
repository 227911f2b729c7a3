/**
 * Owns: the standalone node's own network for pods: its subnets, bridge, packet filter and DNS server, the address of each pod, what the kernel forwards for it, and that all of it
 * goes again.
 * Must not know: what runs in pods, how they are started, VMIs.
 */
export { isPodNetworkWish } from './choice.ts';
export { hostLinkOf } from './leases.ts';
export { bridgeOf } from './names.ts';
export { PodNetwork } from './pod-network.ts';
