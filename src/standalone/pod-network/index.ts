/**
 * Owns: the standalone node's own network for pods: its subnets, bridge, packet filter and DNS server, the address of each pod, what the kernel forwards for it, and that all of it
 * goes again.
 * Must not know: what runs in pods, how they are started, VMIs.
 */
export { isPodNetworkWish, type PodNetworkWish } from './choice.ts';
export type { DnsProgram } from './dns.ts';
export { hostLinkOf } from './leases.ts';
export { PodNetwork, type PodNetworkDeps, type PodNetworkOptions } from './pod-network.ts';
