/**
 * Owns: the standalone node's own network for pods: its subnets, bridge, packet filter and DNS server, the address of each pod, what the kernel forwards for it, and that all of it
 * goes again.
 * Must not know: what runs in pods, how they are started, VMIs.
 */
export { isPodNetworkWish } from './choice.ts';
export { addressableName, type Name } from './dns.ts';
export { hostLinkOf } from './leases.ts';
export { bridgeOf } from './names.ts';
export { PodNetwork, type PublishedServices } from './pod-network.ts';
export type { PublishedPort } from './service-rules.ts';
export { addressAt, seedOf } from './subnets.ts';
